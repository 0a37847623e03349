"""The loop body shared by WC-MHGD, MGDA and linear scalarisation: lower solver x hypergradient x weighting."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from bipareto.errors import message, positive_number
from bipareto.hypergradient import Estimate, Hypergradient, check_convergence, check_sampling, draws_batches, estimate
from bipareto.lower import GradientDescent, Step, as_step
from bipareto.oracles import Oracles, zero_values
from bipareto.precision import product
from bipareto.sampling import Batches, Draws
from bipareto.solver import Algorithm, Record, State
from bipareto.status import Status
from bipareto.weighting import SmoothChebyshev, WeightedChebyshev, Weighting, descent_margin, weighed


class HypergradientDescent(Algorithm):
    """Alternate descent on the lower level and one weighted hypergradient step (Algorithm 1).

    y_k^D from y_{k-1}^D by `lower`; all hypergradients by `hypergradient`; weights w by `weighting`; then
    x_{k+1} = x_k - beta sum_s w_s grad phi_s.
    """

    lower: GradientDescent
    hypergradient: Hypergradient
    weighting: Weighting
    upper: Step
    batches: Batches
    average: Any

    def __init__(
        self, lower: Any, hypergradient: Any, weighting: Any, step_size: Any, batches: Any = None, average: Any = 0.0
    ):
        parts = (
            ("lower", lower, GradientDescent, "bp.GradientDescent(step_size, steps)"),
            ("hypergradient", hypergradient, Hypergradient, "bp.CG(), bp.Unrolled() or bp.Neumann()"),
            ("weighting", weighting, Weighting, "bp.WeightedChebyshev(preference)"),
            ("batches", Batches() if batches is None else batches, Batches, "bp.Batches(lower=..., upper=..., cross=...)"),
        )
        for name, part, kind, example in parts:
            if not isinstance(part, kind):
                raise TypeError(message(name, f"be a {kind.__name__}", repr(part), f"pass {example}"))
        self.lower = lower
        self.hypergradient = hypergradient
        self.weighting = weighting
        self.upper = as_step("step_size", step_size)
        self.batches = Batches() if batches is None else batches
        self.average = positive_number("average", average, "pass the share of the past, 0 <= average < 1", zero=True)
        if not self.average < 1:
            raise ValueError(message("average", "be below 1", float(self.average), "0.9 remembers about ten steps"))

    @property
    def takes_preference(self):
        return isinstance(self.weighting, (WeightedChebyshev, SmoothChebyshev))

    def prefer(self, preference):
        return eqx.tree_at(lambda algorithm: algorithm.weighting.preference, self, preference)

    @property
    def reference(self):
        return self.weighting.reference if isinstance(self.weighting, (WeightedChebyshev, SmoothChebyshev)) else 0.0

    @property
    def draws(self):
        return draws_batches(self.hypergradient, self.batches)

    def init(self, oracles, x, y, key):
        self.weighting.preference_of(oracles.objectives)
        check_sampling(oracles, self.hypergradient, self.batches, key)
        check_convergence(oracles, self.hypergradient, x, y)
        dual = oracles.zero_dual(self.weighting.values_only)
        average = zero_values(oracles, x, y)
        return State(jnp.int32(0), x, y, dual, average, self.weighting.init(), self.upper.init(x))

    def step(self, oracles, state, key):
        def averaged(values):
            """Exponential average without the bias of its start; the values themselves for average = 0."""
            share = jnp.asarray(self.average, values.dtype)
            total = share * state.average + (1 - share) * values
            return total, total / (1 - share ** (state.step + 1))

        weigh = (lambda v: self.weighting(averaged(v)[1], None, state.memory)[0]) if self.weighting.values_only else None
        draws = self._draws(oracles, state, key)
        found = estimate(draws, self.hypergradient, self.lower, state.x, state.y, state.dual, weigh)
        gram = product(found.jacobian, found.jacobian.T)
        average, heights = averaged(found.values)
        weights, memory, gap = weighed(self.weighting, heights, gram, state.memory)
        mix = jnp.ones(1, weights.dtype) if self.weighting.values_only else weights
        direction = product(mix.astype(state.x.dtype), found.jacobian)
        updates, upper = self.upper.update(direction, state.upper, state.x)
        x = state.x + jnp.asarray(updates)
        verdict = found.verdict.unless(~jnp.isfinite(weights), Status.NON_FINITE_WEIGHTS)
        verdict = verdict.unless(~jnp.isfinite(x).all(), Status.NON_FINITE_STEP)
        after = State(state.step + 1, x, found.y, found.dual, average, memory, upper)
        return after, self._record(oracles, found, gram, weights, gap), verdict

    def _draws(self, oracles: Oracles, state: State, key: Any) -> Draws:
        return Draws(oracles, self.batches, jax.random.fold_in(key, state.step) if self.draws else None)

    def _record(self, oracles: Oracles, found: Estimate, gram: Array, weights: Array, gap: Array) -> Record:
        if self.weighting.values_only:
            direction = gram[0, 0]
            margin = jnp.full_like(direction, jnp.nan)
        else:
            direction = product(product(weights, gram), weights)
            r = jnp.asarray(self.weighting.preference_of(oracles.objectives), weights.dtype)
            margin = descent_margin(gram, weights, r)
        residuals = found.lower_residual, found.dual_residual
        return Record(found.values, weights, gram, gap, margin, direction, *residuals, found.counts)

    def evaluate(self, oracles, state, key):
        y = self._draws(oracles, state, key).descend(self.lower, state.x, state.y).end
        return oracles.upper(oracles.prepare(state.x).upper, y)[0], y

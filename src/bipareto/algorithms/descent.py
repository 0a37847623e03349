"""The loop body shared by WC-MHGD, MGDA and linear scalarisation: lower solver x hypergradient x weighting."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from bipareto.errors import message
from bipareto.hypergradient import Estimate, Hypergradient, estimate
from bipareto.lower import GradientDescent, Step, as_step
from bipareto.oracles import Oracles
from bipareto.solver import Algorithm, Record, State
from bipareto.status import Status
from bipareto.weighting import Weighting, descent_margin, stationarity_gap


class HypergradientDescent(Algorithm):
    """Alternate descent on the lower level and one weighted hypergradient step (Algorithm 1).

    y_k^D from y_{k-1}^D by `lower`; all hypergradients by `hypergradient`; weights w by `weighting`; then
    x_{k+1} = x_k - beta sum_s w_s grad phi_s.
    """

    lower: GradientDescent
    hypergradient: Hypergradient
    weighting: Weighting
    upper: Step

    def __init__(self, lower: Any, hypergradient: Any, weighting: Any, step_size: Any):
        parts = (
            ("lower", lower, GradientDescent, "bp.GradientDescent(step_size, steps)"),
            ("hypergradient", hypergradient, Hypergradient, "bp.CG(), bp.Unrolled() or bp.Neumann()"),
            ("weighting", weighting, Weighting, "bp.WeightedChebyshev(preference)"),
        )
        for name, part, kind, example in parts:
            if not isinstance(part, kind):
                raise TypeError(message(name, f"be a {kind.__name__}", repr(part), f"pass {example}"))
        self.lower = lower
        self.hypergradient = hypergradient
        self.weighting = weighting
        self.upper = as_step("step_size", step_size)

    def init(self, oracles, x, y):
        self.weighting.preference_of(oracles.objectives)
        dual = oracles.zero_dual(self.weighting.values_only)
        return State(x, y, dual, self.weighting.init(), self.upper.init(x))

    def step(self, oracles, state):
        weigh = (lambda v: self.weighting(v, None, state.memory)[0]) if self.weighting.values_only else None
        found = estimate(oracles, self.hypergradient, self.lower, state.x, state.y, state.dual, weigh)
        gram = found.jacobian @ found.jacobian.T
        weights, memory = self.weighting(found.values, gram, state.memory)
        mix = jnp.ones(1, weights.dtype) if self.weighting.values_only else weights
        direction = mix.astype(state.x.dtype) @ found.jacobian
        updates, upper = self.upper.update(direction, state.upper, state.x)
        x = state.x + jnp.asarray(updates)
        verdict = found.verdict.unless(~jnp.isfinite(weights), Status.NON_FINITE_WEIGHTS)
        verdict = verdict.unless(~jnp.isfinite(x).all(), Status.NON_FINITE_STEP)
        return State(x, found.y, found.dual, memory, upper), self._record(oracles, found, gram, weights), verdict

    def _record(self, oracles: Oracles, found: Estimate, gram: Array, weights: Array) -> Record:
        if self.weighting.values_only:
            direction = gram[0, 0]
            gap, margin = direction / jnp.sum(weights) ** 2, jnp.full_like(direction, jnp.nan)
        else:
            direction = weights @ gram @ weights
            r = jnp.asarray(self.weighting.preference_of(oracles.objectives), weights.dtype)
            gap, margin = stationarity_gap(gram), descent_margin(gram, weights, r)
        residuals = found.lower_residual, found.dual_residual
        return Record(found.values, weights, gram, gap, margin, direction, *residuals, found.counts)

    def evaluate(self, oracles, x, y):
        prepared = oracles.prepare(x)
        y = self.lower(lambda y: oracles.lower_gradient(prepared.lower, y), y).end
        return oracles.upper(prepared.upper, y)[0], y

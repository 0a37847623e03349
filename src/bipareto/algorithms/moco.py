"""MoCo: hypergradients and weights that are tracked over the steps, against the bias of weights found from noise."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from bipareto.algorithms.unguided import Unguided, as_batches, drawn, record, stepped
from bipareto.errors import message, positive_number
from bipareto.hypergradient import CG, Hypergradient, check_convergence, check_sampling, draws_batches, estimate
from bipareto.lower import Decaying, GradientDescent, Step, as_schedule, as_step
from bipareto.oracles import zero_values
from bipareto.precision import product
from bipareto.sampling import Batches
from bipareto.simplex import simplex_qp
from bipareto.solver import State


class MoCo(Unguided):
    """Y_s <- Y_s - beta_k (Y_s - h_s), lam <- Proj(lam - gamma_k (Y Y' + rho I) lam), x <- x - alpha_k sum_s lam_s Y_s.

    See `moco`.
    """

    lower: GradientDescent
    hypergradient: Hypergradient
    upper: Step
    tracking: Callable
    weights_step: Callable
    rho: Any
    batches: Batches

    @property
    def draws(self):
        return draws_batches(self.hypergradient, self.batches)

    def init(self, oracles, x, y, key):
        check_sampling(oracles, self.hypergradient, self.batches, key)
        check_convergence(oracles, self.hypergradient, x, y)
        average = zero_values(oracles, x, y)
        count = oracles.objectives
        memory = jnp.zeros((count, x.size), x.dtype), jnp.full(count, 1 / count, average.dtype)
        return State(jnp.int32(0), x, y, oracles.zero_dual(False), average, memory, self.upper.init(x))

    def step(self, oracles, state, key):
        tracked, lam = state.memory
        found = estimate(self._draws(oracles, state, key), self.hypergradient, self.lower, state.x, state.y, state.dual)
        share = jnp.asarray(self.tracking(state.step), tracked.dtype)
        tracked = tracked - share * (tracked - found.jacobian)
        gram = product(tracked, tracked.T).astype(lam.dtype)
        size, rho = jnp.asarray(self.weights_step(state.step), lam.dtype), jnp.asarray(self.rho, lam.dtype)
        moved = lam - size * (product(gram, lam) + rho * lam)
        lam = simplex_qp(jnp.eye(len(lam), dtype=lam.dtype), 2 * moved)  # |z|^2 - 2 <moved, z>: the Euclidean projection
        direction = product(lam.astype(state.x.dtype), tracked)
        updates, upper = self.upper.update(direction, state.upper, state.x)
        x = state.x + jnp.asarray(updates)
        after = State(state.step + 1, x, found.y, found.dual, state.average, (tracked, lam), upper)
        residuals = found.lower_residual, found.dual_residual
        told = record(found.values, lam, found.jacobian, direction, *residuals, found.counts)
        return after, told, stepped(found.verdict, lam, x)

    def _draws(self, oracles, state, key):
        return drawn(oracles, self.hypergradient, self.batches, state, key)

    def evaluate(self, oracles, state, key):
        y = self._draws(oracles, state, key).descend(self.lower, state.x, state.y).end
        return oracles.upper(oracles.prepare(state.x).upper, y)[0], y


def moco(
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: Hypergradient | None = None,
    batches: Batches | None = None,
    tracking: Any = None,
    weights_step: Any = None,
    rho: float = 0.0,
) -> MoCo:
    """MoCo (Fernando et al., "Mitigating gradient bias in multi-objective learning", ICLR 2023):

    Y_s <- Y_s - beta_k (Y_s - h_s),  lam <- Proj(lam - gamma_k (Y Y' + rho I) lam),  x <- x - alpha_k sum_s lam_s Y_s,

    h_s a (stochastic) hypergradient, Proj the Euclidean projection onto the simplex (softmax, which is met in its place, is
    another method). From the paper: the recursions, and the defaults beta_k = gamma_k = 0.1/sqrt(k+1) (`tracking`,
    `weights_step`: numbers or schedules), rho = 0. Our choice: Y starts at 0, lam at 1/S, each line sees the results of
    those before it. The record's Gram matrix and gap are of the h_s, its `direction` is ||sum_s lam_s Y_s||^2.
    """
    method = CG() if hypergradient is None else hypergradient
    if not isinstance(method, Hypergradient):
        remedy = "pass bp.CG(), bp.StochasticNeumann() or bp.Unrolled()"
        raise TypeError(message("hypergradient", "be a Hypergradient", repr(method), remedy))
    slow = Decaying(0.1, 0.5)
    return MoCo(
        GradientDescent(lower_step_size, lower_steps),
        method,
        as_step("step_size", step_size),
        as_schedule("tracking", slow if tracking is None else tracking),
        as_schedule("weights_step", slow if weights_step is None else weights_step),
        positive_number("rho", rho, "0 in the paper", zero=True),
        as_batches(batches),
    )

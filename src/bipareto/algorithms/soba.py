"""SOBA: x, y and the adjoints move together, each by one step from the same point."""

from typing import Any

import jax
import jax.numpy as jnp

from bipareto.algorithms.unguided import (
    Unguided,
    check_constant,
    drawn,
    judged,
    norms,
    one_lower_batch,
    record,
    stepped,
)
from bipareto.hypergradient import check_sampling, draws_batches
from bipareto.lower import Decaying, Step, as_step
from bipareto.oracles import OracleCounts, zero_values
from bipareto.precision import product
from bipareto.sampling import Batches
from bipareto.solver import State
from bipareto.weighting import Linear


class Soba(Unguided):
    """y <- y - rho_t grad_y g, v_s <- v_s - rho_t (H v_s - b_s), x <- x - gamma_t sum_s w_s (grad_x f_s - J v_s).

    See `soba`.
    """

    weighting: Linear
    upper: Step
    lower: Step
    adjoint: Step
    batches: Batches

    @property
    def draws(self):
        return draws_batches(None, self.batches)

    def init(self, oracles, x, y, key):
        self.weighting.preference_of(oracles.objectives)
        check_sampling(oracles, None, self.batches, key)
        check_constant("lower_step_size", self.lower, oracles, x, y)
        check_constant("adjoint_step_size", self.adjoint, oracles, x, y)
        dual = oracles.zero_dual(False)
        memory = self.lower.init(y), self.adjoint.init(dual)
        return State(jnp.int32(0), x, y, dual, zero_values(oracles, x, y), memory, self.upper.init(x))

    def step(self, oracles, state, key):
        draws = drawn(oracles, None, self.batches, state, key)
        sampled, x, y, v = draws.point(), state.x, state.y, state.dual
        prepared = sampled.prepare(x)
        values, differentiate = sampled.upper(prepared.upper, y)
        slopes, b = differentiate(None)
        slope = sampled.lower_gradient(prepared.lower, y)
        residual = sampled.hessian(prepared.lower, y)(v) - b
        through = jax.tree.map(jnp.negative, sampled.cross(prepared.lower, y, v))
        jacobian = sampled.pull_back(x, slopes, through, False)
        weights, _ = self.weighting(values, None, ())
        direction = product(weights.astype(x.dtype), jacobian)
        (move_y, lower), (move_v, adjoint) = (
            self.lower.update(slope, state.memory[0], y),
            self.adjoint.update(residual, state.memory[1], v),
        )
        move_x, upper = self.upper.update(direction, state.upper, x)
        x, y, v = x + jnp.asarray(move_x), y + jnp.asarray(move_y), v + jnp.asarray(move_v)
        after = State(state.step + 1, x, y, v, state.average, (lower, adjoint), upper)
        told = record(values, weights, jacobian, direction, norms(slope.ravel()), norms(residual), self._counts(draws))
        return after, told, stepped(judged(values, b, v, jacobian, slope), weights, x, y)

    def _counts(self, draws):
        objectives, products = draws.oracles.objectives, draws.oracles.products
        upper, lower = draws.samples("upper", self.batches.upper), draws.samples("lower", self.batches.cross)
        return OracleCounts(*(jnp.int32(n) for n in (2 * objectives * upper, lower, products * lower, products * lower)))

    def evaluate(self, oracles, state, key):
        return oracles.upper(oracles.prepare(state.x).upper, state.y)[0], state.y


def soba(
    weights: Any = (1.0,),
    step_size: Any = None,
    lower_step_size: Any = None,
    adjoint_step_size: Any = None,
    batches: Batches | None = None,
) -> Soba:
    """SOBA (Dagreou, Ablin, Vaiter and Moreau, "A framework for bilevel optimization ...", NeurIPS 2022): a single loop,

    y <- y - rho_t grad_y g,  v_s <- v_s - rho_t (H v_s - grad_y f_s),  x <- x - gamma_t sum_s w_s (grad_x f_s - J v_s),

    all from the same (x, y, v). From the paper: S = 1, one sample of each level for all three lines (`batches.upper` and
    `batches.cross`), rho_t and gamma_t falling like 1/sqrt(t+1); its v has the opposite sign. Our choice: the first steps
    are 0.1, the adjoint may have a step of its own (None: that of y), v starts at 0. For S > 1 fixed `weights` and S
    adjoints, so that the record has the Gram matrix of all S hypergradients; the direction alone would need one product
    with J. Values at the end are taken at the y of the loop, with no lower steps more.
    """
    lower = Decaying(0.1, 0.5) if lower_step_size is None else lower_step_size
    return Soba(
        Linear(weights),
        as_step("step_size", Decaying(0.1, 0.5) if step_size is None else step_size),
        as_step("lower_step_size", lower),
        as_step("adjoint_step_size", lower if adjoint_step_size is None else adjoint_step_size),
        one_lower_batch(batches),
    )

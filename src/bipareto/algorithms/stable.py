"""STABLE: the second derivatives themselves, as matrices averaged over the steps; for small lower levels only."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

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
from bipareto.errors import message, positive_number
from bipareto.hypergradient import check_sampling, draws_batches
from bipareto.lower import Step, as_step
from bipareto.oracles import OracleCounts, Oracles, zero_values
from bipareto.precision import product
from bipareto.sampling import Batches
from bipareto.solver import State
from bipareto.weighting import Linear

MOST_ENTRIES = 10**7


class Stable(Unguided):
    """C <- P((1 - tau)(C - c(z_{k-1}; xi)) + c(z_k; xi)) for C = H and C = J', steps with H^-1 from C. See `stable`."""

    weighting: Linear
    upper: Step
    lower: Step
    tau: Any
    bound: Any
    convexity: Any
    batches: Batches

    @property
    def draws(self):
        return draws_batches(None, self.batches)

    def init(self, oracles, x, y, key):
        self.weighting.preference_of(oracles.objectives)
        check_sampling(oracles, None, self.batches, key)
        q = y.shape[-1]
        entries = y.size * (q + x.size)
        if entries > MOST_ENTRIES:
            rule = f"be small for STABLE, which keeps q x q and q x p matrices of at most {MOST_ENTRIES} entries"
            found = f"q = {q} and p = {x.size}: {entries} entries"
            raise ValueError(message("y0", rule, found, "use bp.soba, bp.amigo or bp.stocbio: they need products only"))
        check_constant("lower_step_size", self.lower, oracles, x, y)
        blocks = y.size // q
        curvature, coupling = jnp.zeros((blocks, q, q), y.dtype), jnp.zeros((blocks, q, x.size), x.dtype)
        memory = curvature, coupling, x, y, self.lower.init(y)
        return State(jnp.int32(0), x, y, oracles.zero_dual(False), zero_values(oracles, x, y), memory, self.upper.init(x))

    def step(self, oracles, state, key):
        draws = drawn(oracles, None, self.batches, state, key)
        sampled, x, y = draws.point(), state.x, state.y
        prepared = sampled.prepare(x)
        values, differentiate = sampled.upper(prepared.upper, y)
        slopes, b = differentiate(None)
        slope = sampled.lower_gradient(prepared.lower, y)
        curvature, coupling = self._averaged(sampled, state)
        v = jnp.linalg.solve(curvature, b[..., None])[..., 0]
        jacobian = sampled.pull_back(x, slopes, None, False) - product(v[:, None], coupling)[:, 0]
        weights, _ = self.weighting(values, None, ())
        direction = product(weights.astype(x.dtype), jacobian)
        move_x, upper = self.upper.update(direction, state.upper, x)
        move_y, lower = self.lower.update(slope, state.memory[-1], y)
        followed = jnp.linalg.solve(curvature, product(coupling, jnp.asarray(move_x)[:, None]))  # H^-1 J'(x+ - x)
        new_x, new_y = x + jnp.asarray(move_x), y + jnp.asarray(move_y) - followed.reshape(y.shape)
        memory = curvature, coupling, x, y, lower
        after = State(state.step + 1, new_x, new_y, v, state.average, memory, upper)
        counts = self._counts(draws, y.shape[-1], state.step)
        told = record(values, weights, jacobian, direction, norms(slope.ravel()), jnp.zeros_like(b[:, 0]), counts)
        return after, told, stepped(judged(values, b, v, jacobian, slope), weights, new_x, new_y)

    def _averaged(self, sampled: Oracles, state: State) -> tuple[Array, Array]:
        """H and J' of the step, projected; the first step, which has no point before it, takes its sample."""
        *before, old_x, old_y, _ = state.memory
        tau = jnp.where(state.step == 0, 1, jnp.asarray(self.tau, state.y.dtype))
        old, new = matrices(sampled, old_x, old_y), matrices(sampled, state.x, state.y)
        curvature, coupling = ((1 - tau) * (c - o) + n for c, o, n in zip(before, old, new, strict=True))
        size, basis = jnp.linalg.eigh((curvature + jnp.swapaxes(curvature, 1, 2)) / 2)
        size = jnp.maximum(size, jnp.asarray(self.convexity, size.dtype))
        curvature = product(basis * size[:, None], jnp.swapaxes(basis, 1, 2))
        if self.bound is not None:
            left, size, right = jnp.linalg.svd(coupling, full_matrices=False)
            coupling = product(left * jnp.minimum(size, jnp.asarray(self.bound, size.dtype))[:, None], right)
        return curvature, coupling

    def _counts(self, draws, q, step):
        upper, lower = draws.samples("upper", self.batches.upper), draws.samples("lower", self.batches.cross)
        columns = jnp.where(step == 0, 1, 2) * jnp.int32(q * lower)  # at the new point, and at the old one if there is one
        return OracleCounts(jnp.int32(2 * draws.oracles.objectives * upper), jnp.int32(lower), columns, columns)

    def evaluate(self, oracles, state, key):
        return oracles.upper(oracles.prepare(state.x).upper, state.y)[0], state.y


def matrices(oracles: Oracles, x: Array, y: Array) -> tuple[Float[Array, "B q q"], Float[Array, "B q p"]]:
    """H and J' of the B blocks of the lower level (one, or one per task), column by column: q products with each."""
    h, blocks = oracles.prepare(x).lower, y.reshape(-1, y.shape[-1])
    product = oracles.hessian(h, y)

    def column(unit):
        rows = jnp.broadcast_to(unit, blocks.shape)
        return product(rows), oracles.pull_back(x, None, oracles.cross(h, y, rows), False)

    columns = jax.vmap(column)(jnp.eye(y.shape[-1], dtype=y.dtype))
    curvature, coupling = (jnp.swapaxes(matrix, 0, 1) for matrix in columns)
    return curvature, coupling


def stable(
    weights: Any = (1.0,),
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    tau: float = 0.5,
    bound: float | None = None,
    convexity: float = 1e-3,
    batches: Batches | None = None,
) -> Stable:
    """STABLE (Chen, Sun, Xiao and Yin, "A single-timescale method for stochastic bilevel optimization", AISTATS 2022):

    x+ = x - a sum_s w_s (grad_x f_s - J H^-1 grad_y f_s),  y+ = y - b grad_y g - H^-1 J' (x+ - x),

    with averages C of H and J over the steps, C <- P((1 - tau)(C - c(z_{k-1}; xi_k)) + c(z_k; xi_k)), the same sample
    xi_k at both points; P keeps ||J|| <= `bound` (spectral norm; None: no bound) and H >= `convexity` I. Small q only: it
    keeps q x q and q x p matrices, and a problem for which these exceed 10^7 entries is refused.

    From the paper: all of this, for S = 1. Our choice: the defaults; the first averages are the first samples; one sample of
    the lower level for its gradient, H and J (`batches.cross`); for S > 1 fixed `weights`; one pair of blocks per task where
    the lower level is separable. Counts: q products with each of H and J at both points.
    """
    tau = positive_number("tau", tau, "1 keeps no average")
    if not tau <= 1:
        raise ValueError(message("tau", "be at most 1", float(tau), "it is the share of the new sample"))
    remedy = "pass a bound of the spectral norm of J, or None"
    return Stable(
        Linear(weights),
        as_step("step_size", step_size),
        as_step("lower_step_size", lower_step_size),
        tau,
        None if bound is None else positive_number("bound", bound, remedy),
        positive_number("convexity", convexity, "pass mu, a lower bound of the curvature of `lower` in y"),
        one_lower_batch(batches),
    )

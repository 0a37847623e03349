"""FORUM: first order only; (x, y) descends on all objectives while the value-function gap of the lower level falls."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from bipareto.algorithms.unguided import Unguided, norms, stepped
from bipareto.errors import positive_number
from bipareto.lower import Decaying, GradientDescent, Step, as_schedule, as_step
from bipareto.oracles import OracleCounts, Oracles, zero_values
from bipareto.precision import full_precision, product
from bipareto.simplex import simplex_qp
from bipareto.solver import Record, State
from bipareto.status import Status, Verdict, rows_not_finite
from bipareto.weighting import descent_margin


class Forum(Unguided):
    """(x, y) <- (x, y) + beta d, d = -(sum_s lam_s g_s + nu g_q). See `forum`."""

    lower: GradientDescent
    upper: Step
    rho: Any
    averaging: Callable

    @property
    def draws(self):
        return False

    def init(self, oracles, x, y, key):
        count, average = oracles.objectives, zero_values(oracles, x, y)
        lam = jnp.full(count, 1 / count, average.dtype)
        z = jnp.concatenate([x, y.ravel().astype(x.dtype)])
        return State(jnp.int32(0), x, y, oracles.zero_dual(False), average, lam, self.upper.init(z))

    def step(self, oracles, state, key):
        x, y = state.x, state.y
        values, rows, barrier, slope, verdict = self._gradients(oracles, x, y)
        rho = jnp.asarray(self.rho, rows.dtype)
        lam, _ = multipliers(rows, barrier, rho)
        share = jnp.asarray(self.averaging(state.step), lam.dtype)
        mean = state.memory + share * (lam.astype(state.memory.dtype) - state.memory)
        weights = mean.astype(rows.dtype)
        direction = product(weights, rows) + penalty(rows, barrier, rho, weights) * barrier
        z = jnp.concatenate([x, y.ravel().astype(x.dtype)])
        updates, upper = self.upper.update(direction, state.upper, z)
        z = z + jnp.asarray(updates)
        new_x, new_y = z[: x.size], z[x.size :].reshape(y.shape).astype(y.dtype)
        after = State(state.step + 1, new_x, new_y, state.dual, state.average, mean, upper)
        told = self._record(oracles, values, mean, rows, barrier, direction, slope)
        return after, told, stepped(verdict, weights, z)

    def _gradients(self, oracles: Oracles, x: Array, y: Array):
        """Values, rows g_s = (grad_x f_s, grad_y f_s), g_q, ||grad_y g||, and what went wrong."""
        prepared = oracles.prepare(x)
        path = self.lower(lambda y, t: oracles.lower_gradient(prepared.lower, y), y)
        values, differentiate = oracles.upper(prepared.upper, y)
        slopes, b = differentiate(None)
        in_y = b if y.ndim == 1 else (jnp.eye(len(b), dtype=b.dtype)[..., None] * b).reshape(len(b), -1)
        rows = jnp.concatenate([oracles.pull_back(x, slopes, None, False), in_y.astype(x.dtype)], axis=1)
        here, there = (oracles.pull_back(x, None, oracles.lower_slopes(prepared.lower, y), True)[0] for y in (y, path.end))
        slope = oracles.lower_gradient(prepared.lower, y).ravel()
        barrier = jnp.concatenate([here - there, slope.astype(x.dtype)])
        verdict = (
            Verdict.fine()
            .unless(~path.starts_finite, Status.NON_FINITE_LOWER)
            .unless(path.overshot, Status.LOWER_OVERSHOT)
            .unless(rows_not_finite(values), Status.NON_FINITE_VALUE)
            .unless(rows_not_finite(rows), Status.NON_FINITE_UPPER_GRADIENT)
            .unless(~jnp.isfinite(barrier).all(), Status.NON_FINITE_LOWER)
        )
        return values, rows, barrier, norms(slope), verdict

    @full_precision
    def _record(self, oracles, values, weights, rows, barrier, direction, slope) -> Record:
        gram = rows @ rows.T
        lam, nu = multipliers(rows, barrier, jnp.zeros((), rows.dtype))
        residual = jnp.sum((lam @ rows + nu * barrier) ** 2)
        margin = descent_margin(gram, weights.astype(gram.dtype), jnp.ones_like(lam))
        counts = (2 * oracles.objectives, self.lower.steps + 3, 0, 0)
        counts = OracleCounts(*(jnp.int32(count) for count in counts))
        none = jnp.zeros(len(rows), rows.dtype)
        return Record(values, weights, gram, residual, margin, jnp.sum(direction**2), slope, none, counts)

    def evaluate(self, oracles, state, key):
        prepared = oracles.prepare(state.x)
        y = self.lower(lambda y, t: oracles.lower_gradient(prepared.lower, y), state.y).end
        return oracles.upper(prepared.upper, y)[0], y


@full_precision
def multipliers(
    rows: Float[Array, "S n"], barrier: Float[Array, " n"], rho: Float[Array, ""]
) -> tuple[Float[Array, " S"], Float[Array, ""]]:
    """lam on the simplex and nu >= 0 that minimise |sum_s lam_s g_s + nu g_q|^2 / 2 - nu rho |g_q|^2.

    The dual of min_d max_s <g_s, d> + |d|^2 / 2 subject to <g_q, d> <= -rho |g_q|^2, whose solution is then
    d = -(sum_s lam_s g_s + nu g_q). With nu free its best value is sum_s lam_s pi_s, pi_s = rho - <g_q, g_s> / |g_q|^2, and
    what is left is a quadratic program on the simplex for the parts of g_s orthogonal to g_q. By convexity that nu is the
    solution where it is positive, and nu = 0 elsewhere.
    """
    along, square = rows @ barrier, jnp.sum(barrier**2)
    across = rows - jnp.outer(along / jnp.where(square > 0, square, 1), barrier)
    bound = simplex_qp(across @ across.T, -2 * rho * along)
    nu = penalty(rows, barrier, rho, bound)
    return jnp.where(nu > 0, bound, simplex_qp(rows @ rows.T)), nu


@full_precision
def penalty(rows: Array, barrier: Array, rho: Array, lam: Array) -> Float[Array, ""]:
    """nu = max(0, sum_s lam_s pi_s): the least with which the direction meets the bound on <g_q, d>."""
    square = jnp.sum(barrier**2)
    return jnp.where(square > 0, jnp.maximum(rho - lam @ (rows @ barrier) / jnp.where(square > 0, square, 1), 0), 0)


def forum(
    step_size: Any = 0.1, lower_step_size: Any = 0.1, lower_steps: int = 32, rho: float = 0.5, averaging: Any = None
) -> Forum:
    """FORUM (Ye, Lin, Cao, Zhang and Tsang, "A first-order multi-gradient algorithm for multi-objective bi-level
    optimization", ECAI 2024): with w the end of D steps on g(x, .) from y, g_q = (grad_x g(x, y) - grad_x g(x, w),
    grad_y g(x, y)) and g_s = (grad_x f_s, grad_y f_s), the step of (x, y) is the solution of

    min_d max_s <g_s, d> + |d|^2 / 2 subject to <g_q, d> <= -rho |g_q|^2, that is d = -(sum_s lam_s g_s + nu g_q),

    with lam averaged over the steps, mean <- mean + beta_k (lam - mean), and nu = max(0, sum_s mean_s pi_s) (`multipliers`).

    From the paper: all of this, without batches; `averaging` beta_k = (k+1)^(-3/4). The comparison in the WC-MHGD paper has
    rho = 2 and beta_k = 1/(2(k+1)): `forum(rho=2.0, averaging=bp.Decaying(0.5, 1.0))`. Our choice: rho = 0.5; the mean
    starts at 1/S; lam from an exact quadratic program; one step size for x and y.

    As the lower level settles g_q vanishes and nu grows: y then moves by nu `step_size` against grad_y g, so that a constant
    step size leaves y - and x - within a distance of that order; let it fall to end at a point. There are no hypergradients:
    `gram` is that of the g_s, `gap` the KKT residual min over lam and nu >= 0 of |sum_s lam_s g_s + nu g_q|^2, to be read
    with `lower_residual` = ||grad_y g(x, y)||. Values at the end are taken at w.
    """
    return Forum(
        GradientDescent(lower_step_size, lower_steps),
        as_step("step_size", step_size),
        positive_number("rho", rho, "pass how fast the lower level's gap must fall, such as 0.5", zero=True),
        as_schedule("averaging", Decaying(1.0, 0.75) if averaging is None else averaging),
    )

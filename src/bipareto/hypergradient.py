"""Hypergradients: grad phi_s = grad_x f_s - J v_s with H v_s = grad_y f_s, for all objectives at once.

`CG` solves the linear system at y^D, `Neumann` truncates its series at y^D, `Unrolled` differentiates through the lower
steps (the paper's "Neumann series" option).
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from bipareto.errors import flag, message, positive_number, whole_number
from bipareto.lower import GradientDescent
from bipareto.oracles import OracleCounts, Oracles, Prepared, bind
from bipareto.problem import Problem, SeparableProblem
from bipareto.status import Status, Verdict, rows_not_finite


class Adjoint(eqx.Module):
    """How the objectives react to x through y: slopes in h (one per row), and what their computation met."""

    slopes: PyTree
    dual: Float[Array, "B q"]
    residual: Float[Array, " B"]
    broken: Bool[Array, " B"]
    jvp: Int[Array, ""]
    hvp: Int[Array, ""]


class Hypergradient(eqx.Module):
    """Given b = grad_y f at the end of the lower path, the part of the hypergradient that comes through y."""

    broken_means: eqx.AbstractClassVar[Status]

    @abc.abstractmethod
    def __call__(self, oracles: Oracles, h: PyTree, y: Array, pull: Callable | None, b: Array, dual: Array) -> Adjoint:
        """`pull` is the pull-back through the lower path for `Unrolled`, None otherwise."""


class CG(Hypergradient):
    """N steps of conjugate gradients on H(x, y^D) v_s = b_s, all right-hand sides together (Option 1).

    `tolerance`: stop before `steps` once every ||b - H v|| <= tolerance ||b||. `warm_start`: begin at the dual of the last
    upper step, for one product more.
    """

    steps: int = eqx.field(static=True)
    tolerance: float | None = eqx.field(static=True)
    warm_start: bool = eqx.field(static=True)
    broken_means: ClassVar[Status] = Status.NOT_STRONGLY_CONVEX

    def __init__(self, steps: int = 10, tolerance: float | None = None, warm_start: bool = True):
        self.steps = whole_number("steps of CG", steps, "10 to 20 suit most problems")
        self.warm_start = flag("warm_start", warm_start)
        remedy = "pass a relative residual such as 1e-6, or None for a fixed number of steps"
        self.tolerance = None if tolerance is None else float(positive_number("tolerance of CG", tolerance, remedy))

    def __call__(self, oracles, h, y, pull, b, dual):
        product = oracles.hessian(h, y)
        dual = dual if self.warm_start else jnp.zeros_like(b)
        residual = b - product(dual) if self.warm_start else b
        square = _dots(residual, residual)
        # Below rounding nothing can be gained, and 0/0 looms.
        floor = (jnp.finfo(b.dtype).eps * jnp.sqrt(jnp.maximum(_dots(b, b), square))) ** 2
        target = floor if self.tolerance is None else jnp.maximum(floor, self.tolerance**2 * _dots(b, b))

        def step(carry):
            count, v, r, p, rr, broken = carry
            hp = product(p)
            curvature = _dots(p, hp)
            active = (rr > target) & ~broken
            broken = broken | (active & (curvature <= 0))
            active = active & ~broken
            length = jnp.where(active, rr / jnp.where(active, curvature, 1), 0)
            v, r = v + length[:, None] * p, r - length[:, None] * hp
            rr_next = jnp.where(active, _dots(r, r), rr)
            p = jnp.where(active[:, None], r + (rr_next / jnp.where(active, rr, 1))[:, None] * p, p)
            return count + 1, v, r, p, rr_next, broken

        start = (jnp.int32(0), dual, residual, residual, square, jnp.zeros(len(b), bool))
        if self.tolerance is None:
            end = jax.lax.fori_loop(0, self.steps, lambda _, carry: step(carry), start)
        else:
            going = lambda c: (c[0] < self.steps) & jnp.any((c[4] > target) & ~c[5])  # noqa: E731
            end = jax.lax.while_loop(going, step, start)
        count, v, _r, _, rr, broken = end
        slopes = jax.tree.map(jnp.negative, oracles.cross(h, y, v))
        products = jnp.int32(_products(oracles, b))
        return Adjoint(slopes, v, jnp.sqrt(rr), broken, products, products * (count + int(self.warm_start)))


class Neumann(Hypergradient):
    """v_s = eta sum_{i=0}^{N} (I - eta H(x, y^D))^i b_s; converges to H^-1 b_s for eta < 2/L."""

    terms: int = eqx.field(static=True)
    step_size: Any
    broken_means: ClassVar[Status] = Status.NEUMANN_DIVERGED

    def __init__(self, terms: int = 20, step_size: float = 0.1):
        self.terms = whole_number("terms of Neumann", terms, "the series needs at least one term after the first")
        self.step_size = positive_number("step_size of Neumann", step_size, "pass a number below 2/L")

    def __call__(self, oracles, h, y, pull, b, dual):
        product = oracles.hessian(h, y)
        eta = jnp.asarray(self.step_size, b.dtype)

        def add(_, carry):
            term, total = carry
            term = term - eta * product(term)
            return term, total + term

        last, total = jax.lax.fori_loop(0, self.terms, add, (b, b))
        v = eta * total
        # For 0 < eta < 2/L the factor contracts, so a last term longer than the first proves that eta is too large.
        length = jnp.sqrt(_dots(last, last))
        broken = ~(length <= 1.01 * jnp.sqrt(_dots(b, b)))
        slopes = jax.tree.map(jnp.negative, oracles.cross(h, y, v))
        products = jnp.int32(_products(oracles, b))
        return Adjoint(slopes, v, length, broken, products, products * self.terms)


class Unrolled(Hypergradient):
    """Differentiate y^D(x) through its D lower steps, y^0 held constant (Option 2, the paper's NS; errata E1, E2).

    Memory grows with D; `checkpoint` keeps the iterates only and recomputes the rest on the way back.
    """

    checkpoint: bool = eqx.field(static=True)
    broken_means: ClassVar[Status] = Status.NON_FINITE_DUAL

    def __init__(self, checkpoint: bool = False):
        self.checkpoint = flag("checkpoint", checkpoint)

    def __call__(self, oracles, h, y, pull, b, dual):
        assert pull is not None
        zero = jnp.zeros(len(b), b.dtype)
        none = jnp.int32(0)
        return Adjoint(pull(b), dual, zero, zero > 0, none, none)


class Estimate(eqx.Module):
    """Values and hypergradients at x, with all that the next upper step and the history want to know."""

    values: Float[Array, " S"]
    jacobian: Float[Array, "R p"]
    weights: Float[Array, " S"] | None
    y: Array
    dual: Float[Array, "B q"]
    lower_residual: Float[Array, ""]
    dual_residual: Float[Array, " B"]
    counts: OracleCounts
    verdict: Verdict


def estimate(
    oracles: Oracles,
    method: Hypergradient,
    lower: GradientDescent | None,
    x: Array,
    y: Array,
    dual: Array,
    weigh: Callable | None = None,
) -> Estimate:
    """Descend on the lower level (None: y is taken as it is), then differentiate.

    `weigh(values) -> weights` asks for the single hypergradient of the weighted objectives: one linear solve, not S.
    """
    prepared = oracles.prepare(x)
    y_end, pull, lower_residual, verdict = _descend(oracles, method, lower, prepared, y)
    values, differentiate = oracles.upper(prepared.upper, y_end)
    weights = None if weigh is None else weigh(values)
    slopes, b = differentiate(weights)
    adjoint = method(oracles, prepared.lower, y_end, pull, b, dual)
    jacobian = oracles.pull_back(x, slopes, adjoint.slopes, weights is not None)

    def rows(bad):  # a combination of objectives has rows, but no objective to name
        return bad if len(bad) == oracles.objectives else bad.any()

    verdict = (
        verdict.unless(rows_not_finite(values), Status.NON_FINITE_VALUE)
        .unless(rows(rows_not_finite(b)), Status.NON_FINITE_UPPER_GRADIENT)
        .unless(rows(adjoint.broken), method.broken_means)
        .unless(rows(rows_not_finite(adjoint.dual)), Status.NON_FINITE_DUAL)
        .unless(rows(rows_not_finite(jacobian)), Status.NON_FINITE_HYPERGRADIENT)
    )
    steps = 0 if lower is None else lower.steps
    unrolled = _products(oracles, b) * steps if isinstance(method, Unrolled) else 0
    counts = OracleCounts(
        jnp.int32(2 * oracles.objectives), jnp.int32(steps), adjoint.jvp + unrolled, adjoint.hvp + unrolled
    )
    return Estimate(values, jacobian, weights, y_end, adjoint.dual, lower_residual, adjoint.residual, counts, verdict)


def _descend(oracles: Oracles, method: Hypergradient, lower: GradientDescent | None, prepared: Prepared, y: Array):
    fine = jax.tree.map(lambda leaf: jnp.isfinite(leaf).all(), (prepared.upper, prepared.lower))
    verdict = Verdict.fine().unless(~jnp.stack(jax.tree.leaves(fine)).all(), Status.NON_FINITE_PREPARATION)
    if lower is None:
        slope = oracles.lower_gradient(prepared.lower, y)
        return y, None, jnp.sqrt(jnp.sum(slope**2)), verdict
    if isinstance(method, Unrolled):
        path, pull = oracles.unroll(prepared.lower, y, lower, method.checkpoint)
    else:
        path, pull = lower(lambda y: oracles.lower_gradient(prepared.lower, y), y), None
    verdict = verdict.unless(~path.starts_finite, Status.NON_FINITE_LOWER).unless(path.overshot, Status.LOWER_OVERSHOT)
    return path.end, pull, path.last, verdict


def hypergradient(
    problem: Problem | SeparableProblem,
    x: PyTree,
    y: PyTree,
    method: Hypergradient | None = None,
    *,
    lower: GradientDescent | None = None,
) -> tuple[Float[Array, " S"], PyTree]:
    """Values [S] and hypergradients at (x, y): [S, p] for an array x, else a tree like x with a leading axis S.

    y is taken as the lower solution; with `lower` the lower steps run from y first (`Unrolled` needs them).
    Raises `FloatingPointError` with the advice of `Status` where a stage fails.
    """
    method = CG() if method is None else method
    if not isinstance(method, Hypergradient):
        found = repr(method)
        raise TypeError(message("method", "be a hypergradient", found, "pass bp.CG(), bp.Neumann() or bp.Unrolled()"))
    if lower is not None and not isinstance(lower, GradientDescent):
        raise TypeError(message("lower", "be a GradientDescent", repr(lower), "pass bp.GradientDescent(step_size, steps)"))
    if isinstance(method, Unrolled) and lower is None:
        raise ValueError(message("lower", "be given for Unrolled", None, "pass lower=bp.GradientDescent(step_size, steps)"))
    oracles = bind(problem, x, y)
    found = _estimate(oracles, method, lower, oracles.x_layout.flatten(x), oracles.y_layout.flatten(y))
    status = found.verdict.status()
    if status.failed:
        raise FloatingPointError(f"{status.name} (objective {int(found.verdict.objective)}): {status.value}")
    return found.values, oracles.x_layout.unflatten(found.jacobian)


@eqx.filter_jit
def _estimate(oracles, method, lower, x, y):
    return estimate(oracles, method, lower, x, y, oracles.zero_dual(combined=False))


def _dots(a: Float[Array, "B q"], b: Float[Array, "B q"]) -> Float[Array, " B"]:
    return jnp.sum(a * b, axis=1)


def _products(oracles: Oracles, b: Array) -> int:
    """Products with H or J needed to serve all rows of b once."""
    return min(oracles.products, len(b))

"""Hypergradients: descend on the lower level, differentiate, pull back to x; all objectives at once."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from bipareto.errors import message
from bipareto.hypergradient.methods import CG, AdjointDescent, Here, Hypergradient, StochasticNeumann, Unrolled, products_for
from bipareto.lower import GradientDescent
from bipareto.oracles import OracleCounts, Oracles, Prepared, bind
from bipareto.problem import Problem, SeparableProblem
from bipareto.sampling import Batches, Draws, population
from bipareto.spectrum import extreme_eigenvalues
from bipareto.status import Status, Verdict, rows_not_finite

_SAMPLING = (StochasticNeumann, AdjointDescent)  # these draw batches of their own for H


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
    draws: Draws,
    method: Hypergradient,
    lower: GradientDescent | None,
    x: Array,
    y: Array,
    dual: Array,
    weigh: Callable | None = None,
) -> Estimate:
    """Descend on the lower level (None: y is taken as it is), then differentiate, on the batches that `draws` brings.

    `weigh(values) -> weights` asks for the single hypergradient of the weighted objectives: one linear solve, not S.
    """
    oracles = draws.point()
    prepared = oracles.prepare(x)
    y_end, pull, lower_residual, verdict = _descend(draws, method, lower, x, prepared, y)
    values, differentiate = oracles.upper(prepared.upper, y_end)
    weights = None if weigh is None else weigh(values)
    slopes, b = differentiate(weights)
    adjoint = method(Here(oracles, draws, x, prepared.lower, y_end, pull), b, dual)
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
    unrolled = products_for(oracles, b) * steps if isinstance(method, Unrolled) else 0
    batches = draws.batches
    counts = OracleCounts(
        jnp.int32(2 * oracles.objectives * draws.samples("upper", batches.upper)),
        jnp.int32(steps * draws.samples("lower", batches.lower)),
        (adjoint.jvp + unrolled) * draws.samples("lower", batches.cross),
        (adjoint.hvp + unrolled) * (1 if isinstance(method, _SAMPLING) else draws.samples("lower", batches.cross)),
    )
    return Estimate(values, jacobian, weights, y_end, adjoint.dual, lower_residual, adjoint.residual, counts, verdict)


def _descend(draws: Draws, method: Hypergradient, lower: GradientDescent | None, x: Array, prepared: Prepared, y: Array):
    fine = jax.tree.map(lambda leaf: jnp.isfinite(leaf).all(), (prepared.upper, prepared.lower))
    verdict = Verdict.fine().unless(~jnp.stack(jax.tree.leaves(fine)).all(), Status.NON_FINITE_PREPARATION)
    if lower is None:
        slope = draws.oracles.lower_gradient(draws.oracles.prepare(x).lower, y)
        return y, None, jnp.sqrt(jnp.sum(slope**2)), verdict
    if isinstance(method, Unrolled):
        path, pull = draws.oracles.unroll(prepared.lower, y, lower, method.checkpoint)
    else:
        path, pull = draws.descend(lower, x, y), None
    verdict = verdict.unless(~path.starts_finite, Status.NON_FINITE_LOWER).unless(path.overshot, Status.LOWER_OVERSHOT)
    return path.end, pull, path.last, verdict


def hypergradient(
    problem: Problem | SeparableProblem,
    x: PyTree,
    y: PyTree,
    method: Hypergradient | None = None,
    *,
    lower: GradientDescent | None = None,
    batches: Batches | None = None,
    key: Array | None = None,
) -> tuple[Float[Array, " S"], PyTree]:
    """Values [S] and hypergradients at (x, y): [S, p] for an array x, else a tree like x with a leading axis S.

    y is taken as the lower solution; with `lower` the lower steps run from y first (`Unrolled` needs them). With `batches`
    both are estimates from samples drawn with `key`.
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
    batches = Batches() if batches is None else batches
    check_sampling(oracles, method, batches, key)
    if isinstance(method, _SAMPLING):
        check_convergence(oracles, method, oracles.x_layout.flatten(x), oracles.y_layout.flatten(y))
    draws = Draws(oracles, batches, key if draws_batches(method, batches) else None)
    values, jacobian, verdict = _estimate(draws, method, lower, x, y)
    status = verdict.status()
    if status.failed:
        raise FloatingPointError(f"{status.name} (objective {int(verdict.objective)}): {status.value}")
    return values, jacobian


@eqx.filter_jit  # trees go in and come out: on a GPU flattening them leaf by leaf outside took longer than all else
def _estimate(draws, method, lower, x, y):
    x_layout, y_layout = draws.oracles.x_layout, draws.oracles.y_layout
    start = draws.oracles.zero_dual(combined=False)
    found = estimate(draws, method, lower, x_layout.flatten(x), y_layout.flatten(y), start)
    return found.values, x_layout.unflatten(found.jacobian), found.verdict


def check_sampling(oracles: Oracles, method: Hypergradient | None, batches: Batches, key: Any) -> None:
    """Raise where batches, data, method and key do not fit each other."""
    sizes = [*batches.sizes(), *((f"batch of {type(method).__name__}", "lower", size) for size in _sizes_of(method))]
    population(oracles.problem, sizes, batches.replace)
    if draws_batches(method, batches):
        keyed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ()
        if not keyed:
            rule = "be a key where batches are drawn"
            raise ValueError(message("key", rule, repr(key), "pass key=jax.random.key(0)"))
    if isinstance(method, Unrolled) and batches != Batches():
        found = "batches with Unrolled"
        raise ValueError(
            message("hypergradient", "be CG, Neumann or StochasticNeumann with batches", found, "change either")
        )


def draws_batches(method: Hypergradient | None, batches: Batches) -> bool:
    return any(size is not None for size in (batches.lower, batches.upper, batches.cross, *_sizes_of(method)))


def check_convergence(oracles: Oracles, method: Hypergradient, x: Array, y: Array) -> None:
    """Raise where a series or an adjoint descent would diverge: few noisy terms do not show it while they run."""
    if isinstance(method, _SAMPLING):
        check_below(f"step_size of {type(method).__name__}", method.step_size, oracles, x, y)


def check_below(parameter: str, size: Any, oracles: Oracles, x: Array, y: Array) -> None:
    """Raise where a step size is not below 2/L."""
    largest = float(extreme_eigenvalues(oracles, x, y)[1])
    if float(size) * largest >= 2:  # a NaN passes: the run then says where it arose
        rule = f"be below 2/L = {2 / largest:.3g} (L = {largest:.3g}, estimated at the start)"
        raise ValueError(message(parameter, rule, float(size), f"pass step_size={1 / largest:.2g}"))


def _sizes_of(method: Hypergradient | None) -> tuple[int | None, ...]:
    return method.sizes if isinstance(method, _SAMPLING) else ()

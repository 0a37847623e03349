"""What the methods without a preference and with a step of their own share."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from bipareto.errors import message
from bipareto.hypergradient import Hypergradient, check_below, draws_batches
from bipareto.lower import PlainStep, Step
from bipareto.oracles import OracleCounts, Oracles
from bipareto.precision import full_precision
from bipareto.sampling import Batches, Draws
from bipareto.solver import Algorithm, Record, State
from bipareto.status import Status, Verdict, rows_not_finite
from bipareto.weighting import descent_margin, stationarity_gap


class Unguided(Algorithm):
    """A method that follows no preference."""

    @property
    def takes_preference(self):
        return False

    def prefer(self, preference):
        rule = f"be None for {type(self).__name__}, which follows none"
        raise ValueError(message("preference", rule, preference, "use bp.wc_mhgd(...)"))

    @property
    def reference(self):
        return 0.0


def as_batches(batches: Any) -> Batches:
    if batches is not None and not isinstance(batches, Batches):
        remedy = "pass bp.Batches(upper=..., cross=...)"
        raise TypeError(message("batches", "be a Batches", repr(batches), remedy))
    return Batches() if batches is None else batches


def one_lower_batch(batches: Any) -> Batches:
    """The batches of a single loop, which takes all of the lower level's derivatives on one sample: `cross`."""
    batches = as_batches(batches)
    if batches.lower not in (None, batches.cross):
        rule = "be None or equal to `cross_batch` in a single loop (one sample serves the gradient, H and J)"
        raise ValueError(message("lower_batch", rule, batches.lower, "pass bp.Batches(upper=..., cross=...)"))
    return batches


def check_constant(parameter: str, step: Step, oracles: Oracles, x: Array, y: Array) -> None:
    """Raise where a constant step on the lower level would diverge: one step at a time does not show it."""
    if isinstance(step, PlainStep):
        check_below(parameter, step.size, oracles, x, y)


def drawn(oracles: Oracles, method: Hypergradient | None, batches: Batches, state: State, key: Any) -> Draws:
    """The batches of the state's step."""
    wanted = draws_batches(method, batches)
    return Draws(oracles, batches, jax.random.fold_in(key, state.step) if wanted else None)


def norms(rows: Array) -> Array:
    return jnp.sqrt(jnp.sum(rows**2, axis=-1))


def judged(values: Array, b: Array, dual: Array, jacobian: Array, slope: Array) -> Verdict:
    """The verdict on what a single loop computes, in the order in which it computes it."""
    return (
        Verdict.fine()
        .unless(~jnp.isfinite(slope).all(), Status.NON_FINITE_LOWER)
        .unless(rows_not_finite(values), Status.NON_FINITE_VALUE)
        .unless(rows_not_finite(b), Status.NON_FINITE_UPPER_GRADIENT)
        .unless(rows_not_finite(dual), Status.ADJOINT_DIVERGED)
        .unless(rows_not_finite(jacobian), Status.NON_FINITE_HYPERGRADIENT)
    )


def stepped(verdict: Verdict, weights: Array, *moved: Array) -> Verdict:
    finite = jnp.stack([jnp.isfinite(array).all() for array in moved]).all()
    return verdict.unless(~jnp.isfinite(weights), Status.NON_FINITE_WEIGHTS).unless(~finite, Status.NON_FINITE_STEP)


@full_precision
def record(
    values: Array, weights: Array, jacobian: Array, direction: Array, slope: Array, residual: Array, counts: OracleCounts
) -> Record:
    """What the step tells, from the hypergradients [S, p] it has, the direction it takes and ||grad_y g||."""
    gram = jacobian @ jacobian.T
    margin = descent_margin(gram, weights, jnp.ones_like(weights))
    return Record(values, weights, gram, stationarity_gap(gram), margin, jnp.sum(direction**2), slope, residual, counts)

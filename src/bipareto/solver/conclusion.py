"""How a run that ended is judged, and what it returns."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bipareto.distributed import fetch, local
from bipareto.oracles import JointOracles, Oracles
from bipareto.solver.records import Algorithm, Evaluations, Record, Solution, State, total_counts
from bipareto.status import Status, Verdict


class Ended(NamedTuple):
    """A run at its end: `records` in pieces, and the x of its last step that did not fail."""

    algorithm: Algorithm
    oracles: Oracles
    key: Any
    state: State
    safe_x: Array
    verdict: Verdict
    records: list[Record]
    evaluations: list[tuple[int, Array]]
    seconds: float
    compile_seconds: float


def conclude(run: Ended, evaluated: tuple[Array, Array] | None = None) -> Solution:
    """The solution of a run; `evaluated` are the values and y at its end where they are known already."""
    history = jax.tree.map(lambda *leaves: np.concatenate(leaves), *run.records)
    values, x, y, verdict = _end(run, history, evaluated)
    status = verdict.status()
    objective = _objective(run, verdict) if status.failed else -1
    where = f"step {len(history.gap)}" + (f", objective {objective}" if objective >= 0 else "")
    return Solution(
        run.oracles.x_layout.unflatten(local(x)),
        run.oracles.y_layout.unflatten(local(y)),
        fetch(values),
        status,
        f"{where}: {status.value}" if status.failed else status.value,
        history,
        total_counts(history),
        Evaluations.of(run.evaluations),
        run.seconds,
        run.compile_seconds,
    )


def _end(run: Ended, history: Record, evaluated: tuple[Array, Array] | None) -> tuple[Any, Array, Array, Verdict]:
    """Values, x and y to return, of the end or of the last step that did not fail, and the final verdict."""
    verdict = run.verdict
    if verdict.status() is Status.COMPLETED:
        values, y = evaluate(run.algorithm, run.oracles, run.state, run.key) if evaluated is None else evaluated
        verdict = verdict.unless(~jnp.isfinite(values), Status.NON_FINITE_VALUE)
        if not verdict.status().failed:
            return values, run.state.x, y, verdict.unless(_grew(history), Status.UPPER_OVERSHOT)
    last = history.values[-1] if len(history.gap) else np.full(run.oracles.objectives, np.nan)
    return last, run.safe_x, run.state.y, verdict


def _objective(run: Ended, verdict: Verdict) -> int:
    """The objective to blame for a failure, -1 for none or all."""
    objective = int(verdict.objective)
    slopes = (Status.NON_FINITE_UPPER_GRADIENT, Status.NON_FINITE_HYPERGRADIENT)
    if objective < 0 and verdict.status() in slopes and isinstance(run.oracles, JointOracles):
        _, y = evaluate(run.algorithm, run.oracles, run.state, run.key)
        suspects = np.asarray(run.oracles.suspects(run.oracles.prepare(run.state.x).upper, y))
        return int(np.argmax(suspects)) if suspects.any() and not suspects.all() else -1
    return objective


def _grew(history: Record) -> Array:
    """Whether the run ran away. Finite numbers are no failure of a step, so this is judged over the whole run."""
    heights = np.max(np.abs(history.values), axis=1)
    return jnp.asarray(heights[-1] > 1e3 * heights[0] and history.gap[-1] > 1e3 * history.gap[0])


@eqx.filter_jit
def evaluate(algorithm: Algorithm, oracles: Oracles, state: State, key: Any) -> tuple[Array, Array]:
    return algorithm.evaluate(oracles, state, key)

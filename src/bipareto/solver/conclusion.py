"""How a run that ended is judged, and what it returns."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bipareto.distributed import fetch, local
from bipareto.layout import Layout
from bipareto.oracles import JointOracles, Oracles
from bipareto.solver.records import Algorithm, Evaluations, Record, Solution, State, total_counts
from bipareto.status import Status


class Ended(NamedTuple):
    """A run at its end: `records` in pieces, and the x of its last step that did not fail."""

    algorithm: Algorithm
    oracles: Oracles
    key: Any
    state: State
    safe_x: Any
    status: Status
    objective: int
    records: list[Record]
    evaluations: list[tuple[int, Array]]
    seconds: float
    compile_seconds: float


def conclude(run: Ended, evaluated: tuple[Any, Any] | None = None) -> Solution:
    """The solution of a run; `evaluated` are the values and y at its end where they are known already."""
    history = jax.tree.map(lambda *leaves: np.concatenate(leaves), *run.records)
    values, x, y, status, objective = _end(run, history, evaluated)
    if status.failed:
        objective = _blamed(run, status, objective)
    where = f"step {len(history.gap)}" + (f", objective {objective}" if status.failed and objective >= 0 else "")
    return Solution(
        _tree(run.oracles.x_layout, x),
        _tree(run.oracles.y_layout, y),
        fetch(values),
        status,
        f"{where}: {status.value}" if status.failed else status.value,
        history,
        total_counts(history),
        Evaluations.of(run.evaluations),
        run.seconds,
        run.compile_seconds,
        (run.oracles.problem, run.algorithm),
    )


def _tree(layout: Layout, flat: Any) -> Any:
    """A vector, on the device or on the host, as the user's tree of JAX arrays."""
    flat = local(flat)
    if isinstance(flat, jax.Array):
        return _unflattened(layout, flat)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, layout.unflatten(flat))


_unflattened = eqx.filter_jit(Layout.unflatten)


def _end(run: Ended, history: Record, evaluated: tuple[Any, Any] | None) -> tuple[Any, Any, Any, Status, int]:
    """Values, x and y to return, of the end or of the last step that did not fail; the final status and who is to blame."""
    status, objective = run.status, run.objective
    if status is Status.COMPLETED:
        values, y = evaluate(run.algorithm, run.oracles, run.state, run.key) if evaluated is None else evaluated
        bad = ~np.isfinite(fetch(values))
        if not bad.any():
            return values, run.state.x, y, Status.UPPER_OVERSHOT if ran_away(history) else status, -1
        status, objective = Status.NON_FINITE_VALUE, -1 if bad.all() and bad.size > 1 else int(np.argmax(bad))
    last = history.values[-1] if len(history.gap) else np.full(run.oracles.objectives, np.nan)
    return last, run.safe_x, run.state.y, status, objective


def _blamed(run: Ended, status: Status, objective: int) -> int:
    """The objective to blame for a failure, -1 for none or all."""
    slopes = (Status.NON_FINITE_UPPER_GRADIENT, Status.NON_FINITE_HYPERGRADIENT)
    if objective < 0 and status in slopes and isinstance(run.oracles, JointOracles):
        _, y = evaluate(run.algorithm, run.oracles, run.state, run.key)
        suspects = np.asarray(run.oracles.suspects(run.oracles.prepare(run.state.x).upper, y))
        return int(np.argmax(suspects)) if suspects.any() and not suspects.all() else -1
    return objective


def ran_away(history: Any) -> bool:
    """Whether the run ran away. Finite numbers are no failure of a step, so this is judged over the whole run."""
    heights = np.max(np.abs(history.values), axis=1)
    return bool(heights[-1] > 1e3 * heights[0] and history.gap[-1] > 1e3 * history.gap[0])


@eqx.filter_jit
def evaluate(algorithm: Algorithm, oracles: Oracles, state: State, key: Any) -> tuple[Array, Array]:
    return algorithm.evaluate(oracles, state, key)

"""One method on its budget: steps until it is spent, judged on the way."""

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bipareto.comparison.judge import Judge, Judged
from bipareto.distributed import fetch
from bipareto.errors import message
from bipareto.oracles import OracleCounts, Oracles
from bipareto.sampling import samples_of
from bipareto.solver import Algorithm, State, advance, chunk_size
from bipareto.solver.conclusion import ran_away
from bipareto.status import Status


class Budget(NamedTuple):
    """`amount` of oracle calls or seconds, judged `points` times on the way; `in_samples`: how calls are counted."""

    amount: float
    unit: str
    points: int
    in_samples: bool


class Track(NamedTuple):
    """A run: [m] steps, calls and seconds spent when judged, [m, S] values, [m] gap and residual; first: the start."""

    status: Status
    steps: np.ndarray
    calls: np.ndarray
    seconds: np.ndarray
    values: np.ndarray
    gap: np.ndarray
    residual: np.ndarray


def race(
    algorithm: Algorithm, oracles: Oracles, state: State, key: Any, budget: Budget, judge: Judge, before: Judged
) -> tuple[Track, Array, Array]:
    """The run's track, x where it ended and y of the last judgement; `before`: that on its start.

    A run that fails ends at its last judged point.
    """
    size = chunk_size(oracles, state)
    arguments = lambda state, length: (algorithm, oracles, state, key, None, jnp.int32(length), size)  # noqa: E731
    _compile(arguments(state, 0), size)
    rate = _calls_per_sample(algorithm, oracles, budget)
    x, seconds, calls, steps = state.x, 0.0, 0, 0
    marks = [(0, 0, 0.0, before)]
    status, length = Status.COMPLETED, 1
    while length:
        began = time.perf_counter()
        after, _, buffer, taken, verdict = jax.block_until_ready(advance(*arguments(state, length)))
        seconds += time.perf_counter() - began
        counts = fetch(buffer.counts)
        calls += _total(OracleCounts(*(np.sum(count[: int(taken)], dtype=np.int64) for count in counts)), rate)
        steps += int(taken)
        status = verdict.status()
        if status.failed:
            break
        state, spent = after, float(calls if budget.unit == "calls" else seconds)
        if steps == 1 and budget.unit == "calls" and spent > budget.amount:
            found = f"{budget.amount:g} where {type(algorithm).__name__} needs {calls}"
            raise ValueError(message("budget", "pay for a step of every method", found, "raise it"))
        due = spent >= budget.amount * len(marks) / budget.points * (1 - 1e-9)
        length = _next(spent, steps, len(marks) + due, budget, size)
        if due or not length:
            judged = judge(oracles, state.x, state.y)
            if not judged.finite:
                status = Status.NON_FINITE_VALUE
                break
            x, marks = state.x, [*marks, (steps, calls, seconds, judged)]
    return _track(status, marks), x, marks[-1][3].y


def _compile(arguments: tuple, size: int) -> None:
    if size > 1:
        jax.block_until_ready(advance(*arguments))
    else:
        advance.lower(*arguments).compile()  # pyright: ignore[reportFunctionMemberAccess]


def _calls_per_sample(algorithm: Algorithm, oracles: Oracles, budget: Budget) -> OracleCounts:
    """What one counted call is worth: where calls are counted in samples, one on all data is worth all of them."""
    whole = budget.in_samples and not algorithm.draws
    upper, lower = (samples_of(oracles.problem, level) if whole else 1 for level in ("upper", "lower"))
    return OracleCounts(upper, lower, lower, lower)


def _total(counts: OracleCounts, rate: OracleCounts) -> int:
    return sum(int(count) * worth for count, worth in zip(counts, rate, strict=True))


def _next(spent: float, steps: int, judged: int, budget: Budget, size: int) -> int:
    """How many steps to the next point to be judged; 0 where not even one more fits the budget."""
    each = spent / steps
    left = int((budget.amount - spent) / each * (1 + 1e-9))
    to_mark = int(np.ceil((budget.amount * judged / budget.points - spent) / each * (1 - 1e-9)))
    return max(0, min(left, max(1, to_mark), size))


def _track(status: Status, marks: list[tuple[int, int, float, Judged]]) -> Track:
    steps, calls, seconds, judged = zip(*marks, strict=True)
    values, gap, residual, _ = zip(*judged, strict=True)
    track = Track(status, *map(np.array, (steps, calls, seconds, values, gap, residual)))
    return track._replace(status=Status.UPPER_OVERSHOT) if not status.failed and ran_away(track) else track

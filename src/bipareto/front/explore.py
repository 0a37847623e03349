"""Many preferences and seeds as one program: every run is a row of a mapped `solve`."""

import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from bipareto.errors import message, positive_number, positive_vector, whole_number
from bipareto.front.front import Front
from bipareto.oracles import Oracles
from bipareto.problem import Problem, SeparableProblem
from bipareto.progress import Progress
from bipareto.solver import Algorithm, Ended, Record, Solution, State, advance, chunk_size, conclude, start
from bipareto.status import Verdict


def explore(
    problem: Problem | SeparableProblem,
    algorithm: Algorithm,
    preferences: Any,
    x0: PyTree,
    y0: PyTree,
    steps: int = 500,
    *,
    seeds: int = 1,
    key: Any = None,
    tolerance: float | None = None,
    batch: int | None = None,
    progress: bool | None = None,
) -> Front:
    """Solve for every preference [P, S] and seed, mapped into one compiled program; equal to as many calls of `solve`.

    `algorithm` holds the settings; its own preference is replaced. `preferences=None`: no preference, for algorithms that
    take none. `seeds`: runs per preference for algorithms that draw batches, seed i with `jax.random.fold_in(key, i)`.
    `batch`: how many runs to map at once (None: all), for problems whose runs do not fit the memory together. A run that
    fails is marked in `Front.status` and does not disturb the others.
    """
    steps = whole_number("steps", steps, "pass the number of upper steps")
    seeds = whole_number("seeds", seeds, "pass the number of runs per preference")
    remedy = "pass the largest acceptable gap such as 1e-8, or None"
    limit = None if tolerance is None else positive_number("tolerance", tolerance, remedy)
    if not isinstance(algorithm, Algorithm):
        raise TypeError(message("algorithm", "be an algorithm", repr(algorithm), "build one with bp.wc_mhgd(...)"))
    oracles, state = start(problem, algorithm, x0, y0, key)
    rows = _rows(algorithm, preferences, oracles.objectives)
    if seeds > 1 and key is None:
        rule = "be given for more than one seed"
        raise ValueError(message("key", rule, None, "pass key=jax.random.key(0), or seeds=1 for a deterministic algorithm"))
    runs = [(row, None if key is None else jax.random.fold_in(key, seed)) for row in rows for seed in range(seeds)]
    size = len(runs) if batch is None else whole_number("batch", batch, "pass how many runs to map at once, or None")
    line = Progress(len(runs) * steps, progress)
    solutions = []
    for first in range(0, len(runs), size):
        fleet = _Fleet(algorithm, oracles, state, runs[first : first + size], limit, steps)
        while fleet.going:
            fleet.advance()
            line(first * steps + int(fleet.done.sum()), *fleet.shown())
        solutions += fleet.solutions()
    line.close()
    grid = [solutions[i * seeds : (i + 1) * seeds] for i in range(len(rows))]
    return Front(None if preferences is None else np.stack(rows), grid)


def _rows(algorithm: Algorithm, preferences: Any, objectives: int) -> list[Any]:
    """One preference per row, or [None] for none."""
    takes = algorithm.takes_preference
    if preferences is None:
        if takes:
            remedy = "pass bp.preferences.focused(S), or explore with bp.mgda(...)"
            raise ValueError(message("preferences", "be given for an algorithm that follows one", None, remedy))
        return [None]
    if not takes:
        remedy = "pass preferences=None, or use bp.wc_mhgd(...)"
        raise ValueError(message("preferences", "be None for an algorithm that takes no preference", "preferences", remedy))
    table = np.asarray(preferences, float)
    if table.ndim != 2 or table.shape[1] != objectives or not len(table):
        rule = f"be [P, S] with S = {objectives} objectives"
        raise ValueError(message("preferences", rule, f"shape {table.shape}", "see bp.preferences"))
    return [positive_vector(f"preferences[{i}]", row, "see bp.preferences") for i, row in enumerate(table)]


@eqx.filter_jit
def _advance_all(algorithm, oracles, states, preferences, keys, tolerance, lengths, size):
    def one(state, preference, key, length):
        return advance(_with(algorithm, preference), oracles, state, key, tolerance, length, size)

    return jax.vmap(one)(states, preferences, keys, lengths)


@eqx.filter_jit
def _evaluate_all(algorithm, oracles, states, preferences, keys):
    def one(state, preference, key):
        return _with(algorithm, preference).evaluate(oracles, state, key)

    return jax.vmap(one)(states, preferences, keys)


def _with(algorithm: Algorithm, preference: Array | None) -> Algorithm:
    return algorithm if preference is None else algorithm.prefer(preference)


class _Fleet:
    """The host's side of mapped runs: each has its own length, state and verdict."""

    def __init__(self, algorithm: Algorithm, oracles: Oracles, state: State, runs: list, tolerance: Any, steps: int):
        self.began = time.perf_counter()
        self.algorithm, self.oracles, self.tolerance, self.steps = algorithm, oracles, tolerance, steps
        self.preferences = None if runs[0][0] is None else jnp.stack([jnp.asarray(row) for row, _ in runs])
        self.keys = None if runs[0][1] is None else jnp.stack([key for _, key in runs])
        self.count = len(runs)
        self.states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (self.count, *leaf.shape)), state)
        self.safe = self.states.x
        self.done, self.length = np.zeros(self.count, int), 1
        self.active = np.ones(self.count, bool)
        self.verdicts = jax.tree.map(lambda leaf: np.broadcast_to(np.asarray(leaf), (self.count,)).copy(), Verdict.fine())
        self.size = chunk_size(oracles, state)
        self.records: list[list[Record]] = [[] for _ in range(self.count)]

    @property
    def going(self) -> bool:
        return bool(self.active.any())

    def advance(self) -> None:
        began = time.perf_counter()
        lengths = np.where(self.active, np.minimum(self.length, self.steps - self.done), 0)
        arguments = (self.states, self.preferences, self.keys, self.tolerance, jnp.asarray(lengths, jnp.int32))
        states, safe, buffer, taken, verdicts = _advance_all(self.algorithm, self.oracles, *arguments, max(self.size, 2))
        taken, verdicts = np.asarray(taken), jax.tree.map(np.asarray, verdicts)
        moved = jnp.asarray(taken > 0)
        self.states, self.safe = states, jnp.where(moved[:, None], safe, self.safe)
        buffer = jax.tree.map(np.asarray, buffer)
        for i in np.flatnonzero(self.active):
            self.records[i].append(jax.tree.map(lambda leaf, i=i: leaf[i, : taken[i]].copy(), buffer))
            self.verdicts.code[i], self.verdicts.objective[i] = verdicts.code[i], verdicts.objective[i]
        self.done += taken
        self.active &= (self.done < self.steps) & (self.verdicts.code == 0)
        seconds = time.perf_counter() - began
        self.length = max(1, self.length // 2) if seconds > 1 else min(self.size, self.length * (1 + (seconds < 0.25)))

    def shown(self) -> tuple[np.ndarray, float]:
        """Mean values and gap over the runs, for the progress line."""
        last = [pieces[-1] for pieces in self.records if len(pieces[-1].gap)]
        values = np.mean([piece.values[-1] for piece in last], axis=0) if last else np.full(self.oracles.objectives, np.nan)
        return values, float(np.mean([piece.gap[-1] for piece in last])) if last else float("nan")

    def solutions(self) -> list[Solution]:
        values, y = _evaluate_all(self.algorithm, self.oracles, self.states, self.preferences, self.keys)
        seconds = (time.perf_counter() - self.began) / self.count
        return [self._solution(i, (values[i], y[i]), seconds) for i in range(self.count)]

    def _solution(self, i: int, evaluated: tuple[Array, Array], seconds: float) -> Solution:
        preference = None if self.preferences is None else self.preferences[i]
        key = None if self.keys is None else self.keys[i]
        state = jax.tree.map(lambda leaf: leaf[i], self.states)
        verdict = Verdict(jnp.asarray(self.verdicts.code[i]), jnp.asarray(self.verdicts.objective[i]))
        parts = (_with(self.algorithm, preference), self.oracles, key, state, self.safe[i], verdict, self.records[i])
        return conclude(Ended(*parts, [], seconds, 0.0), evaluated)

"""Which runs an exploration makes, in which order and from where."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bipareto.front.fleet import Run
from bipareto.front.front import Front
from bipareto.metrics import nondominated
from bipareto.oracles import Oracles
from bipareto.solver import Algorithm, Solution, State


class Plan:
    """Hands out batches of runs and takes their solutions; later batches may depend on earlier ones.

    With `continuation` the preferences are visited along a nearest-neighbour tour, all seeds of one at a time, each run from
    where the run of the preference before it ended. `refine` preferences more are placed in the largest gaps of the front.
    """

    def __init__(
        self, algorithm: Algorithm, oracles: Oracles, state: State, rows: list, keys: list, continuation: bool, refine: int
    ):
        self.algorithm, self.oracles, self.state, self.keys = algorithm, oracles, state, keys
        self.continuation, self.refine = continuation, refine
        self.rows, self.base = list(rows), len(rows)
        self.order = tour(np.stack(rows)) if continuation else list(range(self.base))
        self.solutions: dict[tuple[int, int], Solution] = {}

    @property
    def total(self) -> int:
        return (self.base + self.refine) * len(self.keys)

    @property
    def together(self) -> int:
        """How many runs can be made at once: all, or the seeds of one preference where the next depends on it."""
        chained = self.continuation or len(self.rows) > self.base
        return len(self.keys) * (1 if chained else self.base)

    def next(self, width: int) -> list[Run]:
        """The next runs, at most `width`, that do not depend on each other; empty at the end."""
        if len(self.solutions) == len(self.rows) * len(self.keys) and len(self.rows) < self.base + self.refine:
            self._insert()
        waiting = [(p, s) for p in self.order for s in range(len(self.keys)) if (p, s) not in self.solutions]
        if self.together == len(self.keys):
            waiting = [(p, s) for p, s in waiting if p == waiting[0][0]]
        return [self._run(p, seed) for p, seed in waiting[:width]]

    def take(self, runs: list[Run], solutions: list[Solution]) -> None:
        for run, solution in zip(runs, solutions, strict=True):
            self.solutions[divmod(run.number, len(self.keys))] = solution

    def grid(self) -> list[list[Solution]]:
        return [[self.solutions[p, seed] for seed in range(len(self.keys))] for p in range(len(self.rows))]

    def _run(self, p: int, seed: int) -> Run:
        preference, key = self.rows[p], self.keys[seed]
        state = self.state
        before = self._before(p, seed) if self.continuation else None
        if before is not None:
            x, y = self.oracles.x_layout.flatten(before.x), self.oracles.y_layout.flatten(before.y)
            state = self.algorithm.prefer(preference).init(self.oracles, x, y, key)
        return Run(p * len(self.keys) + seed, preference, key, state)

    def _before(self, p: int, seed: int) -> Solution | None:
        """Where to start from: the run before on the tour, for a refinement the nearest preference; None at the start."""
        if p >= self.base:
            apart = np.linalg.norm(np.stack(self.rows[:p]) - self.rows[p], axis=1)
            before = int(np.argmin(apart))
        else:
            place = self.order.index(p)
            if not place:
                return None
            before = self.order[place - 1]
        found = self.solutions[before, seed]
        return None if found.status.failed else found

    def _insert(self) -> None:
        """One preference more: between the two neighbours on the front that are furthest apart."""
        rows = np.stack(self.rows)
        self.order.append(len(self.rows))
        self.rows.append(midpoint(rows, Front(rows, self.grid()).mean()))


def tour(points: np.ndarray) -> list[int]:
    """An order of the rows that goes from each to the nearest one not yet visited, from the first on."""
    order, left = [0], set(range(1, len(points)))
    while left:
        here = points[order[-1]]
        nearest = min(sorted(left), key=lambda i: float(np.linalg.norm(points[i] - here)))
        order.append(nearest)
        left.remove(nearest)
    return order


def midpoint(preferences: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The preference between the ends of the longest edge of the front's minimum spanning tree, objectives scaled to [0, 1].

    Where r o Phi is equal the geometric mean of two preferences asks for the geometric mean of their objectives. Dominated
    points and those of failed runs (NaN) are no part of the front.
    """
    kept = np.flatnonzero(nondominated(values))
    if len(kept) < 2:  # nothing to be between: away from what there is, towards the middle
        return np.full(preferences.shape[1], 1 / preferences.shape[1])
    shown = values[kept]
    scaled = (shown - shown.min(axis=0)) / np.maximum(np.ptp(shown, axis=0), 1e-300)
    edges = sorted(spanning_tree(scaled), reverse=True)
    for _, i, j in edges:
        mean = np.sqrt(preferences[kept[i]] * preferences[kept[j]])
        mean /= mean.sum()
        if np.min(np.max(np.abs(preferences - mean), axis=1)) > 1e-6:
            return mean
    return np.full(preferences.shape[1], 1 / preferences.shape[1])


def spanning_tree(points: np.ndarray) -> list[tuple[float, int, int]]:
    """(length, i, j) of the edges of the minimum spanning tree (Prim): on a curve, the steps along it."""
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    nearest, link = apart[0].copy(), np.zeros(len(points), int)
    outside = np.ones(len(points), bool)
    outside[0] = False
    edges = []
    while outside.any():
        new = int(np.argmin(np.where(outside, nearest, np.inf)))
        edges.append((float(nearest[new]), int(link[new]), new))
        outside[new] = False
        closer = apart[new] < nearest
        nearest[closer], link[closer] = apart[new][closer], new
    return edges


def seed_keys(key: Any, seeds: int) -> list[Any]:
    """The key of every seed; None for algorithms that draw nothing."""
    return [None if key is None else jax.random.fold_in(key, jnp.int32(seed)) for seed in range(seeds)]

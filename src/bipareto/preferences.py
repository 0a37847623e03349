"""Preference vectors: strictly positive, summing to 1; a larger entry asks for a smaller objective.

At the Chebyshev optimum r o (Phi - z) is equal on the active objectives: `from_ray` and `from_aspiration` invert that.
"""

import itertools
import math
from typing import Any

import numpy as np

from bipareto.errors import message, positive_number, positive_vector, whole_number


def focused(objectives: int, peak: float = 0.8) -> np.ndarray:
    """[S, S]: row s puts `peak` on objective s and shares the rest equally (the paper's .8/.05 for S = 5)."""
    objectives = _count(objectives)
    peak = float(positive_number("peak", peak, "pass a share such as 0.8"))
    if not 1 / objectives <= peak < 1:
        rule = f"lie in [1/{objectives}, 1)"
        raise ValueError(message("peak", rule, peak, "1 would leave nothing for the others, and stall"))
    rest = (1 - peak) / (objectives - 1)
    return np.full((objectives, objectives), rest) + (peak - rest) * np.eye(objectives)


def lattice(objectives: int, divisions: int, floor: float = 0.01) -> np.ndarray:
    """All vectors of multiples of 1/divisions (Das and Dennis), lifted to at least `floor` in every entry.

    Their number grows like divisions^(S-1) (715 for S = 10, divisions = 4): prefer `energy` for S > 5.
    """
    objectives = _count(objectives)
    divisions = whole_number("divisions", divisions, "pass the number of parts of each edge")
    size = math.comb(divisions + objectives - 1, objectives - 1)
    if size > 100_000:
        rule = f"give at most 100000 vectors for {objectives} objectives"
        raise ValueError(message("divisions", rule, f"{divisions}, which gives {size}", "use preferences.energy"))
    bars = itertools.combinations(range(divisions + objectives - 1), objectives - 1)
    edges = np.array([(-1, *bar, divisions + objectives - 1) for bar in bars])
    return _lifted((np.diff(edges, axis=1) - 1) / divisions, floor)


def energy(objectives: int, count: int, floor: float = 0.01, seed: int = 0) -> np.ndarray:
    """`count` well-spread vectors for any S: local minimum of the Riesz energy sum_{i<j} |r_i - r_j|^-2 on the simplex."""
    objectives = _count(objectives)
    count = whole_number("count", count, "pass how many preferences to make")
    points = np.random.default_rng(seed).dirichlet(np.ones(objectives), count)
    if count > 1:
        points = _spread(points)
    return _lifted(points, floor)


def evenly(objectives: int, count: int, floor: float = 0.01, seed: int = 0) -> np.ndarray:
    """The default choice: at most `count` vectors spread evenly over all preferences.

    For S <= 5 the largest `lattice` with at most `count` vectors; for S > 5, where lattices explode, and for fewer than S
    vectors, where the smallest lattice has more, exactly `count` by `energy`. One vector is the middle.
    """
    objectives = _count(objectives)
    count = whole_number("count", count, "pass how many preferences to make")
    if count == 1:
        return _lifted(np.full((1, objectives), 1 / objectives), floor)
    if objectives > 5 or count < objectives:
        return energy(objectives, count, floor, seed)
    if count > 100_000:
        raise ValueError(message("count", "be at most 100000", count, "each preference is a run of its own"))
    sizes = (math.comb(divisions + objectives - 1, objectives - 1) for divisions in itertools.count(2))
    return lattice(objectives, 1 + sum(1 for _ in itertools.takewhile(lambda size: size <= count, sizes)), floor)


def dirichlet(center: Any, count: int, concentration: float = 50.0, floor: float = 0.01, seed: int = 0) -> np.ndarray:
    """`count` random vectors around `center`; the larger `concentration`, the closer."""
    middle = positive_vector("center", center, "pass a positive vector, one entry per objective")
    count = whole_number("count", count, "pass how many preferences to draw")
    scale = float(positive_number("concentration", concentration, "50 spreads by about 0.07 around 0.5"))
    return _lifted(np.random.default_rng(seed).dirichlet(scale * middle, count), floor)


def from_ray(ray: Any) -> np.ndarray:
    """The preference whose optimum has Phi proportional to `ray`: r proportional to 1/ray."""
    direction = positive_vector("ray", ray, "pass the wanted proportions of the objectives, all > 0")
    return (1 / direction) / np.sum(1 / direction)


def from_aspiration(levels: Any, reference: Any = 0.0) -> np.ndarray:
    """The preference that favours `levels`, in the objectives' units: r proportional to 1/(levels - reference).

    If the levels can be reached the optimum is at least as good in every objective; if not, it misses all active ones by the
    same factor. Give the same `reference` to the algorithm.
    """
    remedy = "pass levels above the reference point in every objective"
    return from_ray(positive_vector("levels - reference", np.asarray(levels, float) - reference, remedy, normalise=False))


def _count(objectives: Any) -> int:
    return whole_number("objectives", objectives, "a preference needs two objectives or more", least=2)


def _lifted(points: np.ndarray, floor: Any) -> np.ndarray:
    """Points of the simplex moved towards its middle until every entry is at least `floor`."""
    objectives = points.shape[1]
    floor = float(positive_number("floor", floor, "a preference of 0 stalls; 0.01 is a good floor"))
    if floor >= 1 / objectives:
        raise ValueError(message("floor", f"be below 1/{objectives}", floor, "lower it"))
    lifted = floor + (1 - objectives * floor) * points
    return lifted / lifted.sum(axis=1, keepdims=True)


def _spread(points: np.ndarray, steps: int = 300) -> np.ndarray:
    """Descent on the Riesz energy, each point moved by a falling length and projected back."""
    length = 0.5 / len(points) ** (1 / (points.shape[1] - 1))
    for step in range(steps):
        apart = points[:, None] - points[None]
        squares = np.sum(apart**2, axis=2) + np.eye(len(points))
        push = np.sum(apart / np.maximum(squares, 1e-12)[..., None] ** 2, axis=1)
        push -= push.mean(axis=1, keepdims=True)
        unit = push / np.maximum(np.linalg.norm(push, axis=1, keepdims=True), 1e-300)
        points = _projected(points + length * (1 - step / steps) * unit)
    return points


def _projected(points: np.ndarray) -> np.ndarray:
    """Euclidean projection of every row onto the simplex."""
    falling = -np.sort(-points, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1) / np.arange(1, points.shape[1] + 1)
    active = np.sum(falling > excess, axis=1)
    return np.maximum(points - excess[np.arange(len(points)), active - 1, None], 0)

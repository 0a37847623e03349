"""What exploration found: one solution per preference and seed, and ways to look at them and choose."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from bipareto.errors import flag, message, positive_vector, whole_number
from bipareto.metrics import Hypervolume, chebyshev, hypervolume, igd_plus, nondominated, nonuniformity
from bipareto.solver import Algorithm, Solution, solve
from bipareto.status import Status


class Recipe(NamedTuple):
    """How the runs of a front were made, to make one more like them."""

    problem: Any
    algorithm: Algorithm
    steps: int
    key: Any
    tolerance: Any


@dataclasses.dataclass(frozen=True)
class Front:
    """`solutions[p][i]` is the run of preference p and seed i; `preferences` [P, S] is None where there were none."""

    preferences: np.ndarray | None
    solutions: list[list[Solution]]
    reference: Any = 0.0
    names: tuple[str, ...] | None = None
    recipe: Recipe | None = dataclasses.field(default=None, repr=False)

    @property
    def values(self) -> np.ndarray:
        """[P, seeds, S]; those of a failed run are of its last finite point, or NaN."""
        return np.array([[run.values for run in row] for row in self.solutions])

    @property
    def status(self) -> list[list[Status]]:
        return [[run.status for run in row] for row in self.solutions]

    @property
    def failed(self) -> np.ndarray:
        """[P, seeds]: which runs did not end well."""
        return np.array([[run.status.failed for run in row] for row in self.solutions])

    @property
    def points(self) -> np.ndarray:
        """[n, S]: the values of the runs that ended well."""
        return self.values[~self.failed]

    @property
    def x(self) -> PyTree:
        """The upper variables of all runs, stacked: every array gets leading axes [P, seeds]."""
        trees = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *(run.x for run in row)) for row in self.solutions]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)

    def mean(self) -> np.ndarray:
        """[P, S]: mean over the seeds that ended well; NaN where none did."""
        good = ~self.failed[..., None]
        total = np.sum(np.where(good, self.values, 0), axis=1)
        return np.where(good.any(axis=1), total / np.maximum(good.sum(axis=1), 1), np.nan)

    def standard_error(self) -> np.ndarray:
        """[P, S]: standard error of that mean; NaN for fewer than two seeds that ended well."""
        good = ~self.failed[..., None]
        count = good.sum(axis=1)
        square = np.sum(np.where(good, (self.values - self.mean()[:, None]) ** 2, 0), axis=1)
        return np.where(count > 1, np.sqrt(square / np.maximum(count - 1, 1) / np.maximum(count, 1)), np.nan)

    def nondominated(self) -> np.ndarray:
        """[P, seeds]: which runs no other run dominates; failed runs never count."""
        shown = np.where(self.failed[..., None], np.nan, self.values)
        return nondominated(shown.reshape(-1, shown.shape[-1])).reshape(self.failed.shape)

    def hypervolume(self, reference: Any = None) -> Hypervolume:
        """Volume dominated by the runs that ended well, with the reference point used and whether it is exact."""
        return hypervolume(self.points, reference)

    def igd_plus(self, front: Any) -> float:
        """Mean shortfall from the points [n, S] of another front."""
        return igd_plus(self.points, front.points if isinstance(front, Front) else front)

    def alignment(self) -> dict[str, np.ndarray]:
        """[P, seeds] each: the Chebyshev value of every run for its own preference, and the non-uniformity of r o Phi."""
        if self.preferences is None:
            rule = "have preferences to measure alignment"
            raise ValueError(message("front", rule, "a front without", "explore with preferences"))
        rows = list(zip(self.preferences, self.values, strict=True))
        return {
            "chebyshev": np.array([chebyshev(values, r) for r, values in rows]),
            "nonuniformity": np.array([nonuniformity(values, r) for r, values in rows]),
        }

    def select(self, preference: Any) -> Solution:
        """Of the runs that ended well, the one with the smallest max_s r_s phi_s for the given preference."""
        r = positive_vector("preference", preference, "pass a positive vector, one entry per objective")
        if len(r) != self.values.shape[-1]:
            found = f"{len(r)} entries for {self.values.shape[-1]} objectives"
            raise ValueError(message("preference", "have one entry per objective", found, "add or remove entries"))
        if self.failed.all():
            raise ValueError(message("front", "hold a run that ended well", "none", "look at Front.table()"))
        heights = np.where(self.failed, np.inf, np.max(r * self.values, axis=-1))
        p, seed = np.unravel_index(np.argmin(heights), heights.shape)
        return self.solutions[p][seed]

    def resolve(self, preference: Any, steps: int | None = None, **options: Any) -> Solution:
        """Solve for a new preference from the nearest point found, `select(preference)`; `options` go to `solve`."""
        if self.recipe is None:
            remedy = "explore in this session, or call bp.solve from front.select(preference).x and .y"
            raise ValueError(message("front", "know its problem to solve again", "a front read from a file", remedy))
        made, nearest = self.recipe, self.select(preference)
        if not made.algorithm.takes_preference:
            remedy = "explore with bp.wc_mhgd(...)"
            raise ValueError(message("front", "be of an algorithm that follows a preference", "one that does not", remedy))
        r = positive_vector("preference", preference, "pass a positive vector, one entry per objective")
        options = {"key": made.key, "tolerance": made.tolerance} | options
        steps = made.steps if steps is None else steps
        return solve(made.problem, made.algorithm.prefer(r), nearest.x, nearest.y, steps, **options)

    def save(self, path: Any, *, x: bool = False) -> None:
        """Write the front to one file that `Front.load` and `numpy.load` read; with `x` the variables of all runs too."""
        from bipareto.front.files import save

        save(self, path, flag("x", x))

    @staticmethod
    def load(path: Any, x0: PyTree = None, y0: PyTree = None) -> "Front":
        """Read a front. Its variables, where saved, come as vectors, or as trees like `x0` and `y0` where given."""
        from bipareto.front.files import load

        return load(path, x0, y0)

    def plot(self) -> Any:
        """Parallel coordinates, as a matplotlib figure: one line per preference, its mean values with standard errors."""
        from bipareto.front.picture import parallel_coordinates

        return parallel_coordinates(self)

    def table(self, digits: int = 4) -> str:
        """One line per preference: it, the mean values (the lowest of each column starred) and how many runs failed."""
        digits = whole_number("digits", digits, "pass how many digits to show", least=0)
        means = self.mean()
        lowest = np.nanmin(means, axis=0) if np.isfinite(means).any() else np.full(means.shape[1], np.nan)
        lines = [
            f"{'preference':<{7 * means.shape[1]}}" + "".join(f"{f'phi_{s + 1}':>{digits + 8}}" for s in range(len(lowest)))
        ]
        for p, row in enumerate(means):
            r = "none" if self.preferences is None else " ".join(f"{entry:.4f}" for entry in self.preferences[p])
            cells = [f"{value:.{digits}f}" + ("*" if value == low else " ") for value, low in zip(row, lowest, strict=True)]
            failed = int(self.failed[p].sum())
            note = f"   {failed} of {len(self.failed[p])} runs failed" if failed else ""
            lines.append(f"{r:<{7 * len(row)}}" + "".join(f"{cell:>{digits + 8}}" for cell in cells) + note)
        return "\n".join(lines)

"""What exploration found: one solution per preference and seed, and ways to look at them and choose."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from bipareto.errors import flag, message, positive_vector, reference_point, whole_number
from bipareto.front.export import write_csv
from bipareto.metrics import Hypervolume, angle, chebyshev, coverage, hypervolume, igd_plus, nondominated, nonuniformity
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
    """`solutions[p][i]` is the run of preference p and seed i; `preferences` [P, S] is None where there were none.

    `reference` z: that of the algorithm, from which alignment and selection measure. `names`: of the objectives, with their
    units where they have any.
    """

    preferences: np.ndarray | None
    solutions: list[list[Solution]]
    reference: Any = 0.0
    names: tuple[str, ...] | None = None
    recipe: Recipe | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self):
        objectives = len(self.solutions[0][0].values)
        object.__setattr__(self, "reference", reference_point(self.reference, objectives))
        if self.names is not None:
            object.__setattr__(self, "names", checked_names(self.names, objectives))

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
    def objective_names(self) -> tuple[str, ...]:
        """`names`, or phi_1 ... phi_S."""
        return self.names or tuple(f"phi_{s + 1}" for s in range(self.values.shape[-1]))

    @property
    def x(self) -> PyTree:
        """The upper variables of all runs, every array stacked to [P, seeds, ...]; other leaves are those of the first."""
        shape = (len(self.solutions), len(self.solutions[0]))

        def stacked(*leaves):
            if not isinstance(leaves[0], (jax.Array, np.ndarray, np.generic)):
                return leaves[0]
            return jnp.stack(leaves).reshape(*shape, *leaves[0].shape)

        return jax.tree.map(stacked, *[run.x for row in self.solutions for run in row])

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
        """Volume dominated by the runs that ended well, with the corner used and whether it is exact.

        `reference`: the corner that bounds the volume, by default the worst values; not the front's own `reference`.
        """
        return hypervolume(self.points, reference)

    def igd_plus(self, front: Any) -> float:
        """Mean shortfall from the points [n, S] of another front."""
        return igd_plus(self.points, front.points if isinstance(front, Front) else front)

    def coverage(self, other: Any) -> float:
        """The share of the points of another front (or of points [n, S]) that some run weakly dominates."""
        return coverage(self.points, other.points if isinstance(other, Front) else other)

    def alignment(self) -> dict[str, np.ndarray]:
        """[P, seeds] each, of every run for its own preference: Chebyshev value, non-uniformity of r o (Phi - z), and angle
        in degrees between Phi - z and the preferred ray 1/r."""
        if self.preferences is None:
            rule = "have preferences to measure alignment"
            raise ValueError(message("front", rule, "a front without", "explore with preferences"))
        rows = list(zip(self.preferences, self.values, strict=True))
        measures = {"chebyshev": chebyshev, "nonuniformity": nonuniformity, "angle": angle}
        return {
            name: np.array([measure(values, r, self.reference) for r, values in rows]) for name, measure in measures.items()
        }

    def select(self, preference: Any) -> Solution:
        """Of the runs that ended well, the one with the smallest max_s r_s (phi_s - z_s) for the given preference."""
        r = positive_vector("preference", preference, "pass a positive vector, one entry per objective")
        if len(r) != self.values.shape[-1]:
            found = f"{len(r)} entries for {self.values.shape[-1]} objectives"
            raise ValueError(message("preference", "have one entry per objective", found, "add or remove entries"))
        if self.failed.all():
            raise ValueError(message("front", "hold a run that ended well", "none", "look at Front.table()"))
        heights = np.where(self.failed, np.inf, np.max(r * (self.values - self.reference), axis=-1))
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

    def plot(self, kind: str = "parallel", **options: Any) -> Any:
        """A matplotlib figure of the front. `objectives=[...]` (names or indices) picks some, in every kind.

        "parallel": one line per preference over the objectives, mean values with standard errors.
        "radar": one polygon per preference; `transform="inverse"` shows 1/value, larger is better, as the paper does.
        "scatter": every run in the plane of each pair of objectives, dominated ones hollow.
        "convergence": mean over seeds against the upper step; `quantity`: "values" or "gap"; `band`: "error", "range", None.
        """
        from bipareto.front.pictures import draw

        return draw(self, kind, options)

    def to_csv(self, path: Any) -> None:
        """Write one line per run: preference, seed, values, whether nondominated, status, steps, final gap and seconds.

        Numbers read back exactly. A file of that name is replaced at once or, should writing fail, not at all.
        """
        write_csv(self, path)

    def table(self, digits: int = 4) -> str:
        """One line per preference: it, the mean values (the lowest of each column starred) and how many runs failed."""
        digits = whole_number("digits", digits, "pass how many digits to show", least=0)
        means = self.mean()
        lowest = np.nanmin(means, axis=0) if np.isfinite(means).any() else np.full(means.shape[1], np.nan)
        widths = [max(digits + 8, len(name) + 2) for name in self.objective_names]
        heads = zip(self.objective_names, widths, strict=True)
        lines = [f"{'preference':<{7 * len(lowest)}}" + "".join(f"{name:>{width}}" for name, width in heads)]
        for p, row in enumerate(means):
            r = "none" if self.preferences is None else " ".join(f"{entry:.4f}" for entry in self.preferences[p])
            cells = [f"{value:.{digits}f}" + ("*" if value == low else " ") for value, low in zip(row, lowest, strict=True)]
            failed = int(self.failed[p].sum())
            note = f"   {failed} of {len(self.failed[p])} runs failed" if failed else ""
            aligned = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
            lines.append(f"{r:<{7 * len(row)}}" + aligned + note)
        return "\n".join(lines)


def checked_names(names: Any, objectives: int) -> tuple[str, ...]:
    remedy = "pass one name per objective, such as ('loss', 'energy [J]')"
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
        raise TypeError(message("names", "be a tuple of texts", repr(names), remedy))
    if len(names) != objectives or len(set(names)) != objectives:
        raise ValueError(message("names", f"be {objectives} different names", list(names), remedy))
    return tuple(names)

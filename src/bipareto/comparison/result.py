"""What a comparison found: the runs of all methods, and who is ahead by which measure."""

import dataclasses
import json
import pathlib
from typing import Any, NamedTuple

import numpy as np

from bipareto.comparison.race import Track
from bipareto.errors import message, one_of
from bipareto.metrics import hypervolume, igd_plus, nondominated
from bipareto.status import Status
from bipareto.store import CorruptFile, difference, export, jsonable


class Run(NamedTuple):
    """One run of a method; `preference`: its row, None where the method follows none. `measures`: of its end, [S] each."""

    method: str
    step_size: float
    seed: int
    preference: int | None
    track: Track
    measures: dict[str, np.ndarray]


def score(runs: list[Run], corner: np.ndarray) -> tuple[float, float]:
    """How good the ends of some runs are: their hypervolume, then how near the worst objective is to the corner."""
    points = _ends(runs)
    if not len(points):
        return 0.0, -np.inf
    return hypervolume(points, corner).value, -float(np.mean(np.max(points - corner, axis=1)))


def _ends(runs: list[Run]) -> np.ndarray:
    """[n, S]: the values where the runs that did not fail ended."""
    good = [run.track.values[-1] for run in runs if not run.track.status.failed]
    points = np.array([point for point in good if np.isfinite(point).all()])
    return points.reshape(len(points), runs[0].track.values.shape[1])


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`chosen`: name -> step size, `tuned`: name -> step size -> hypervolume it was chosen by. `start`, `corner` [seeds, S]:
    the true values before any step, and the reference point of the hypervolume."""

    names: tuple[str, ...]
    preferences: np.ndarray | None
    budget: dict[str, Any]
    chosen: dict[str, float]
    tuned: dict[str, dict[float, float]]
    start: np.ndarray
    corner: np.ndarray
    runs: list[Run]
    facts: dict[str, Any]

    @property
    def methods(self) -> list[str]:
        return list(self.chosen)

    def of(self, method: str, seed: int | None = None) -> list[Run]:
        """The runs of a method, of all seeds or of one."""
        one_of("method", method, self.methods)
        return [run for run in self.runs if run.method == method and seed in (None, run.seed)]

    def best(self, method: str) -> np.ndarray:
        """[seeds, S]: the lowest value of every objective that some run ended with; NaN where all failed."""
        points = [_ends(self.of(method, seed)) for seed in range(len(self.start))]
        return np.array([rows.min(axis=0) if len(rows) else np.full(len(self.names), np.nan) for rows in points])

    def gap(self, method: str) -> np.ndarray:
        """[seeds]: the largest exact stationarity gap over the runs that did not fail."""
        good = [[run.track.gap[-1] for run in self.of(method, seed) if not run.track.status.failed] for seed in self._seeds]
        return np.array([max(gaps, default=np.nan) for gaps in good])

    def hypervolume(self, method: str) -> np.ndarray:
        """[seeds]: volume between the ends of the method's runs and the corner, as a share of the union front's."""
        shares = []
        for seed in self._seeds:
            union, points = self._union(seed), _ends(self.of(method, seed))
            whole = hypervolume(union, self.corner[seed]).value if len(union) else 0.0
            part = hypervolume(points, self.corner[seed]).value if len(points) else 0.0
            shares.append(part / whole if whole > 0 else np.nan)
        return np.array(shares)

    def igd_plus(self, method: str) -> np.ndarray:
        """[seeds]: mean shortfall of the method's ends from the nondominated ends of all methods; NaN where all failed."""
        pairs = [(_ends(self.of(method, seed)), self._union(seed)) for seed in self._seeds]
        return np.array([igd_plus(points, union) if len(points) else np.nan for points, union in pairs])

    @property
    def _seeds(self) -> range:
        return range(len(self.start))

    def _union(self, seed: int) -> np.ndarray:
        points = _ends([run for run in self.runs if run.seed == seed])
        return points[nondominated(points)] if len(points) else points

    def table(self) -> str:
        """One line per method: means over the seeds, ± standard errors where there are several."""
        heads = ["method", "step size", "runs", "failed", "steps", "calls", "seconds", "largest gap", "hypervolume", "IGD+"]
        rows = [[*heads, *(f"best {name}" for name in self.names)]]
        rows.append(["(start)", *[""] * (len(heads) - 1), *(f"{value:.4g}" for value in self.start.mean(axis=0))])
        for method in self.methods:
            runs = self.of(method)
            failed = sum(run.track.status.failed for run in runs)
            spent = [np.mean([getattr(run.track, kind)[-1] for run in runs]) for kind in ("steps", "calls", "seconds")]
            cells = [method, f"{self.chosen[method]:g}", str(len(runs)), str(failed), f"{spent[0]:.0f}"]
            cells += [f"{spent[1]:.3g}", f"{spent[2]:.3g}", _shown(self.gap(method), 2)]
            cells += [_shown(self.hypervolume(method)), _shown(self.igd_plus(method))]
            rows.append(cells + [_shown(column) for column in self.best(method).T])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        unit = "samples" if self.budget["in_samples"] else "calls on all data"
        notes = f"calls: {unit}; hypervolume: share of the union's; seeds: {len(self.start)}"
        return "\n".join([*lines, notes])

    def plot(self, kind: str = "calls", **options: Any) -> Any:
        """A matplotlib figure: the gap against "calls" or "seconds", or a "radar" of the ends (`measure`, `title`)."""
        from bipareto.comparison.pictures import draw

        return draw(self, kind, options)

    def join(self, *others: "Comparison") -> "Comparison":
        """One comparison of the seeds of several, made with the same settings on other data or from other starts."""
        runs, seeds = list(self.runs), len(self.start)
        for other in others:
            changed = difference(_head(self), _head(other))
            if changed:
                rule = "have the methods, step sizes, budget and preferences of the first"
                raise ValueError(message("others", rule, "; ".join(changed), "pass `step_sizes=first.chosen`"))
            runs += [run._replace(seed=run.seed + seeds) for run in other.runs]
            seeds += len(other.start)
        start, corner = (np.concatenate([getattr(one, kind) for one in (self, *others)]) for kind in ("start", "corner"))
        return dataclasses.replace(self, start=start, corner=corner, runs=runs)

    def save(self, path: Any) -> None:
        """Write all of it as JSON."""
        tracks = [run._asdict() | {"track": run.track._asdict() | {"status": run.track.status.name}} for run in self.runs]
        settings = dataclasses.asdict(dataclasses.replace(self, runs=[]))
        export(path, (json.dumps(jsonable(settings) | {"runs": jsonable(tracks, 7)}) + "\n").encode())

    @staticmethod
    def load(path: Any) -> "Comparison":
        file = pathlib.Path(path)
        try:
            return _read(json.loads(file.read_text()))
        except OSError as error:
            raise FileNotFoundError(message("path", "be a saved comparison", error, "pass what save wrote")) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            text = message(str(file), "be a comparison written by Comparison.save", repr(error), "run it again")
            raise CorruptFile(text) from error


def _head(comparison: Comparison) -> dict[str, Any]:
    rows = None if comparison.preferences is None else comparison.preferences.tolist()
    same = {"budget": comparison.budget, "chosen": comparison.chosen, "facts": comparison.facts}
    return json.loads(json.dumps(same | {"names": comparison.names, "preferences": rows}))


def _read(saved: dict) -> Comparison:
    floats = lambda rows: np.array(rows, float)  # noqa: E731
    runs = []
    for run in saved["runs"]:
        track = dict(run["track"])
        whole = {name: np.array(track.pop(name), int) for name in ("steps", "calls")}
        status = Status[track.pop("status")]
        made = Track(status=status, **whole, **{name: floats(rows) for name, rows in track.items()})
        measures = {name: floats(rows) for name, rows in run["measures"].items()}
        runs.append(Run(run["method"], run["step_size"], run["seed"], run["preference"], made, measures))
    tuned = {name: {float(size): value for size, value in table.items()} for name, table in saved["tuned"].items()}
    rows = None if saved["preferences"] is None else floats(saved["preferences"])
    sets = (saved["budget"], saved["chosen"], tuned, floats(saved["start"]), floats(saved["corner"]), runs, saved["facts"])
    return Comparison(tuple(saved["names"]), rows, *sets)


def _shown(values: np.ndarray, digits: int = 4) -> str:
    """Mean over the seeds with its standard error."""
    if not np.isfinite(values).any():
        return "-"
    good = values[np.isfinite(values)]
    error = f" ± {good.std(ddof=1) / np.sqrt(len(good)):.1g}" if len(good) > 1 else ""
    return f"{good.mean():.{digits}g}{error}"

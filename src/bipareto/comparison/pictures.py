"""Pictures of a comparison: how fast the gap falls, and where the methods end."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from bipareto.errors import message, one_of
from bipareto.front.looks import COLOURS, MARKERS
from bipareto.front.pictures.radar import spokes
from bipareto.front.pictures.shared import tidy

if TYPE_CHECKING:
    from bipareto.comparison.result import Comparison, Run


def draw(comparison: "Comparison", kind: str, options: dict) -> Figure:
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    if one_of("kind", kind, ("calls", "seconds", "radar")) == "radar":
        radar(figure.add_subplot(projection="polar"), comparison, **options)
    else:
        falling(figure.add_subplot(), comparison, kind, **options)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure


def falling(axes: Any, comparison: "Comparison", kind: str) -> None:
    """The largest exact gap over a method's preferences against what was spent: geometric mean over seeds, and range."""
    floor = 1e-16 * max(float(run.track.gap[0]) for run in comparison.runs)
    for i, method in enumerate(comparison.methods):
        spent, gaps = _curves(comparison, method, kind)
        gaps = np.maximum(gaps, floor)  # a gap of 0 has no place on the axis
        style = _style(i)
        axes.plot(spent, np.exp(np.mean(np.log(gaps), axis=0)), label=method, linewidth=1.5, markersize=4, **style)
        axes.fill_between(spent, gaps.min(axis=0), gaps.max(axis=0), color=style["color"], alpha=0.15, linewidth=0)
    axes.set_yscale("log")
    unit = "samples" if comparison.budget["in_samples"] else "calls on all data"
    axes.set_xlabel(f"oracle calls of a run ({unit})" if kind == "calls" else "seconds of a run, without compilation")
    axes.set_ylabel("stationarity gap, worst over preferences")
    tidy(axes)


def _curves(comparison: "Comparison", method: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """What was spent [m], and the gaps [seeds, m] then; of each run the last point judged before."""
    longest = max(comparison.of(method), key=lambda run: len(run.track.gap)).track
    spent = getattr(longest, kind)

    def gap(run: "Run") -> np.ndarray:
        own = getattr(run.track, kind)
        return run.track.gap[np.maximum(np.searchsorted(own, spent, side="right") - 1, 0)]

    seeds = range(len(comparison.start))
    return spent, np.array([np.max([gap(run) for run in comparison.of(method, seed)], axis=0) for seed in seeds])


def radar(axes: Any, comparison: "Comparison", measure: str | None = None, title: str | None = None) -> None:
    """The best of each method's ends in every objective, mean over seeds, larger is better: 1/value, or a `measure`."""
    if len(comparison.names) < 3:
        raise ValueError(message("kind", "be another for fewer than three objectives", "radar", 'use plot("calls")'))
    best = {method: _best(comparison, method, measure) for method in comparison.methods}
    angles = 2 * np.pi * np.arange(len(comparison.names)) / len(comparison.names)
    spokes(axes, angles, list(comparison.names))
    for i, (method, row) in enumerate(best.items()):
        axes.plot(np.append(angles, 0), np.append(row, row[0]), label=method, linewidth=1.5, markersize=5, **_style(i))
    shown = np.array([row for row in best.values() if np.isfinite(row).all()])
    low, high = float(shown.min()), float(shown.max())
    cut = high > low > 0.6 * high
    axes.set_rlim(max(0.0, low - 0.7 * (high - low)) if cut else 0.0, high + 0.05 * (high - low if cut else high))
    name = ("1 / value" if measure is None else measure) if title is None else title
    axes.set_title(f"{name}, best run" + (" (centre is not 0)" if cut else ""), fontsize="medium", pad=20)


def _best(comparison: "Comparison", method: str, measure: str | None) -> np.ndarray:
    """[S]: larger is better; a measure is taken so unless its name ends with "loss"."""
    if measure is None:
        values = comparison.best(method)
        if np.nanmin(values) <= 0:
            remedy = "pass measure=..., a number that is positive"
            raise ValueError(message("value", "be positive for a radar of 1/value", np.nanmin(values), remedy))
        return np.mean(1 / values, axis=0)
    one_of("measure", measure, tuple(comparison.runs[0].measures))
    seeds = range(len(comparison.start))
    rows = [np.array([run.measures[measure] for run in comparison.of(method, seed)]) for seed in seeds]
    return np.mean([(1 / row if measure.endswith("loss") else row).max(axis=0) for row in rows], axis=0)


def _style(i: int) -> dict[str, Any]:
    turn = i // len(COLOURS)
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[(i + turn) % len(MARKERS)], "linestyle": ("-", "--")[turn]}

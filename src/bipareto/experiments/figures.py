"""The paper's figures from saved results only: radars and bars, convergence, runs without a preference, the geometry."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bipareto.comparison import Comparison
from bipareto.comparison.pictures import falling, radar
from bipareto.front.looks import COLOURS, MARKERS
from bipareto.front.pictures.radar import spokes
from bipareto.front.pictures.shared import tidy

# What the paper plots: accuracy where there is one for both parts, 1/loss otherwise; larger is better in both.
_MEASURES = {
    "deterministic": [
        ("train_loss", "query, 1/loss"),
        ("train_accuracy", "query accuracy"),
        ("test_accuracy", "test accuracy"),
    ],
    "stochastic": [("train_loss", "validation, 1/loss"), ("test_loss", "test, 1/loss"), ("test_accuracy", "test accuracy")],
}


def measured(results: dict, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean [variants, S] and standard error over the seeds; losses as 1/loss."""
    runs = np.array([[run[name] for run in seed["runs"]] for seed in results["seeds"]], float)
    shown = 1 / runs if name.endswith("loss") else runs
    error = shown.std(axis=0, ddof=1) / np.sqrt(len(shown)) if len(shown) > 1 else np.zeros(shown.shape[1:])
    return shown.mean(axis=0), error


def radars(results: dict) -> Figure:
    """For each measure a radar of all variants, shaded their best; below, the same numbers as bars with standard errors."""
    measures = _MEASURES[results["experiment"]]
    figure = _blank(results, 4.6 * len(measures), 7.4)
    for column, (name, title) in enumerate(measures):
        mean, error = measured(results, name)
        _radar(figure.add_subplot(2, len(measures), column + 1, projection="polar"), results, mean, title)
        _bars(figure.add_subplot(2, len(measures), len(measures) + column + 1), results, mean, error, title)
    _legend(figure)
    return figure


def curves(results: dict) -> Figure:
    """The preferred objective against the upper step for every variant; beside it the mean measures at the end."""
    figure = _blank(results, 12.0, 4.4)
    left, *right = figure.subplots(1, 3)
    preferred = results["variants"][0]["preferred"]
    for i, style in enumerate(_styles(results)):
        step, values = _curve(results, i)
        _band(left, step, values[..., preferred], results["variants"][i]["label"], style)
    left.set_xlabel("upper step")
    left.set_ylabel(f"loss of the preferred objective ({results['tasks'][preferred]})")
    drawn = np.concatenate([line.get_ydata() for line in left.get_lines()])
    if drawn.min() > 0 and drawn.max() > 10 * drawn.min():
        left.set_yscale("log")
    tidy(left)
    for axes, (name, title) in zip(right, _MEASURES[results["experiment"]][::2], strict=True):
        runs = np.array([[np.mean(_shown(run[name], name)) for run in seed["runs"]] for seed in results["seeds"]])
        error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else None
        labels = [variant["label"] for variant in results["variants"]]
        axes.bar(labels, runs.mean(axis=0), yerr=error, capsize=4, color=[style["color"] for style in _styles(results)])
        axes.set_title(f"{title}, mean over objectives", fontsize="medium", pad=14)
        _from_zero_unless_close(axes, runs.mean(axis=0))
        tidy(axes)
    _legend(figure)
    return figure


def alone(results: dict) -> Figure:
    """Runs without a preference: every objective against the upper step, and radars of each seed's end."""
    measures = _MEASURES[results["experiment"]][:: 2 if results["experiment"] == "deterministic" else 1][:2]
    figure = _blank(results, 14.0, 4.6)
    axes = figure.add_subplot(1, 3, 1)
    step, values = _curve(results, 0)
    for s, task in enumerate(results["tasks"]):
        style = {"color": COLOURS[s % len(COLOURS)], "linestyle": "--" if s >= len(COLOURS) else "-"}
        _band(axes, step, values[..., s], task, style)
    axes.set_xlabel("upper step")
    axes.set_ylabel("loss")
    tidy(axes)
    for column, (name, title) in enumerate(measures):
        runs = np.array([_shown(seed["runs"][0][name], name) for seed in results["seeds"]])
        panel = figure.add_subplot(1, 3, column + 2, projection="polar")
        angles = _angles(results)
        spokes(panel, angles, _short(results))
        for i, row in enumerate(runs):
            look = {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 4, "linewidth": 1.2}
            panel.plot(np.append(angles, 0), np.append(row, row[0]), label=f"seed {i}", **look)
        _rings(panel, runs, title)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside left center", frameon=False, title="objective")
    figure.legend(*figure.axes[-1].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


def contest(comparison: Comparison) -> Figure:
    """Where the methods end, by training and by test, and how fast their gap falls."""
    facts = comparison.facts
    figure = Figure(figsize=(15.0, 9.6), layout="constrained")
    rows: Any = figure.subfigures(2, 1, height_ratios=(1.1, 1))
    above, below = rows
    seeds = len(comparison.start)
    figure.suptitle(f"{facts['contest']}, preset {facts['preset']}, {seeds} seed{'s' * (seeds != 1)}", x=0.01, ha="left")
    experiment = facts["contest"].removesuffix("-comparison")
    top = [
        (None if name == "train_loss" else name, title)
        for name, title in _MEASURES[experiment]
        if (experiment, name) != ("deterministic", "train_loss")  # these reach 0, which has no place on a radar of 1/loss
    ]
    for column, (measure, title) in enumerate(top):
        radar(above.add_subplot(1, len(top), column + 1, projection="polar"), comparison, measure, title)
    for axes, kind in zip(below.subplots(1, 2), ("calls", "seconds"), strict=True):
        falling(axes, comparison, kind)
    _legend(figure)
    return figure


def geometry(results: dict) -> Figure:
    """Left: the gradients, their hulls and the directions chosen. Right: the weight of each objective against u."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    plane, weights = figure.subplots(1, 2)
    gradients, r = np.array(results["gradients"]), np.array(results["preference"])
    for hull, style, name in ((gradients, "-", "∇φ"), (r[:, None] * gradients, "--", "r∘∇φ")):
        plane.plot(*hull.T, style, color="0.55", label=f"hull of {name}")
        for s, end in enumerate(hull):
            plane.annotate("", end, (0, 0), arrowprops={"arrowstyle": "->", "color": "0.4"})
            plane.annotate(
                f"{'' if style == '-' else f'{r[s]:g} '}∇φ{'₁₂'[s]}",
                end,
                fontsize=9,
                xytext=(4, 4),
                textcoords="offset points",
            )
    path = np.array(results["directions"])
    plane.plot(*path.T, color=COLOURS[0], linewidth=3, label="WC-MHGD, u from 0.001 to 100")
    for name, colour, marker, label in (
        ("mgda", COLOURS[3], "D", "MGDA"),
        ("scaled", COLOURS[2], "s", "u = 0: shortest of r∘∇φ"),
    ):
        plane.plot(*results[name], marker, color=colour, markersize=9, label=label)
    plane.plot(0, 0, "k+", markersize=10)
    plane.set_aspect("equal", adjustable="datalim")
    plane.set_xlabel("first coordinate of the direction")
    plane.set_ylabel("second coordinate")
    plane.legend(fontsize="small", frameon=False)
    tidy(plane)
    for s, row in enumerate(np.array(results["weights"]).T):
        weights.semilogx(
            results["u"],
            row,
            color=COLOURS[s],
            linestyle=("-", "--")[s],
            label=f"λ{'₁₂'[s]}: r = {r[s]:g}, φ = {results['values'][s]:g}",
        )
    weights.set_xlabel("u")
    weights.set_ylabel("weight λ of the quadratic program")
    weights.legend(frameon=False)
    tidy(weights)
    return figure


def _shown(values: Any, name: str) -> np.ndarray:
    return 1 / np.array(values, float) if name.endswith("loss") else np.array(values, float)


def _blank(results: dict, width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    seeds = len(results["seeds"])
    figure.suptitle(f"{results['study']}, preset {results['preset']}, {seeds} seed{'s' * (seeds != 1)}", x=0.01, ha="left")
    return figure


def _styles(results: dict) -> list[dict]:
    return [
        {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]} for i in range(len(results["variants"]))
    ]


def _legend(figure: Figure) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=8, frameon=False)


def _angles(results: dict) -> np.ndarray:
    return 2 * np.pi * np.arange(len(results["tasks"])) / len(results["tasks"])


def _radar(axes: Any, results: dict, mean: np.ndarray, title: str) -> None:
    angles = _angles(results)
    spokes(axes, angles, _short(results))
    axes.fill(angles, mean.max(axis=0), facecolor="0.88", edgecolor="0.6", label="best of all")
    for i, row in enumerate(mean):
        label = _label(results, i)
        axes.plot(
            np.append(angles, 0), np.append(row, row[0]), linewidth=1.4, markersize=4, label=label, **_styles(results)[i]
        )
    _rings(axes, mean, title)


def _rings(axes: Any, shown: np.ndarray, title: str) -> None:
    """Radii from 0, or from close below the least where all are close; the title says which."""
    low, high = float(shown.min()), float(shown.max())
    cut = low > 0.6 * high
    axes.set_rlim(max(0.0, low - 0.7 * (high - low)) if cut else 0.0, high + 0.05 * (high - low if cut else high))
    axes.set_title(f"{title} (centre is not 0)" if cut else title, fontsize="medium", pad=20)


def _short(results: dict) -> list[str]:
    return [task.removesuffix(" wrong") for task in results["tasks"]]


def _label(results: dict, i: int) -> str:
    variant = results["variants"][i]
    return (
        f"prefers {results['tasks'][variant['preferred']]}" if variant["label"].startswith("prefers") else variant["label"]
    )


def _bars(axes: Any, results: dict, mean: np.ndarray, error: np.ndarray, title: str) -> None:
    width = 0.8 / len(mean)
    for i, (row, bar) in enumerate(zip(mean, error, strict=True)):
        place = np.arange(len(row)) + (i - (len(mean) - 1) / 2) * width
        axes.bar(place, row, width, yerr=bar, capsize=2, color=COLOURS[i % len(COLOURS)], error_kw={"elinewidth": 1})
    axes.set_xticks(np.arange(mean.shape[1]), _short(results), fontsize=8)
    axes.set_ylabel(f"{title}, ± standard error")
    _from_zero_unless_close(axes, mean)
    tidy(axes)


def _from_zero_unless_close(axes: Any, mean: np.ndarray) -> None:
    """Bars that differ by little are cut off below, and the axis says so."""
    low, high = float(mean.min()), float(mean.max())
    if low > 0.6 * high:
        axes.set_ylim(max(0.0, low - 0.6 * (high - low) - 0.01 * high), None)
        axes.text(1.0, 1.005, "axis does not start at 0", transform=axes.transAxes, ha="right", va="bottom", fontsize=7)


def _curve(results: dict, variant: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps [k] and values [seeds, k, S] of a variant, up to where its shortest seed ended."""
    found = [seed["runs"][variant]["curve"] for seed in results["seeds"]]
    length = min(len(curve["step"]) for curve in found)
    return np.array(found[0]["step"][:length]), np.array([curve["values"][:length] for curve in found], float)


def _band(axes: Any, step: np.ndarray, values: np.ndarray, label: str, style: dict) -> None:
    mean = values.mean(axis=0)
    line = {name: value for name, value in style.items() if name != "marker"}
    axes.plot(step, mean, label=label, linewidth=1.5, **line)
    if len(values) > 1:
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        axes.fill_between(step, mean - error, mean + error, color=style["color"], alpha=0.2, linewidth=0)

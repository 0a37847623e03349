"""Radar charts. Their area depends on the order of the axes: a picture, never a number."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bipareto.errors import message, one_of
from bipareto.front.looks import crowded, label, styles
from bipareto.front.pictures.shared import blank, heading, legend, need_runs, picked

if TYPE_CHECKING:
    from bipareto.front.front import Front


def radar(front: "Front", objectives: Any = None, transform: str | None = None) -> Figure:
    """One polygon per preference, its mean over seeds; shaded: the best value of each objective over all runs.

    `transform`: None for the values as they are, "inverse" for 1/value, so that larger is better (means are of 1/value).
    """
    need_runs(front)
    index = picked(front, objectives)
    if len(index) < 3:
        raise ValueError(message("objectives", "be three or more for a radar", len(index), 'use plot("scatter")'))
    values = _transformed(front, index, one_of("transform", transform, (None, "inverse")))
    best = np.nanmin(values, axis=(0, 1)) if transform is None else np.nanmax(values, axis=(0, 1))
    angles = 2 * np.pi * np.arange(len(index)) / len(index)
    names = [label(front, s, 16) for s in index]
    lines = [line for name in names for line in name.split("\n")] if front.names else [""]
    tall = max(name.count("\n") for name in names)
    figure = blank(4.8 + 0.15 * max(map(len, lines)), 4.8 + 0.4 * tall)
    axes: Any = figure.add_subplot(projection="polar")
    spokes(axes, angles, names)
    axes.fill(angles, best, facecolor="0.85", edgecolor="0.6", zorder=1)
    many = crowded(front)
    look = {"linewidth": 1.0, "markersize": 3, "alpha": 0.7} if many else {"linewidth": 1.5, "markersize": 5}
    means = {p: values[p, good].mean(axis=0) for p, good in enumerate(~front.failed) if good.any()}
    style = styles(front)
    for p, mean in means.items():
        axes.plot(np.append(angles, 0), np.append(mean, mean[0]), zorder=2, **style[p], **look)
    axes.set_rlim(*_radii(np.stack([best, *means.values()])))
    reading = "value, smaller is better" if transform is None else "1 / value, larger is better"
    heading(figure, front, reading)
    legend(figure, front, [Patch(facecolor="0.85", edgecolor="0.6", label="best of all runs")])
    figure.draw_without_rendering()  # the layout of round axes needs a pass more to clear the names of the legend
    return figure


def _transformed(front: "Front", index: list[int], transform: str | None) -> np.ndarray:
    """[P, seeds, S], NaN where a run failed."""
    values = np.where(front.failed[..., None], np.nan, front.values)[..., index]
    if transform is None:
        return values
    if np.nanmin(values) <= 0:
        found = f"{transform!r} and a value of {np.nanmin(values):.4g}"
        raise ValueError(message("transform", "be None where a value is not positive", found, "1/value needs values > 0"))
    return 1 / values


def _radii(drawn: np.ndarray) -> tuple[float, float]:
    """From 0 where nothing is below it, with room for markers at the rim."""
    least, most = drawn.min(), drawn.max()
    room = 0.05 * (most - least) or 0.05 * abs(most) or 1.0
    return float(0 if least >= 0 else least - room), float(most + room)


def spokes(axes: Any, angles: np.ndarray, names: list[str]) -> None:
    """Make round axes a radar with one named spoke per objective."""
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_xticks(angles, names)
    axes.tick_params(axis="x", pad=8)
    for angle, text in zip(angles, axes.get_xticklabels(), strict=True):  # written away from the circle
        side = np.sin(angle)
        text.set_horizontalalignment("center" if abs(side) < 0.1 else "left" if side > 0 else "right")
    axes.set_rlabel_position(np.degrees(angles[1]) / 2)  # between two spokes, where the polygons have no corner
    axes.tick_params(axis="y", labelsize=8, labelcolor="0.35")
    axes.grid(alpha=0.4)
    axes.spines["polar"].set_visible(False)

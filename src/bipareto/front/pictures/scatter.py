"""Scatter matrix."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bipareto.errors import message
from bipareto.front.looks import crowded, groups, label
from bipareto.front.pictures.shared import blank, heading, legend, need_runs, picked, tidy

if TYPE_CHECKING:
    from bipareto.front.front import Front

MOST = 6


def scatter(front: "Front", objectives: Any = None) -> Figure:
    """Every run that ended well, in the plane of each pair of objectives; hollow: dominated (over all objectives)."""
    need_runs(front)
    index = picked(front, objectives)
    if not 2 <= len(index) <= MOST:
        remedy = f"pick some with objectives=[...], such as {list(front.objective_names[:3])}"
        raise ValueError(message("objectives", f"be 2 to {MOST} for a scatter matrix", len(index), remedy))
    size = len(index) - 1
    panel = 4.4 if size == 1 else 2.8 if size == 2 else 1.9
    figure = blank(panel * size + 0.5, panel * size + 0.3)
    grid = figure.subplots(size, size, squeeze=False, sharex="col", sharey="row")
    for row in range(size):
        for column in range(size):
            axes = grid[row, column]
            if column > row:
                axes.set_visible(False)
                continue
            _panel(axes, front, index[column], index[row + 1])
            if row == size - 1:
                axes.set_xlabel(label(front, index[column], 18))
            if column == 0:
                axes.set_ylabel(label(front, index[row + 1], 18))
    heading(figure, front)
    look: Any = {"color": "0.3", "marker": "o", "linestyle": "none"}
    meanings = [Line2D([], [], label="nondominated", **look), Line2D([], [], label="dominated", mfc="none", **look)]
    legend(figure, front, meanings, line=False)
    return figure


def _panel(axes: Any, front: "Front", across: int, up: int) -> None:
    values, best = front.values, front.nondominated()
    size = 4 if crowded(front) else 6
    for group in groups(front):
        look = {**group.style, "linestyle": "none", "markersize": size, "alpha": 0.8}
        rows = np.array(group.rows)
        for which, fill in ((best[rows], group.style["color"]), (~best[rows] & ~front.failed[rows], "none")):
            axes.plot(values[rows][which][:, across], values[rows][which][:, up], markerfacecolor=fill, **look)
    tidy(axes)

"""Parallel coordinates."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bipareto.front.looks import crowded, label, styles
from bipareto.front.pictures.shared import blank, heading, legend, need_runs, picked, tidy

if TYPE_CHECKING:
    from bipareto.front.front import Front


def parallel(front: "Front", objectives: Any = None) -> Figure:
    """One line per preference over the objectives; ring: the objective that matters most to it."""
    need_runs(front)
    index = picked(front, objectives)
    means, errors = front.mean()[:, index], front.standard_error()[:, index]
    axis = np.arange(len(index))
    figure = blank(max(5.0, 0.9 * len(index)), 4.4)
    axes = figure.subplots()
    many = crowded(front)
    look = {"linewidth": 1.0, "markersize": 4, "alpha": 0.7} if many else {"linewidth": 1.5, "markersize": 6}
    for p, style in enumerate(styles(front)):
        bars = None if np.isnan(errors[p]).all() else errors[p]
        axes.errorbar(axis, means[p], bars, capsize=0 if many else 3, **style, **look)
        if not many:
            top = _most_preferred(front, p)[index]
            axes.plot(axis[top], means[p, top], "o", ms=13, mfc="none", mec=style["color"])
    long = front.names is not None and max(len(front.names[s]) for s in index) * len(index) > 80
    turned: Any = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if long else {}
    axes.set_xticks(axis, [label(front, s, 24 if long else 12) for s in index], **turned)
    axes.set_ylabel("value of the objective")
    heading(figure, front, *([] if np.isnan(errors).all() else ["mean ± standard error over seeds"]))
    tidy(axes)
    ring: Any = {"marker": "o", "markersize": 11, "mfc": "none", "mec": "0.3", "linestyle": "none"}
    ringed = front.preferences is not None and not many
    legend(figure, front, [Line2D([], [], label="preferred most", **ring)] if ringed else [])
    return figure


def _most_preferred(front: "Front", p: int) -> np.ndarray:
    """[S]: the objectives with the largest entry; none where there is no preference or all are equal."""
    r = np.ones(front.values.shape[-1]) if front.preferences is None else front.preferences[p]
    top = np.isclose(r, r.max(), rtol=1e-9)
    return top & ~top.all()

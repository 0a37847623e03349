"""Fronts as pictures."""

from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from bipareto.front.front import Front

# Okabe and Ito's colours, told apart with any colour vision; markers for those who print in grey.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def parallel_coordinates(front: "Front") -> Figure:
    """One line per preference over the objectives; ring: the objective that matters most to it."""
    means, errors = front.mean(), front.standard_error()
    axis = np.arange(means.shape[1])
    figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    few = len(means) <= len(COLOURS)
    for p, row in enumerate(means):
        colour = COLOURS[p] if few else plt.get_cmap("viridis")(p / (len(means) - 1))
        style = {"color": colour, "marker": MARKERS[p % len(MARKERS)], "linewidth": 1.5, "alpha": 1.0 if few else 0.7}
        bars = None if np.isnan(errors[p]).all() else errors[p]
        axes.errorbar(axis, row, bars, capsize=3, label=_label(front, p), **style)
        if front.preferences is not None:
            top = int(np.argmax(front.preferences[p]))
            axes.plot(top, row[top], "o", ms=13, mfc="none", mec=colour)
    axes.set_xticks(axis, [f"$\\phi_{{{s + 1}}}$" for s in axis])
    axes.set_ylabel("value of the objective" + ("" if np.isnan(errors).all() else ", mean ± standard error"))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if few:
        figure.legend(loc="outside right upper", title="preference")
    failed = int(front.failed.sum())
    axes.set_title(f"{front.failed.size - failed} runs" + (f", {failed} failed and not shown" if failed else ""))
    return figure


def _label(front: "Front", p: int) -> str:
    if front.preferences is None:
        return "none"
    return " ".join(f"{entry:.2g}" for entry in front.preferences[p])

"""Values and stationarity gap against the upper step."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bipareto.errors import message, one_of
from bipareto.front.looks import crowded, label, styles
from bipareto.front.pictures.shared import blank, heading, legend, picked, tidy

if TYPE_CHECKING:
    from bipareto.front.front import Front

BANDS = {"error": "mean ± standard error over seeds", "range": "mean and range over seeds", None: "mean over seeds"}


class Panel(NamedTuple):
    """What one panel shows: an objective's index, or None for the gap."""

    objective: int | None

    def curve(self, run: Any) -> np.ndarray:
        return run.history.gap if self.objective is None else run.history.values[:, self.objective]


def convergence(front: "Front", objectives: Any = None, quantity: str = "values", band: str | None = "error") -> Figure:
    """One panel per objective, or one for the gap; one line per preference: the mean over the seeds that ended well.

    The numbers are those of the steps: with batches, estimates. A run that stopped at its tolerance rests where it stopped.
    Failed runs are dotted until they end, at a cross; the axes follow the others.
    """
    one_of("quantity", quantity, ("values", "gap"))
    one_of("band", band, BANDS)
    if quantity == "gap" and objectives is not None:
        remedy = 'drop it, or ask for quantity="values"'
        raise ValueError(message("objectives", "be None for the gap, which belongs to all", objectives, remedy))
    panels = [Panel(None)] if quantity == "gap" else [Panel(s) for s in picked(front, objectives)]
    square = math.ceil(math.sqrt(len(panels)))
    columns = len(panels) if len(panels) <= 3 else min(square, square + 1, key=lambda across: -len(panels) % across)
    rows = math.ceil(len(panels) / columns)
    width, height = (5.0, 3.8) if len(panels) == 1 else (3.1, 2.7) if len(panels) <= 4 else (2.4, 2.0)
    figure = blank(width * columns, height * rows + 0.6)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for panel, axes in zip(panels, grid, strict=False):
        _draw(axes, front, panel, band)
        if panel.objective is not None:
            axes.set_title(label(front, panel.objective), fontsize="medium")
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    _words(figure, front, quantity, band)
    return figure


def summary(curves: list[np.ndarray], band: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, and lower and upper edge of the band, at every step of the longest curve."""
    length = max(map(len, curves))
    table = np.stack([np.pad(curve, (0, length - len(curve)), mode="edge") for curve in curves])
    mean = table.mean(axis=0)
    if band == "range":
        return mean, table.min(axis=0), table.max(axis=0)
    error = table.std(axis=0, ddof=1) / math.sqrt(len(table)) if band == "error" and len(table) > 1 else 0 * mean
    return mean, mean - error, mean + error


def _draw(axes: Any, front: "Front", panel: Panel, band: str | None) -> None:
    many = crowded(front)
    spans, failed = [], []
    for p, style in enumerate(styles(front)):
        colour = style["color"]
        curves = [panel.curve(run) for run in front.solutions[p] if not run.status.failed and len(run.history.gap)]
        if curves:
            mean, low, high = summary(curves, band)
            every = max(1, len(mean) // 6)
            marks = {**style, "markevery": (p * every // 7 % every, every), "markersize": 3 if many else 4}
            axes.plot(np.arange(len(mean)), mean, linewidth=0.8 if many else 1.5, alpha=0.7 if many else 1, **marks)
            if (high > low).any():
                axes.fill_between(np.arange(len(mean)), low, high, color=colour, alpha=0.1 if many else 0.2, linewidth=0)
            spans += [mean, low, high]
        for curve in [panel.curve(run) for run in front.solutions[p] if run.status.failed and len(run.history.gap)]:
            axes.plot(np.arange(len(curve)), curve, color=colour, linestyle=":", linewidth=1.2)
            axes.plot(len(curve) - 1, curve[-1], color=colour, marker="x", linestyle="none")
            failed.append(curve)
    _limits(axes, spans, failed, panel.objective is None)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    tidy(axes)


def _limits(axes: Any, spans: list[np.ndarray], failed: list[np.ndarray], logarithmic: bool) -> None:
    """The range of the runs that ended well, and of failed ones up to as much again: one that ran away flattens no other."""
    shown, lost = (np.concatenate(arrays) if arrays else np.empty(0) for arrays in (spans, failed))
    shown, lost = (array[np.isfinite(array) & ((array > 0) | (not logarithmic))] for array in (shown, lost))
    if logarithmic and len(shown) + len(lost):
        axes.set_yscale("log")
        shown, lost = np.log10(shown), np.log10(lost)
    if not len(shown):
        return
    least, most = shown.min(), shown.max()
    room = (most - least) or 0.1 * abs(most) or 1.0
    if len(lost):
        least, most = min(least, max(lost.min(), least - room)), max(most, min(lost.max(), most + room))
    edges = least - 0.05 * room, most + 0.05 * room
    axes.set_ylim(*(10.0 ** np.array(edges) if axes.get_yscale() == "log" else edges))


def _words(figure: Figure, front: "Front", quantity: str, band: str | None) -> None:
    gap = "stationarity gap $\\|\\Sigma_s\\lambda_s\\nabla\\phi_s\\|^2$"
    figure.supylabel(gap if quantity == "gap" else "value of the objective", fontsize="medium")
    figure.supxlabel("upper step", fontsize="medium")
    heading(figure, front, *([BANDS[band]] if front.failed.shape[1] > 1 else []), failed_are="dotted")
    dotted = [Line2D([], [], color="0.3", linestyle=":", marker="x", label="failed, until its end")]
    legend(figure, front, dotted if front.failed.any() else ())

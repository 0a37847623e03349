"""What all pictures of a front have in common: what is written around the data."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from bipareto.errors import message, one_of
from bipareto.front.looks import crowded, groups

if TYPE_CHECKING:
    from bipareto.front.front import Front


def picked(front: "Front", objectives: Any) -> list[int]:
    """The objectives to show, as indices; None is all."""
    names = list(front.objective_names)
    remedy = f"pass some of {names}, or their indices from 0"
    if objectives is None:
        return list(range(len(names)))
    if isinstance(objectives, str) or not isinstance(objectives, (Sequence, np.ndarray)) or not len(objectives):
        raise TypeError(message("objectives", "be a list of objectives", repr(objectives), remedy))
    index = [names.index(one_of("objectives", one, names)) if isinstance(one, str) else one for one in objectives]
    whole = (isinstance(one, (int, np.integer)) and not isinstance(one, bool) for one in index)
    if not all(whole) or not all(0 <= one < len(names) for one in index):
        raise ValueError(message("objectives", f"be names or integers from 0 to {len(names) - 1}", list(objectives), remedy))
    if len(set(index)) < len(index):
        raise ValueError(message("objectives", "be different", list(objectives), "name each once"))
    return [int(one) for one in index]


def need_runs(front: "Front") -> None:
    if front.failed.all():
        remedy = 'look at Front.table(), or at Front.plot("convergence")'
        raise ValueError(message("front", "hold a run that ended well", "none", remedy))


def blank(width: float, height: float) -> Figure:
    """A figure with so many inches for the data; the legend adds its own."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(compress=True, w_pad=0.08, h_pad=0.08))


def heading(figure: Figure, front: "Front", *lines: str, failed_are: str = "not shown") -> None:
    """What is shown, and of how many runs; at the left, for the legend has the right."""
    rows, seeds = front.failed.shape
    parts = ([] if front.preferences is None else [_many(rows, "preference")]) + [_many(seeds, "seed")]
    failed = int(front.failed.sum())
    runs = " × ".join(parts) + (f"; {_many(failed, 'run')} failed ({failed_are})" if failed else "")
    figure.suptitle("\n".join([*lines, runs]), x=0.02, horizontalalignment="left", fontsize="medium")


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def legend(figure: Figure, front: "Front", extra: Sequence[Any] = (), line: bool = True) -> None:
    """Beside the data, never on it: the figure grows by its size."""
    off = {} if line else {"linestyle": "none"}
    handles = [Line2D([], [], label=group.label, **{**group.style, **off}) for group in groups(front)]
    shown = [*handles, *extra]
    title = None if front.preferences is None else "most preferred (count)" if crowded(front) else "preference"
    look: Any = {"title": title, "frameon": False, "handlelength": 2.6, "ncols": 1 + len(shown) // 20}
    box = figure.legend(handles=shown, loc="outside right upper", **look).get_window_extent()
    width, height = figure.get_size_inches()
    figure.set_size_inches(width + box.width / figure.dpi, max(height, box.height / figure.dpi + 0.4))


def tidy(axes: Any) -> None:
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)

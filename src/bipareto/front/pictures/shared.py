"""What all pictures of a front have in common: which colour is which preference, and what is written around the data."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from bipareto.errors import message, one_of

if TYPE_CHECKING:
    from bipareto.front.front import Front

# Okabe and Ito's colours, told apart with any colour vision (less the yellow, too faint on white); markers for those who
# print in grey. Dotted lines are left for runs that failed.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.")
SEVERAL = {"color": "0.55", "marker": "*", "linestyle": "-"}


class Group(NamedTuple):
    """Preferences that share a line of the legend."""

    label: str
    rows: list[int]
    style: dict[str, Any]


def groups(front: "Front") -> list[Group]:
    """Each preference for itself where the colours suffice, otherwise those that put the most on the same objective."""
    lost = [bool(row.all()) for row in front.failed]
    if front.preferences is None:
        return [Group("no preference", list(range(len(lost))), _style(0))]
    if not crowded(front):
        return [Group(_label(front, p) + (" (failed)" if failed else ""), [p], _style(p)) for p, failed in enumerate(lost)]
    order = np.sort(front.preferences, axis=1)
    single = order[:, -1] > order[:, -2] * (1 + 1e-9)
    top = np.where(single, np.argmax(front.preferences, axis=1), -1)
    found = [(s, np.flatnonzero(top == s).tolist()) for s in range(front.preferences.shape[1])]
    made = [Group(f"{label(front, s)} ({len(rows)})", rows, _style(s)) for s, rows in found if rows]
    rest = np.flatnonzero(top == -1).tolist()
    return made + ([Group(f"several equally ({len(rest)})", rest, SEVERAL)] if rest else [])


def styles(front: "Front") -> list[dict[str, Any]]:
    """How to draw each preference, in their order."""
    found = {p: group.style for group in groups(front) for p in group.rows}
    return [found[p] for p in range(len(front.solutions))]


def crowded(front: "Front") -> bool:
    return len(front.solutions) > len(COLOURS)


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


def label(front: "Front", s: int, width: int = 22) -> str:
    """The name of an objective for a picture, broken into lines."""
    return f"$\\phi_{{{s + 1}}}$" if front.names is None else textwrap.fill(front.names[s], width)


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


def _style(i: int) -> dict[str, Any]:
    turn = i // len(COLOURS)
    marker = MARKERS[(i + turn) % len(MARKERS)]
    return {"color": COLOURS[i % len(COLOURS)], "marker": marker, "linestyle": LINES[turn % len(LINES)]}


def _label(front: "Front", p: int) -> str:
    """All entries of a preference where they fit, otherwise its two largest."""
    r = np.asarray(front.preferences)[p]
    if len(r) <= 5:
        return " ".join(f"{entry:.2g}" for entry in r)
    first, second, *_, last = np.argsort(-r, kind="stable").tolist()
    if np.isclose(r[second], r[last]):
        return f"{label(front, first)} {r[first]:.2g}, others {r[last]:.2g}"
    return f"{label(front, first)} {r[first]:.2g}, {label(front, second)} {r[second]:.2g}, …"

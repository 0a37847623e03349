"""Which colour, marker and line is which preference, in pictures and reports alike."""

import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from bipareto.front.front import Front

# Okabe and Ito's colours, told apart with any colour vision (less the yellow, too faint on white); markers for those who
# print in grey. Dotted lines are left for runs that failed.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.")
SEVERAL = {"color": "#8C8C8C", "marker": "*", "linestyle": "-"}


class Group(NamedTuple):
    """Preferences that share a line of the legend."""

    label: str
    rows: list[int]
    style: dict[str, Any]


def groups(front: "Front") -> list[Group]:
    """Each preference for itself where the colours suffice, otherwise those that put the most on the same objective."""
    lost = [bool(row.all()) for row in front.failed]
    if front.preferences is None:
        return [Group("no preference", list(range(len(lost))), style(0))]
    if not crowded(front):
        return [
            Group(preference_label(front, p) + (" (failed)" if failed else ""), [p], style(p))
            for p, failed in enumerate(lost)
        ]
    order = np.sort(front.preferences, axis=1)
    single = order[:, -1] > order[:, -2] * (1 + 1e-9)
    top = np.where(single, np.argmax(front.preferences, axis=1), -1)
    found = [(s, np.flatnonzero(top == s).tolist()) for s in range(front.preferences.shape[1])]
    made = [Group(f"{label(front, s)} ({len(rows)})", rows, style(s)) for s, rows in found if rows]
    rest = np.flatnonzero(top == -1).tolist()
    return made + ([Group(f"several equally ({len(rest)})", rest, SEVERAL)] if rest else [])


def styles(front: "Front") -> list[dict[str, Any]]:
    """How to draw each preference, in their order."""
    found = {p: group.style for group in groups(front) for p in group.rows}
    return [found[p] for p in range(len(front.solutions))]


def crowded(front: "Front") -> bool:
    return len(front.solutions) > len(COLOURS)


def label(front: "Front", s: int, width: int = 22) -> str:
    """The name of an objective for a picture, broken into lines."""
    return f"$\\phi_{{{s + 1}}}$" if front.names is None else textwrap.fill(front.names[s], width)


def style(i: int) -> dict[str, Any]:
    """The look of the i-th of several things."""
    turn = i // len(COLOURS)
    marker = MARKERS[(i + turn) % len(MARKERS)]
    return {"color": COLOURS[i % len(COLOURS)], "marker": marker, "linestyle": LINES[turn % len(LINES)]}


def preference_label(front: "Front", p: int) -> str:
    """All entries of a preference where they fit, otherwise its two largest."""
    r = np.asarray(front.preferences)[p]
    if len(r) <= 5:
        return " ".join(f"{entry:.2g}" for entry in r)
    first, second, *_, last = np.argsort(-r, kind="stable").tolist()
    if np.isclose(r[second], r[last]):
        return f"{label(front, first)} {r[first]:.2g}, others {r[last]:.2g}"
    return f"{label(front, first)} {r[first]:.2g}, {label(front, second)} {r[second]:.2g}, …"

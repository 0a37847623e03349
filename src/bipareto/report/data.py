"""What the page shows, as plain numbers and texts: JSON that holds neither NaN nor markup."""

import dataclasses
import datetime
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from bipareto.errors import message
from bipareto.front import Front
from bipareto.front.looks import COLOURS, Group, groups, preference_label, style
from bipareto.metrics import hypervolume, nondominated
from bipareto.solver import Solution
from bipareto.store import jsonable

# Plotly's names of the markers and lines of the pictures.
SYMBOLS = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "D": "diamond",
    "v": "triangle-down",
    "P": "cross",
    "X": "x",
    "*": "star",
}
DASHES = {"-": "solid", "--": "dash", "-.": "dashdot"}
# A curve of more points than a screen has columns looks the same; all curves together should stay a few megabytes.
CURVE_POINTS, ALL_POINTS = 300, 30_000


@dataclasses.dataclass(frozen=True)
class Run:
    """A front and what is told of it. `facts` may hold "settings" and "versions" (tables), "command" (a text) and
    "certificates" (a list of tables, one for each of the front's runs, preference after preference)."""

    name: str
    front: Front
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(message("name", "be a text", repr(self.name), "say what the run is"))
        if not isinstance(self.front, Front):
            raise TypeError(message("front", "be a Front", repr(self.front), "pass what bp.explore returned"))
        count = self.front.failed.size
        certificates = self.facts.get("certificates")
        if certificates is not None and len(certificates) != count:
            remedy = "certify every run, or none"
            raise ValueError(message("certificates", f"be one for each of the {count} runs", len(certificates), remedy))


def checked(runs: Sequence[Run]) -> list[Run]:
    """Runs that can be compared: of the same objectives."""
    rows = list(runs)
    if not rows or not all(isinstance(run, Run) for run in rows):
        raise TypeError(message("runs", "be a list of report.Run", repr(runs), "pass [report.Run(name, front, facts)]"))
    names = [run.front.objective_names for run in rows]
    other = next((run.name for run, own in zip(rows, names, strict=True) if own != names[0]), None)
    if other is not None:
        rule = f"have the objectives of {rows[0].name!r}"
        raise ValueError(message("runs", rule, f"others in {other!r}", "write one report per problem"))
    return rows


def page_data(runs: Sequence[Run], **more: Any) -> dict[str, Any]:
    """Everything the page needs; `more` are entries of its own."""
    rows = checked(runs)
    first = _named(rows[0].front)
    grouped = _grouped(rows)
    total = sum(run.front.failed.size for run in rows)
    points = max(30, min(CURVE_POINTS, ALL_POINTS // total))
    marks = {(f, p): i for i, (f, group) in enumerate(grouped) for p in group.rows}
    entries = [entry for f, run in enumerate(rows) for entry in _entries(f, run, marks, points, len(rows) > 1)]
    fronts = [
        {"name": run.name, "facts": {key: value for key, value in run.facts.items() if key != "certificates"}, **volume}
        for run, volume in zip(rows, _hypervolumes(rows), strict=True)
    ]
    shown = {
        "names": first.names,
        "reference": first.reference,
        "grouped": _grouping(rows),
        "groups": [_look(group) for _, group in grouped],
        "objectives": [_look(Group(name, [], style(s))) for s, name in enumerate(first.objective_names)],
        "fronts": fronts,
        "runs": [{**entry, "nondominated": best} for entry, best in zip(entries, _nondominated(rows), strict=True)],
        "written": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    return jsonable({**shown, **more})


def to_json(data: Any) -> str:
    """JSON that can stand inside a script element: no character that could end it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _named(front: Front) -> Front:
    """The front with names for its objectives that need no typesetting."""
    digits = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    own = front.names or tuple(f"φ{s + 1}".translate(digits) for s in range(front.values.shape[-1]))
    return dataclasses.replace(front, names=own)


def _entries(f: int, run: Run, marks: dict[tuple[int, int], int], points: int, several: bool) -> list[dict[str, Any]]:
    """One for each run of a front, preference after preference."""
    front = _named(run.front)
    certificates = run.facts.get("certificates") or [None] * front.failed.size
    places = [(p, seed) for p, row in enumerate(front.solutions) for seed in range(len(row))]
    return [
        {
            **_entry(front.solutions[p][seed], points),
            "title": (f"{run.name}: " if several else "") + _title(front, p, seed),
            "front": f,
            "group": marks[f, p],
            "preference": None if front.preferences is None else front.preferences[p],
            "certificate": certificate,
        }
        for (p, seed), certificate in zip(places, certificates, strict=True)
    ]


def _entry(solution: Solution, points: int) -> dict[str, Any]:
    history, steps = solution.history, len(solution.history.gap)
    kept = np.unique(np.linspace(0, steps - 1, points).round().astype(int)) if steps > points else np.arange(steps)
    curves = {name: _short(np.asarray(getattr(history, name))[kept]) for name in ("values", "weights", "gap", "margin")}
    return {
        "values": np.asarray(solution.values, float),
        "failed": solution.status.failed,
        "status": solution.status.name,
        "message": solution.message,
        "steps": steps,
        "gap": float(history.gap[-1]) if steps else None,
        "seconds": solution.seconds,
        "oracles": solution.oracles._asdict(),
        "history": {"steps": kept, **curves},
    }


def _short(curve: np.ndarray) -> Any:
    """Six digits: more than a plot can show."""
    rounded = [float(f"{value:.6g}") for value in np.asarray(curve, float).ravel().tolist()]
    return np.reshape(rounded, curve.shape) if len(rounded) else curve


def _grouped(runs: list[Run]) -> list[tuple[int, Group]]:
    """What shares a colour, and of which front: a preference where the colours suffice, else its most preferred objective,
    or the front where there are several."""
    if len(runs) > 1 and sum(len(run.front.solutions) for run in runs) > len(COLOURS):
        return [(f, Group(run.name, list(range(len(run.front.solutions))), style(f))) for f, run in enumerate(runs)]
    found = [(f, run.name, group) for f, run in enumerate(runs) for group in groups(_named(run.front))]
    if len(runs) == 1:
        return [(f, group) for f, _, group in found]
    return [(f, Group(f"{name}: {group.label}", group.rows, style(i))) for i, (f, name, group) in enumerate(found)]


def _grouping(runs: list[Run]) -> str:
    """What the colours tell apart."""
    if sum(len(run.front.solutions) for run in runs) <= len(COLOURS):
        return "Preference r"
    return "Most preferred (count)" if len(runs) == 1 else "Run"


def _title(front: Front, p: int, seed: int) -> str:
    """What to call a run of a front."""
    words = "no preference" if front.preferences is None else f"r = {preference_label(front, p)}"
    text = words if front.failed.shape[1] == 1 else f"{words}, seed {seed}"
    return " ".join(text.split())


def _nondominated(runs: list[Run]) -> np.ndarray:
    """[n]: which runs that ended well no other run of any front dominates."""
    shown = [np.where(run.front.failed[..., None], np.nan, run.front.values) for run in runs]
    return nondominated(np.concatenate([values.reshape(-1, values.shape[-1]) for values in shown]))


def _look(group: Group) -> dict[str, str]:
    look = group.style
    dash, symbol = DASHES[look["linestyle"]], SYMBOLS[look["marker"]]
    return {"label": " ".join(group.label.split()), "colour": look["color"], "dash": dash, "symbol": symbol}


def _hypervolumes(runs: list[Run]) -> list[dict[str, Any]]:
    """Of each front, below the worst values of all; nothing where there is nothing to compare, or moocore is missing."""
    points = [run.front.points for run in runs]
    if len(runs) == 1 or not all(map(len, points)):
        return [{} for _ in runs]
    corner = np.concatenate(points).max(axis=0)
    try:
        return [{"hypervolume": hypervolume(own, corner).value} for own in points]
    except ModuleNotFoundError:
        return [{} for _ in runs]

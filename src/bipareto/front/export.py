"""A front as a table for other programs."""

import csv
import io
from typing import TYPE_CHECKING, Any

from bipareto.errors import message
from bipareto.store import export

if TYPE_CHECKING:
    from bipareto.front.front import Front


def write_csv(front: "Front", path: Any) -> None:
    """One line per run, floats as `repr` writes them: the shortest text that reads back as the same number."""
    objectives = len(front.objective_names)
    after = ["nondominated", "status", "steps", "gap", "seconds"]
    header = [*[f"r_{s + 1}" for s in range(objectives)], "seed", *front.objective_names, *after]
    if len(set(header)) < len(header):
        taken = sorted({name for name in header if header.count(name) > 1})
        raise ValueError(message("names", "differ from the other columns", taken, "rename these objectives"))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    table.writerows(_rows(front))
    export(path, text.getvalue().encode())


def _rows(front: "Front"):
    best = front.nondominated()
    for p, runs in enumerate(front.solutions):
        blank = [""] * len(front.objective_names)
        preference = blank if front.preferences is None else [repr(float(entry)) for entry in front.preferences[p]]
        for seed, run in enumerate(runs):
            values = [repr(float(value)) for value in run.values]
            steps = len(run.history.gap)
            gap = repr(float(run.history.gap[-1])) if steps else ""
            after = [bool(best[p, seed]), run.status.name, steps, gap, repr(float(run.seconds))]
            yield [*preference, seed, *values, *after]

"""A front as a table for other programs."""

import csv
import io
import os
import pathlib
from typing import TYPE_CHECKING, Any

from bipareto.errors import message

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
    _replace(path, text.getvalue())


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


def _replace(path: Any, text: str) -> None:
    """Write beside the target and rename: readers see the old file or the new one, never a part."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(message("path", "be a path", repr(path), "pass a file name such as 'front.csv'"))
    target = pathlib.Path(path)
    if not target.parent.is_dir():
        raise ValueError(message("path", "lie in an existing folder", repr(str(target)), f"create {str(target.parent)!r}"))
    if target.is_dir():
        raise ValueError(message("path", "be a file", f"the folder {str(target)!r}", "add a file name such as 'front.csv'"))
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(beside, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)

"""What a person sees: progress with rich on a terminal, plain lines elsewhere; results as text or as one JSON document."""

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bipareto.distributed import is_first
from bipareto.progress import Show, Update, duration
from bipareto.store import jsonable


@contextlib.contextmanager
def progress(quiet: bool, names: tuple[str, ...]) -> Iterator[Show]:
    """What to pass as `progress=`: a live table on a terminal, lines where standard error is none, nothing if quiet."""
    if quiet or not is_first():
        yield False
    elif not sys.stderr.isatty():
        yield True
    else:
        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            live.update(Text("compiling ...", style="dim"), refresh=True)
            yield lambda update: live.update(rendered(update, names), refresh=True)


def rendered(update: Update, names: tuple[str, ...], most: int = 12) -> Group:
    """The table of one run (a line per objective) or of many (a line each), and below it the bar."""
    table = _one(update, names) if update.ended is None else _many(update, names, most)
    speed = "" if update.speed is None else f"{update.speed:.3g} steps/s"
    left = "" if update.left is None else f"{duration(update.left)} left"
    bar = Table.grid(padding=(0, 2))
    runs = "" if update.ended is None else "runs {}/{}".format(*update.ended)
    bar.add_row(ProgressBar(update.total, update.done, width=30), f"{update.done}/{update.total} steps", runs, speed, left)
    gap = Text(f"stationarity gap {float(update.mean('gap')):.2e}" + ("" if update.ended is None else " (mean)"))
    return Group(table, gap, bar)


def _one(update: Update, names: tuple[str, ...]) -> Table:
    (row,) = update.rows
    table = Table(box=None)
    for head in ("objective", "loss", "weight"):
        table.add_column(head, justify="left" if head == "objective" else "right")
    for name, value, weight in zip(names, row.values, row.weights, strict=True):
        table.add_row(Text(name), f"{value:.4g}", f"{weight:.3f}")
    return table


def _many(update: Update, names: tuple[str, ...], most: int) -> Table:
    table = Table(
        box=None, pad_edge=False, padding=(0, 1, 0, 0), title="loss and weight of every objective", title_justify="left"
    )
    table.add_column("preference", no_wrap=True)
    for name in (*names, "gap", "step"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for row in update.rows[:most]:
        r = "none" if row.preference is None else " ".join(map(_short, row.preference))
        pairs = zip(row.values, row.weights, strict=True)
        cells = [Text.assemble(f"{value:.3g} ", (_short(weight), "dim")) for value, weight in pairs]
        table.add_row(r, *cells, f"{row.gap:.1e}", str(row.step))
    if len(update.rows) > most:
        table.add_row(Text(f"and {len(update.rows) - most} more", style="dim"))
    return table


def _short(number: float) -> str:
    return f"{number:.2f}".removeprefix("0")


class Outcome(NamedTuple):
    """What a command found, for people and for programs, and what is wrong with it."""

    text: str
    document: dict[str, Any]
    failure: str = ""


def finish(json_wanted: bool, outcome: Outcome) -> int:
    """Print the outcome; the exit code."""
    if is_first():
        text = json.dumps(jsonable(outcome.document), allow_nan=False) if json_wanted else outcome.text
        if text:
            print(text, flush=True)
        if outcome.failure:
            print(" ".join(outcome.failure.split()), file=sys.stderr)
    return int(bool(outcome.failure))

"""Progress on standard error: on a terminal it is rewritten in place, elsewhere nothing is printed unless asked for."""

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Row(NamedTuple):
    """Where one run stands; values, weights and gap are of its last step, NaN before the first."""

    preference: Any
    values: np.ndarray
    weights: np.ndarray
    gap: float
    step: int

    @staticmethod
    def of(preference: Any, records: Any, step: int) -> "Row":
        """After the last of some records."""
        values, weights = (np.asarray(column[-1]) for column in (records.values, records.weights))
        return Row(preference, values, weights, float(records.gap[-1]), step)


class Update(NamedTuple):
    """Where all stands; `ended`: runs that ended, and how many there are. Speed and time left are None at the start."""

    done: int
    total: int
    unit: str
    rows: list[Row]
    ended: tuple[int, int] | None
    speed: float | None
    left: float | None

    def mean(self, name: str) -> Any:
        """Of the rows' values, weights or gaps; NaN where no run has taken a step."""
        table = np.array([getattr(row, name) for row in self.rows], float)
        return np.nanmean(table, axis=0) if np.isfinite(table).any() else np.nan * table[0]


Show = bool | Callable[[Update], Any] | None


class Progress:
    """Writes losses, weights, gap, speed and time left at most twice a second, or hands them to the function `show`."""

    def __init__(self, total: int, show: Show, unit: str = "step"):
        self.terminal = sys.stderr.isatty()
        self.show = self.terminal if show is None else show
        self.total, self.unit = total, unit
        self.first: tuple[int, float] | None = None
        self.last, self.height = -np.inf, 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.terminal and self.height:
            sys.stderr.write("\n")

    def __call__(self, done: int, rows: Callable[[], list[Row]], ended: tuple[int, int] | None = None) -> None:
        now = time.perf_counter()
        if self.first is None:  # compiling, and what an earlier session did, say nothing about the speed
            self.first = (done, now)
        # A log gets fewer lines the longer it is: each at least 2 % of the time after the one before.
        pause = 0.5 if self.terminal or callable(self.show) else max(0.5, 0.02 * (now - self.first[1]))
        if not self.show or (now - self.last < pause and done < self.total):
            return
        self.last, speed, left = now, None, None
        if done > self.first[0]:
            speed = (done - self.first[0]) / max(now - self.first[1], 1e-9)
            left = (self.total - done) / speed
        update = Update(done, self.total, self.unit, rows(), ended, speed, left)
        if callable(self.show):
            self.show(update)
        else:
            self._write(update)

    def _write(self, update: Update) -> None:
        lines = [_summary(update)]
        if update.ended is not None and (self.terminal or update.done >= update.total):
            lines = [*_table(update.rows), *lines]
        if self.terminal:
            back = f"\033[{self.height - 1}A" if self.height > 1 else ""
            sys.stderr.write("\r" + back + "\033[J" + "\n".join(lines))  # J: a table may be shorter than the one before
        else:
            sys.stderr.write("\n".join(lines) + "\n")
        self.height = len(lines)
        sys.stderr.flush()


def _summary(update: Update) -> str:
    head = "" if update.ended is None else "runs {}/{}  ".format(*update.ended)
    line = f"{head}{update.unit} {update.done}/{update.total}  gap {float(update.mean('gap')):.2e}"
    line += f"  losses {_joined(update.mean('values'), '.4g')}  weights {_joined(update.mean('weights'), '.2f')}"
    if update.speed is not None and update.left is not None:
        line += f"  {update.speed:.3g} steps/s  {duration(update.left)} left"
    return line


def _table(rows: list[Row], most: int = 12) -> list[str]:
    """The runs in flight, a line each."""
    lines = []
    for row in rows[:most]:
        r = "no preference" if row.preference is None else " ".join(f"{entry:.2f}" for entry in row.preference[:8])
        cells = " ".join(f"{value:9.4g}" for value in row.values[:8])
        lines.append(f"  {r}  |{cells}  |  weights {_joined(row.weights, '.2f')}  gap {row.gap:.1e}  step {row.step}")
    return lines + ([f"  ... and {len(rows) - most} runs more"] if len(rows) > most else [])


def _joined(values: np.ndarray, form: str) -> str:
    return " ".join(f"{value:{form}}" for value in values[:8]) + (" ..." if len(values) > 8 else "")


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

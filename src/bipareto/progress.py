"""Progress on standard error: on a terminal it is rewritten in place, elsewhere nothing is printed unless asked for."""

import sys
import time
from collections.abc import Callable

import numpy as np


class Progress:
    """Writes step, gap, losses, speed and time left, and a table where one is given, at most twice a second."""

    def __init__(self, steps: int, show: bool | None, unit: str = "step"):
        self.terminal = sys.stderr.isatty()
        self.show = self.terminal if show is None else show
        self.steps, self.unit = steps, unit
        self.first: tuple[int, float] | None = None
        self.last, self.height = -np.inf, 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.show and self.terminal and self.height:
            sys.stderr.write("\n")

    def __call__(
        self, done: int, values: np.ndarray, gap: float, head: str = "", table: Callable[[], list[str]] | None = None
    ) -> None:
        now = time.perf_counter()
        if self.first is None:  # compiling, and what an earlier session did, say nothing about the speed
            self.first = (done, now)
        final = done >= self.steps
        if not self.show or (now - self.last < 0.5 and not final):
            return
        self.last = now
        losses = " ".join(f"{value:.4g}" for value in values[:8]) + (" ..." if len(values) > 8 else "")
        line = f"{head}{self.unit} {done}/{self.steps}  gap {gap:.2e}  losses {losses}"
        if done > self.first[0]:
            speed = (done - self.first[0]) / max(now - self.first[1], 1e-9)
            line += f"  {speed:.3g} steps/s  {_duration((self.steps - done) / speed)} left"
        self._write([*(table() if table is not None and (self.terminal or final) else []), line])

    def _write(self, lines: list[str]) -> None:
        if self.terminal:
            back = f"\033[{self.height - 1}A" if self.height > 1 else ""
            sys.stderr.write("\r" + back + "\033[J" + "\n".join(lines))  # J: a table may be shorter than the one before
        else:
            sys.stderr.write("\n".join(lines) + "\n")
        self.height = len(lines)
        sys.stderr.flush()


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

"""One line of progress: on a terminal it is rewritten in place, elsewhere nothing is printed unless asked for."""

import sys
import time

import numpy as np


class Progress:
    """Writes step, gap, losses, speed and time left to standard error, at most twice a second."""

    def __init__(self, steps: int, show: bool | None):
        self.terminal = sys.stderr.isatty()
        self.show = self.terminal if show is None else show
        self.steps = steps
        self.started = time.perf_counter()
        self.last = -np.inf

    def __call__(self, done: int, values: np.ndarray, gap: float) -> None:
        now = time.perf_counter()
        final = done >= self.steps
        if not self.show or (now - self.last < 0.5 and not final):
            return
        self.last = now
        speed = done / max(now - self.started, 1e-9)
        losses = " ".join(f"{value:.4g}" for value in values[:8]) + (" ..." if len(values) > 8 else "")
        left = (self.steps - done) / speed
        line = f"step {done}/{self.steps}  gap {gap:.2e}  losses {losses}  {speed:.3g} steps/s  {left:.0f} s left"
        sys.stderr.write(f"\r\033[K{line}" if self.terminal else line + "\n")
        sys.stderr.flush()

    def close(self) -> None:
        if self.show and self.terminal and self.last > 0:
            sys.stderr.write("\n")

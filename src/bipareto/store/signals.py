"""SIGINT and SIGTERM wait until the steps in flight are saved, then do what they always do."""

import signal
import threading
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Notes the first signal; a second one acts at once. Outside the main thread signals are left alone."""

    def __init__(self):
        self.caught = 0
        self._before = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """A signal noted after the last chunk is not lost; an error on its way says more than it."""
        self._restore()
        if self.caught and kind is None:
            self.act(self.caught)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.caught = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}

    def act(self, number: int) -> None:
        """Let a signal do what it would have done; it may have been another process that noted it."""
        self._restore()
        self.caught = 0
        signal.raise_signal(number)

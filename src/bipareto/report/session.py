"""A front that grows while it is looked at: one solve at a time, in a thread of its own, heard by all who listen."""

import asyncio
import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bipareto.errors import positive_vector
from bipareto.front import Front
from bipareto.report.data import Run, page_data, to_json
from bipareto.solver import Record, Solution
from bipareto.store import jsonable, pack, to_plain

CANCELLED = "Cancelled; the front is as it was."


class Busy(Exception):
    """A solve is in flight."""


class _Stopped(Exception):
    """Ends a solve after the steps in flight; its text tells why."""


class Session:
    """What the server serves. `save(front)` is called whenever a point has joined."""

    def __init__(
        self, front: Front, save: Callable[[Front], None], facts: dict[str, Any], time_limit: float, steps: int | None
    ):
        # One attribute for both, replaced at once: whoever reads it meanwhile sees the old or the new.
        self.run = Run(str(facts.get("name") or "Choose a solution"), front, facts)
        self.save, self.time_limit, self.steps = save, time_limit, steps
        self.cannot = _cannot(front)
        self._lock, self._cancel = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._latest: tuple[str, dict[str, Any]] = ("idle", {})
        self._listeners: dict[asyncio.Queue, asyncio.AbstractEventLoop] = {}

    @property
    def front(self) -> Front:
        return self.run.front

    def page(self) -> str:
        """The data of the page, as JSON."""
        return to_json(page_data([self.run], live=True, cannot=self.cannot))

    def solve(self, preference: Any) -> None:
        """Start to solve for a preference; `Busy` while another solve is in flight."""
        if self.cannot:
            raise ValueError(self.cannot)
        r = positive_vector("preference", preference, "move every slider above 0")
        self.front.select(r)  # says at once where the preference does not fit
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                raise Busy("A solve is in flight: wait for its end, or cancel it.")
            self._cancel.clear()
            self._tell("progress", self._progress(0, 0.0))
            self._thread = threading.Thread(target=self._work, args=(r,), name="solve")
            self._thread.start()

    def cancel(self) -> None:
        """Ask the solve in flight to end."""
        self._cancel.set()

    def close(self) -> None:
        """Cancel, and wait until the steps in flight are done."""
        self.cancel()
        if (thread := self._thread) is not None:
            thread.join()

    def listen(self, queue: asyncio.Queue) -> None:
        """From now on put every event into `queue`; the first says where things stand."""
        with self._lock:
            self._listeners[queue] = asyncio.get_running_loop()
            kind, facts = self._latest
            queue.put_nowait((kind, facts) if kind == "progress" else ("idle", {}))

    def unlisten(self, queue: asyncio.Queue) -> None:
        with self._lock:
            self._listeners.pop(queue, None)

    def _tell(self, kind: str, facts: dict[str, Any]) -> None:
        self._latest = (kind, jsonable(facts))
        for queue, loop in self._listeners.items():
            loop.call_soon_threadsafe(queue.put_nowait, self._latest)

    def _progress(self, done: int, seconds: float, **more: Any) -> dict[str, Any]:
        recipe = self.front.recipe
        steps = self.steps if self.steps is not None or recipe is None else recipe.steps
        return {"done": done, "steps": steps, "seconds": seconds, **more}

    def _work(self, r: np.ndarray) -> None:
        began, told = time.monotonic(), 0.0

        def watch(done: int, records: Record) -> None:
            nonlocal told
            seconds = time.monotonic() - began
            if self._cancel.is_set():
                raise _Stopped(CANCELLED)
            if seconds > self.time_limit:
                raise _Stopped(f"Stopped at the time limit of {self.time_limit:g} s; the front is as it was.")
            if seconds - told < 0.1:  # as often as eyes can follow
                return
            told = seconds
            last = {"values": np.asarray(records.values[-1]), "gap": float(records.gap[-1])}
            with self._lock:
                self._tell("progress", self._progress(done, seconds, **last))

        try:
            solution = self.front.resolve(r, self.steps, callback=watch, progress=False)
            ended = self._take(r, solution, time.monotonic() - began)
        except _Stopped as stopped:
            ended = {"outcome": "stopped", "message": str(stopped)}
        except Exception as error:  # whatever the user's functions raise is told on the page, which goes on
            ended = {"outcome": "failed", "message": f"{type(error).__name__}: {error}"}
        with self._lock:
            self._thread = None
            self._tell("ended", ended)

    def _take(self, r: np.ndarray, solution: Solution, seconds: float) -> dict[str, Any]:
        """Let a solution join the front, if it ended well and nobody cancelled meanwhile."""
        if self._cancel.is_set():
            raise _Stopped(CANCELLED)
        if solution.status.failed:
            return {"outcome": "failed", "message": f"The run failed: {solution.message}"}
        self.run = _grown(self.run, r, solution)
        ended = {"outcome": "solved", "index": len(self.front.solutions) - 1}
        told = f"Solved in {seconds:.1f} s, {len(solution.history.gap)} steps"
        try:
            self.save(self.front)
        except Exception as error:
            return {**ended, "message": f"{told}, but it could not be saved: {error}"}
        return {**ended, "message": f"{told}; it is part of the front and saved."}


def _grown(run: Run, r: np.ndarray, solution: Solution) -> Run:
    """The run with one solution more. Every solution gets a row of its own: the new one has no seeds beside it."""
    front, facts = run.front, dict(run.facts)
    rows = np.repeat(np.asarray(front.preferences), front.failed.shape[1], axis=0)
    single = [[one] for row in front.solutions for one in row]
    if facts.get("certificates") is not None:
        facts["certificates"] = [*facts["certificates"], None]
    grown = dataclasses.replace(front, preferences=np.vstack([rows, r]), solutions=[*single, [solution]])
    return Run(run.name, grown, facts)


def exported(front: Front, index: int) -> bytes:
    """The variables x of a run as .npz (`numpy.load`), one array per leaf, with what tells where they come from."""
    runs = [(p, run) for p, row in enumerate(front.solutions) for run in row]
    p, run = runs[index]
    leaves = [(f"x{jax.tree_util.keystr(path)}", leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(run.x)[0]]
    arrays = {name: to_plain(leaf) for name, leaf in leaves if hasattr(leaf, "dtype")}
    if not arrays:
        raise ValueError("This front was saved without the variables of its runs.")
    preference = None if front.preferences is None else front.preferences[p]
    told = {"names": front.objective_names, "values": run.values, "preference": preference, "status": run.status.name}
    return pack(arrays, jsonable(told))


def _cannot(front: Front) -> str | None:
    """Why nothing can be solved from here; None where it can."""
    if front.recipe is None:
        return "This front does not know its problem, so nothing can be solved from here."
    if not front.recipe.algorithm.takes_preference:
        return "The algorithm of this front follows no preference, so nothing can be solved from here."
    if front.failed.all():
        return "No run ended well, so there is nothing to start from."
    return None

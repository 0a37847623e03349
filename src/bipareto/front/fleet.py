"""Runs mapped into one compiled program, on one device or divided over many; each has its own length, state and verdict."""

import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array

from bipareto.distributed import agree, fetch, place
from bipareto.errors import message
from bipareto.oracles import Oracles
from bipareto.progress import Row
from bipareto.solver import Algorithm, Ended, Record, Solution, State, advance, chunk_size, conclude
from bipareto.solver.loop import next_length, record_shape
from bipareto.solver.saving import Part, Saver, state_arrays, state_from, stored
from bipareto.status import Status, Verdict
from bipareto.store import CorruptFile


class Run(NamedTuple):
    """One run to make: its number, preference row, key and the state it starts from."""

    number: int
    preference: Any
    key: Any
    state: State


class Task(NamedTuple):
    """What the runs of an exploration share."""

    algorithm: Algorithm
    oracles: Oracles
    tolerance: Any
    steps: int
    devices: Mesh | None
    size: int

    @staticmethod
    def of(algorithm: Algorithm, oracles: Oracles, state: State, tolerance: Any, steps: int, devices: Mesh) -> "Task":
        size = chunk_size(oracles, state)
        if devices.size == 1:
            return Task(algorithm, oracles, tolerance, steps, None, size)
        return Task(place(algorithm, devices), place(oracles, devices), tolerance, steps, devices, size)


@eqx.filter_jit
def _advance_all(task: Task, carry: Any, runs: Any, lengths: Array):
    """A chunk of every run; `carry`: states and the last x of each that did not fail."""

    def one(shared, carry, run, length):
        algorithm, oracles = shared
        (state, safe), (preference, key) = carry, run
        method = algorithm if preference is None else algorithm.prefer(preference)
        state, moved, buffer, taken, verdict = advance(method, oracles, state, key, task.tolerance, length, task.size)
        return (state, jnp.where(taken > 0, moved, safe)), buffer, taken, verdict

    return _over_runs(one, task, carry, runs, lengths)


@eqx.filter_jit
def _evaluate_all(task: Task, states: State, runs: Any):
    def one(shared, state, run):
        algorithm, oracles = shared
        method = algorithm if run[0] is None else algorithm.prefer(run[0])
        return method.evaluate(oracles, state, run[1])

    return _over_runs(one, task, states, runs)


def _over_runs(one: Any, task: Task, *mapped: Any) -> Any:
    arrays, rest = eqx.partition((task.algorithm, task.oracles), eqx.is_array)

    def rows(arrays, *mapped):
        shared = eqx.combine(arrays, rest)
        return jax.vmap(lambda *row: one(shared, *row))(*mapped)

    if task.devices is None:
        return rows(arrays, *mapped)
    # Each device runs its own loop: without this the compiler would have them wait for each other at every step.
    row, whole = PartitionSpec("runs"), PartitionSpec()
    specs = (whole, *(row for _ in mapped))
    return jax.shard_map(rows, mesh=task.devices, in_specs=specs, out_specs=row, check_vma=False)(arrays, *mapped)


class Fleet:
    """The host's side of mapped runs. Padded to `width` with copies that take no steps, so that fleets share a program."""

    def __init__(self, task: Task, runs: list[Run], width: int):
        self.task, self.runs, self.count = task, runs, len(runs)
        self.began, self.before = time.perf_counter(), 0.0
        rows = [*runs, *[runs[-1]] * (width - len(runs))]
        stack = lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves])  # noqa: E731
        preferences = None if runs[0].preference is None else stack(*(run.preference for run in rows))
        keys = None if runs[0].key is None else stack(*(run.key for run in rows))
        states = jax.tree.map(stack, *(run.state for run in rows))
        self.mapped = self._placed((preferences, keys))
        self.carry = self._placed((states, states.x))
        self.done, self.length = np.zeros(self.count, int), 1
        fine = Verdict.fine()
        self.code, self.blamed = (np.full(self.count, int(leaf), np.int32) for leaf in (fine.code, fine.objective))
        self.records: list[list[Record]] = [[] for _ in runs]

    def _placed(self, tree: Any) -> Any:
        return tree if self.task.devices is None else place(tree, self.task.devices, "runs")

    def _arguments(self, lengths: np.ndarray) -> tuple:
        width = len(self.carry[1])
        return self.task, self.carry, self.mapped, self._placed(jnp.asarray(np.resize(lengths, width), jnp.int32))

    def bytes_per_run(self) -> float:
        """Device memory one run needs, as the compiler plans it."""
        compiled = _advance_all.lower(*self._arguments(np.zeros(1))).compile().compiled  # pyright: ignore
        plan = compiled.memory_analysis()
        total = (
            plan.temp_size_in_bytes + plan.output_size_in_bytes + sum(leaf.nbytes for leaf in jax.tree.leaves(self.carry))
        )
        return total * (1 if self.task.devices is None else self.task.devices.size) / len(self.carry[1])

    @property
    def active(self) -> np.ndarray:
        return (self.done < self.task.steps) & (self.code == 0)

    def advance(self) -> None:
        began = time.perf_counter()
        lengths = np.zeros(len(self.carry[1]))
        active = self.active
        lengths[: self.count] = np.where(active, np.minimum(self.length, self.task.steps - self.done), 0)
        self.carry, *told = _advance_all(*self._arguments(lengths))
        buffer, taken, verdicts = fetch(told)
        for i in np.flatnonzero(active):
            self.records[i].append(jax.tree.map(lambda leaf, i=i: leaf[i, : taken[i]].copy(), buffer))
            self.code[i], self.blamed[i] = verdicts.code[i], verdicts.objective[i]
        self.done += taken[: self.count]
        (seconds,) = agree(time.perf_counter() - began)
        self.length = next_length(self.length, seconds, self.task.size)

    def rows(self) -> list[Row]:
        """Where every run stands."""
        nothing = np.full(self.task.oracles.objectives, np.nan)
        found = []
        for run, pieces, done in zip(self.runs, self.records, self.done, strict=True):
            piece = next((piece for piece in reversed(pieces) if len(piece.gap)), None)
            start = Row(run.preference, nothing, nothing, np.nan, 0)
            found.append(start if piece is None else Row.of(run.preference, piece, int(done)))
        return found

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.began

    def snapshot(self, **facts: Any) -> Part:
        more = {"done": self.done, "code": self.code, "blamed": self.blamed}
        return state_arrays(self.carry) | more, facts | {"seconds": self.seconds}

    def restore(self, part: Part, saver: Saver) -> None:
        arrays, facts = part
        self.carry = self._placed(state_from(arrays, self.carry))
        kept = {"done": self.done, "code": self.code, "blamed": self.blamed}
        self.done, self.code, self.blamed = (stored(arrays, name, like).copy() for name, like in kept.items())
        self.records = [[history] for history in self.histories(saver, self.done)]
        self.before = saver.seconds(facts)

    @property
    def methods(self) -> list[Algorithm]:
        """The algorithm of every run, with its preference."""
        method = self.task.algorithm
        return [method if run.preference is None else method.prefer(run.preference) for run in self.runs]

    def histories(self, saver: Saver, done: Any = None) -> list[Record]:
        """The stored records of the runs, `done` of each where that is known."""
        first = self.runs[0]
        like = record_shape(self.methods[0], self.task.oracles, first.state, first.key)
        found = [saver.history(run.number, like) for run in self.runs]
        if done is not None and [len(history.gap) for history in found] != done.tolist():
            text = message("records.jsonl", f"hold {done.tolist()} steps", "others", "restore it from a copy")
            raise CorruptFile(text)
        return found

    def solutions(self) -> list[Solution]:
        (states, safe), evaluated = fetch((self.carry, _evaluate_all(self.task, self.carry[0], self.mapped)))
        rows = [jax.tree.map(lambda leaf, i=i: leaf[i], (states, safe, evaluated)) for i in range(self.count)]
        return [self._solution(i, method, *row) for i, (method, row) in enumerate(zip(self.methods, rows, strict=True))]

    def _solution(self, i: int, method: Algorithm, state: State, safe: np.ndarray, evaluated: tuple) -> Solution:
        task, run = self.task, self.runs[i]
        verdict = Status.of(self.code[i]), int(self.blamed[i])
        seconds = self.seconds / self.count
        ended = Ended(method, task.oracles, run.key, state, safe, *verdict, self.records[i], [], seconds, 0.0)
        return conclude(ended, evaluated)

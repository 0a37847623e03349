"""How runs go to a run directory and come back: records as lines, states and solutions as arrays."""

import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bipareto.distributed import agree, fetch
from bipareto.errors import flag, message, positive_number
from bipareto.oracles import Oracles
from bipareto.solver.records import Algorithm, Evaluations, Record, Solution, State, total_counts
from bipareto.status import Status
from bipareto.store import CorruptFile, Interrupts, NotSaved, RunDirectory, describe, from_plain, program, to_plain

Part = tuple[dict[str, np.ndarray], dict[str, Any]]


class Saver:
    """Saves a run now and then, at its end, and before SIGINT or SIGTERM end it; without a directory it does nothing."""

    def __init__(self, directory: Any, resume: bool, every: Any, settings: Callable[[], dict[str, Any]]):
        self.every = float(positive_number("save_every", every, "pass seconds between checkpoints", zero=True))
        if flag("resume", resume) and directory is None:
            raise ValueError(message("directory", "be given to resume", None, "pass the folder of the interrupted run"))
        self.directory = None if directory is None else RunDirectory(directory, settings(), resume)
        self.interrupts = Interrupts()
        self.saved = time.perf_counter()

    def __enter__(self) -> "Saver":
        if self.directory is not None:
            self.interrupts.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.directory is not None:
            self.directory.close()
        self.interrupts.__exit__(*error)

    def result(self, batch: int) -> Part | None:
        """What the directory holds of a batch that ended."""
        results = [] if self.directory is None else self.directory.position.results
        return results[batch] if batch < len(results) else None

    def checkpoint(self, batch: int) -> Part | None:
        """The state to go on from, where the directory holds one of this batch."""
        if self.directory is None or batch != len(self.directory.position.results):
            return None
        return self.directory.position.checkpoint

    def width(self, most: int) -> int | None:
        """How many runs the stored parts map at once, at most `most`; None in a new directory, or without one."""
        position = None if self.directory is None else self.directory.position
        parts = [] if position is None else [part for part in (*position.results, position.checkpoint) if part is not None]
        if not parts:
            return None
        width = parts[0][1].get("width")
        if not isinstance(width, int) or not 1 <= width <= most:
            text = message("checkpoint", f"map 1 to {most} runs at once", width, "restore the run directory from a copy")
            raise CorruptFile(text)
        return width

    def history(self, run: int, like: Record) -> Record:
        """The stored records of a run; `like`: shapes and kinds of one record."""
        assert self.directory is not None
        return _history([line for line in self.directory.position.records if line.get("run") == run], like)

    def seconds(self, facts: dict[str, Any]) -> float:
        """Time a checkpoint says was spent."""
        seconds = facts.get("seconds")
        if not isinstance(seconds, float):
            text = message("checkpoint", "tell its seconds", seconds, "restore the run directory from a copy")
            raise CorruptFile(text)
        return seconds

    def records(self, run: int, done: int, records: Record) -> None:
        """Note the records of a chunk after which `done` steps are taken."""
        if self.directory is not None:
            self.directory.append(_to_lines(run, done, records))

    def chunk(self, batch: int, snapshot: Callable[[], Part]) -> None:
        """Save where it is time to; after a signal, save and let it act."""
        if self.directory is None:
            return
        waited, caught = agree(time.perf_counter() - self.saved, float(self.interrupts.caught))
        if caught or waited >= self.every:
            self.directory.save(batch, *snapshot())
            self.saved = time.perf_counter()
        if caught:
            self.interrupts.act(int(caught))

    def finish(self, batch: int, part: Callable[[], Part], result: Any = None) -> None:
        """Keep what a batch found."""
        if self.directory is None:
            return
        try:
            self.directory.finish(batch, *part())
        except NotSaved as error:
            error.result = result
            raise


def run_settings(problem: Any, algorithm: Algorithm, oracles: Oracles, state: State, key: Any, **more: Any) -> dict:
    """Everything that decides the numbers of a run."""
    table = describe("algorithm", algorithm) | describe("problem", problem) | describe("key", key)
    table |= describe("x0", state.x) | describe("y0", state.y)
    for name, value in more.items():
        table |= describe(name, value)
    return table | {"program": program(lambda state: algorithm.step(oracles, state, key), state)}


def state_arrays(tree: Any) -> dict[str, np.ndarray]:
    return {f"state-{i}": to_plain(leaf) for i, leaf in enumerate(jax.tree.leaves(fetch(tree)))}


def state_from(arrays: dict[str, np.ndarray], like: Any) -> Any:
    leaves, treedef = jax.tree.flatten(like)
    if {f"state-{i}" for i in range(len(leaves))} != {name for name in arrays if name.startswith("state-")}:
        text = message("checkpoint", f"hold {len(leaves)} arrays", sorted(arrays), "restore the run directory from a copy")
        raise CorruptFile(text)
    found = [from_plain(arrays[f"state-{i}"], leaf, f"state-{i}") for i, leaf in enumerate(leaves)]
    return treedef.unflatten([jnp.asarray(leaf) for leaf in found])


def stored(arrays: dict[str, np.ndarray], name: str, like: np.ndarray) -> np.ndarray:
    """An array of a checkpoint that must look like `like`."""
    if name not in arrays:
        raise CorruptFile(message("checkpoint", f"hold `{name}`", sorted(arrays), "restore the run directory from a copy"))
    return from_plain(arrays[name], like, name)


def solutions_part(solutions: list[Solution], oracles: Oracles, **facts: Any) -> Part:
    """Solutions without their history, which the records hold."""
    arrays = {
        "x": np.stack([np.asarray(oracles.x_layout.flatten(run.x)) for run in solutions]),
        "y": np.stack([np.asarray(oracles.y_layout.flatten(run.y)) for run in solutions]),
        "values": np.stack([run.values for run in solutions]),
        "status": np.array([run.status.code for run in solutions]),
        "evaluated_steps": np.stack([run.evaluations.steps for run in solutions]),
        "evaluated_values": np.stack([run.evaluations.values for run in solutions]),
        "seconds": np.array([run.seconds for run in solutions]),
        "compile_seconds": np.array([run.compile_seconds for run in solutions]),
    }
    messages = [run.message for run in solutions]
    return {name: to_plain(array) for name, array in arrays.items()}, facts | {"messages": messages}


def solutions_from(
    part: Part, oracles: Oracles, state: State, histories: list[Record], methods: list[Algorithm]
) -> list[Solution]:
    """The inverse of `solutions_part`; `state`: of one run, for its shapes; histories and methods: of each."""
    arrays, facts = part
    try:
        found = [_solution_from(i, arrays, facts, oracles, state, history) for i, history in enumerate(histories)]
    except (KeyError, IndexError, TypeError) as error:
        text = message("result", "hold the solutions of its runs", repr(error), "restore the run directory from a copy")
        raise CorruptFile(text) from error
    made = [(oracles.problem, method) for method in methods]
    return [dataclasses.replace(run, made=origin) for run, origin in zip(found, made, strict=True)]


def _solution_from(i: int, arrays: dict, facts: dict, oracles: Oracles, state: State, history: Record) -> Solution:
    x = from_plain(arrays["x"][i], state.x, "x")
    y = from_plain(arrays["y"][i], state.y, "y")
    return Solution(
        oracles.x_layout.unflatten(jnp.asarray(x)),
        oracles.y_layout.unflatten(jnp.asarray(y)),
        arrays["values"][i],
        Status.of(arrays["status"][i]),
        str(facts["messages"][i]),
        history,
        total_counts(history),
        Evaluations(arrays["evaluated_steps"][i], arrays["evaluated_values"][i]),
        float(arrays["seconds"][i]),
        float(arrays["compile_seconds"][i]),
    )


def _history(lines: list[dict[str, Any]], like: Record) -> Record:
    if [line.get("step") for line in lines] != list(range(1, len(lines) + 1)):
        text = message("records.jsonl", "hold every step once, in order", "another order", "restore it from a copy")
        raise CorruptFile(text)
    names, leaves, treedef = named_columns(like)
    return treedef.unflatten([_column(lines, name, leaf) for name, leaf in zip(names, leaves, strict=True)])


def _column(lines: list[dict[str, Any]], name: str, leaf: Any) -> np.ndarray:
    shape = (len(lines), *leaf.shape)
    try:
        rows = [_read(line[name]) for line in lines]
        return np.array(rows, leaf.dtype).reshape(shape) if rows else np.zeros(shape, leaf.dtype)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        rule = f"hold `{name}` of shape {leaf.shape} in every line"
        raise CorruptFile(message("records.jsonl", rule, repr(error), "restore it from a copy")) from error


def named_columns(record: Record) -> tuple[list[str], list[Any], Any]:
    """Names and arrays of a record, and the structure that puts them together again."""
    paths, treedef = jax.tree_util.tree_flatten_with_path(record)
    return [jax.tree_util.keystr(path).lstrip(".") for path, _ in paths], [leaf for _, leaf in paths], treedef


def _to_lines(run: int, done: int, records: Record) -> Iterator[str]:
    names, leaves, _ = named_columns(records)
    columns = [leaf.astype(float).tolist() if leaf.dtype.kind in "fV" else leaf.tolist() for leaf in leaves]
    count = len(leaves[0])
    for i in range(count):
        line = {"run": run, "step": done - count + i + 1}
        line |= {name: column[i] for name, column in zip(names, columns, strict=True)}
        try:
            yield json.dumps(line, allow_nan=False)
        except ValueError:
            yield json.dumps({name: _write(value) for name, value in line.items()})


def _write(value: Any) -> Any:
    """JSON knows no NaN: null; nor infinity: its name."""
    if isinstance(value, list):
        return [_write(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else f"{value:+}"
    return value


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(entry) for entry in value]
    if value is None:
        return math.nan
    return float(value) if value in ("+inf", "-inf") else value

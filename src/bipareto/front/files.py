"""A front as one file: arrays and plain facts, hashed, no pickle."""

import itertools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from bipareto.errors import message
from bipareto.front.front import Front
from bipareto.layout import Layout
from bipareto.oracles import OracleCounts
from bipareto.solver import Evaluations, Record, Solution
from bipareto.solver.records import total_counts
from bipareto.solver.saving import named_columns
from bipareto.status import Status
from bipareto.store import CorruptFile, export, pack, to_plain, unpack


def save(front: Front, path: Any, x: bool) -> None:
    runs = list(itertools.chain(*front.solutions))
    arrays = {"values": front.values, "reference": np.asarray(front.reference, float)}
    if front.preferences is not None:
        arrays["preferences"] = front.preferences
    arrays |= {
        "status": np.array([run.status.code for run in runs]),
        "steps": np.array([len(run.history.gap) for run in runs]),
        "seconds": np.array([[run.seconds, run.compile_seconds] for run in runs]),
    }
    names, _, _ = named_columns(runs[0].history)
    columns = zip(*(jax.tree.leaves(run.history) for run in runs), strict=True)
    arrays |= {f"history.{name}": np.concatenate(column) for name, column in zip(names, columns, strict=True)}
    if x:
        for name in ("x", "y"):
            trees = [getattr(run, name) for run in runs]
            arrays[name] = np.stack([np.asarray(Layout.of(tree, name).flatten(tree)) for tree in trees])
    facts = {"kind": "front", "messages": [run.message for run in runs], "names": front.names}
    export(path, pack({name: to_plain(array) for name, array in arrays.items()}, facts))


def load(path: Any, x0: PyTree, y0: PyTree) -> Front:
    file = pathlib.Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FileNotFoundError(message("path", "be a saved front", error, "pass what Front.save wrote")) from error
    arrays, facts = unpack(data, file)
    try:
        if facts["kind"] != "front":
            raise ValueError(f"a {facts['kind']}")
        shape = arrays["values"].shape[:2]
        layouts = [None if tree is None else Layout.of(tree, name) for name, tree in (("x0", x0), ("y0", y0))]
        ends = np.cumsum([0, *arrays["steps"]])
        if len(arrays["steps"]) != shape[0] * shape[1] or any(
            len(array) != ends[-1] for name, array in arrays.items() if name.startswith("history.")
        ):
            raise ValueError("another number of records than it counts")
        runs = [_solution(arrays, facts, i, slice(ends[i], ends[i + 1]), layouts) for i in range(len(ends) - 1)]
        grid = [runs[p * shape[1] : (p + 1) * shape[1]] for p in range(shape[0])]
        names = None if facts["names"] is None else tuple(str(name) for name in facts["names"])
        return Front(arrays.get("preferences"), grid, arrays["reference"], names)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        rule = "be a front written by Front.save"
        raise CorruptFile(
            message(str(file), rule, repr(error), "save it again, and give x0 and y0 of its own shapes")
        ) from error


def _solution(arrays: dict, facts: dict, i: int, rows: slice, layouts: list[Layout | None]) -> Solution:
    names, _, structure = named_columns(_a_record())
    history = structure.unflatten([arrays[f"history.{name}"][rows] for name in names])
    x, y = (_tree(arrays, name, i, layout) for name, layout in zip("xy", layouts, strict=True))
    values = arrays["values"].reshape(-1, arrays["values"].shape[-1])[i]
    status = Status.of(arrays["status"][i])
    seconds = arrays["seconds"][i]
    nothing = Evaluations(np.zeros(0, int), np.zeros((0, len(values))))
    message_ = str(facts["messages"][i])
    return Solution(
        x, y, values, status, message_, history, total_counts(history), nothing, float(seconds[0]), float(seconds[1])
    )


def _a_record() -> Record:
    """Any record, for its structure."""
    row, number = jnp.zeros(1), jnp.zeros(())
    return Record(row, row, jnp.zeros((1, 1)), number, number, number, number, row, OracleCounts(0, 0, 0, 0))


def _tree(arrays: dict, name: str, i: int, layout: Layout | None) -> Any:
    if name not in arrays:
        return None
    flat = jax.tree.map(jnp.asarray, arrays[name][i])
    if layout is None:
        return flat
    if flat.shape != (layout.size,):
        raise ValueError(f"{name} of {flat.size} numbers where {name}0 has {layout.size}")
    return layout.unflatten(flat)

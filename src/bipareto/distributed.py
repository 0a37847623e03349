"""Many devices and many processes: JAX's own runtime does the work, this says where things lie.

Every process runs the same program on the same numbers. What depends on the clock, on signals or on the disk is decided once
and shared (`agree`, `from_first`), so that no process waits for a step the others do not take.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from bipareto.errors import message
from bipareto.problem import Problem, SeparableProblem
from bipareto.sampling import level_data, sample_axis

_AXES = ("tasks", "samples")


def start(coordinator: str | None = None, processes: int | None = None, process: int | None = None) -> None:
    """Join the processes of a cluster's job; call it first, in every process.

    Slurm, Open MPI, Kubernetes (with JAX's labels) and TPU pods are recognised and need no argument. Elsewhere pass the
    address `host:port` of process 0, the number of processes and the number of this one.
    """
    given = {"coordinator": coordinator, "processes": processes, "process": process}
    missing = [name for name, value in given.items() if value is None]
    if missing and len(missing) < len(given):
        remedy = "pass coordinator, processes and process, or none of them on Slurm, Open MPI or Kubernetes"
        raise ValueError(message(missing[0], "be given with the others", None, remedy))
    try:
        jax.distributed.initialize(coordinator, processes, process)
    except (RuntimeError, ValueError) as error:
        remedy = "call start() before any other use of JAX, with coordinator, processes and process outside a known cluster"
        raise RuntimeError(message("distributed.start", "join the other processes", error, remedy)) from error


def is_first() -> bool:
    return jax.process_index() == 0


def fetch(tree: PyTree) -> PyTree:
    """Numpy arrays of the whole values, in every process."""
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.Array) and leaf.is_fully_addressable:
            leaf.copy_to_host_async()  # all at once: one after the other a GPU's copies would be waited for singly

    def whole(leaf):
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable and not leaf.is_fully_replicated:
            return multihost_utils.process_allgather(leaf, tiled=True)
        return np.asarray(leaf)

    return jax.tree.map(whole, tree)


def local(array: Any) -> Any:
    """The array itself, or a copy in every process of one that no process holds whole."""
    return fetch(array) if isinstance(array, jax.Array) and not array.is_fully_addressable else array


def agree(*numbers: float) -> tuple[float, ...]:
    """The largest of each number over the processes."""
    if jax.process_count() == 1:
        return numbers
    everywhere = np.asarray(multihost_utils.process_allgather(np.asarray(numbers, np.float32)))
    return tuple(float(number) for number in everywhere.max(axis=0))


def from_first(function: Callable[[], list[bytes]]) -> list[bytes]:
    """What `function` returns in process 0, in every process; where it raises, all do."""
    if jax.process_count() == 1:
        return function()
    parts, failure = [], None
    if is_first():
        try:
            parts = function()
        except Exception as error:
            failure, parts = error, [str(error).encode()]
    failed, *lengths = _broadcast(np.array([failure is not None, len(parts)], np.int32))
    sizes = _broadcast(np.array([len(part) for part in parts] if is_first() else [0] * int(lengths[0]), np.int32))
    whole = b"".join(parts) if is_first() else bytes(int(sizes.sum()))
    whole = _broadcast(np.frombuffer(whole, np.uint8)).tobytes() if len(whole) else b""
    if failure is not None:
        raise failure
    if failed:
        raise RuntimeError(f"process 0 stopped: {whole.decode()}")
    ends = np.cumsum(sizes)
    return [whole[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def _broadcast(array: np.ndarray) -> np.ndarray:
    return np.asarray(multihost_utils.broadcast_one_to_all(array))


def mesh(devices: Sequence[Any] | None = None, name: str = "runs") -> Mesh:
    """The given devices, by default all of all processes, in a row."""
    chosen = jax.devices() if devices is None else list(devices)
    if not chosen or not all(isinstance(device, jax.Device) for device in chosen):
        raise ValueError(message("devices", "be a sequence of JAX devices", devices, "pass jax.devices(), or None for all"))
    return Mesh(np.array(chosen), (name,), axis_types=(AxisType.Auto,))


def place(tree: PyTree, devices: Mesh, *axes: str | None) -> PyTree:
    """The arrays of a tree on all devices: whole on each, or with the named axes divided."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    spread = jax.jit(lambda arrays: arrays, out_shardings=NamedSharding(devices, PartitionSpec(*axes)))
    return eqx.combine(spread(arrays), rest)


def shard(
    problem: Problem | SeparableProblem, along: str = "tasks", devices: Sequence[Any] | None = None
) -> Problem | SeparableProblem:
    """The problem with its data divided over the devices, for one `solve` that uses them all.

    `along="tasks"`: every device holds the data of some tasks of a `SeparableProblem`. `along="samples"`: every device
    holds some of the samples of every data array.
    """
    if along not in _AXES:
        raise ValueError(message("along", "be 'tasks' or 'samples'", repr(along), "pass one of the two"))
    if not isinstance(problem, (Problem, SeparableProblem)):
        raise TypeError(message("problem", "be a Problem or SeparableProblem", repr(problem), "build one with bp.Problem"))
    if along == "tasks" and not isinstance(problem, SeparableProblem):
        remedy = "state the tasks with bp.SeparableProblem, or shard along='samples'"
        raise TypeError(message("problem", "be a SeparableProblem to shard its tasks", "a Problem", remedy))
    row = mesh(devices, along)
    for level in ("upper", "lower"):
        data, axes = level_data(problem, level)
        leaves, treedef = jax.tree.flatten(data)
        divided = [_divided(leaf, axis, along, row, level) for leaf, axis in zip(leaves, axes, strict=True)]
        if leaves:
            spot = lambda p, level=level: getattr(p, f"{level}_data")  # noqa: E731
            problem = eqx.tree_at(spot, problem, treedef.unflatten(divided))
    return problem


def _divided(leaf: Any, task_axis: int | None, along: str, devices: Mesh, level: str) -> Any:
    leaf = jnp.asarray(leaf)
    axis = task_axis if along == "tasks" else sample_axis(leaf, task_axis)
    if axis is None or axis >= leaf.ndim:
        return place(leaf, devices)
    if leaf.shape[axis] % devices.size:
        rule = f"have a number of {along} that the {devices.size} devices divide"
        fits = max(count for count in range(1, devices.size + 1) if leaf.shape[axis] % count == 0)
        remedy = f"pass devices=jax.devices()[:{fits}], or drop some {along}"
        raise ValueError(message(f"{level}_data", rule, leaf.shape[axis], remedy))
    return place(leaf, devices, *(along if i == axis % leaf.ndim else None for i in range(leaf.ndim)))

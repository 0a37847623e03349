"""What is solved: min_x [f_1(x, y*(x)) ... f_S(x, y*(x))] with y*(x) = argmin_y g(x, y). No autodiff here."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from bipareto.errors import message, whole_number
from bipareto.shapes import by_shape


class Problem(eqx.Module):
    """Several upper objectives over one lower level.

    `upper(x, y[, upper_data]) -> [S]` and `lower(x, y[, lower_data]) -> scalar`, strongly convex in y. A data argument is
    passed only where data was given.

    `prepare(x[, data]) -> h` states that x enters the losses only through h: the losses are then written `upper(h, y[,
    upper_data])` and `lower(h, y[, lower_data])`, where h was prepared from the data of their own level. h is computed once
    per upper step; the lower steps and the linear solves work on h. A backbone's features are the typical case.
    """

    upper: Callable
    lower: Callable
    upper_data: PyTree
    lower_data: PyTree
    prepare: Callable | None

    def __init__(
        self,
        upper: Callable,
        lower: Callable,
        upper_data: PyTree = None,
        lower_data: PyTree = None,
        *,
        prepare: Callable | None = None,
    ):
        _check_functions(upper, lower, prepare)
        self.upper = upper
        self.lower = lower
        self.upper_data = _on_device("upper_data", upper_data)
        self.lower_data = _on_device("lower_data", lower_data)
        self.prepare = prepare


class SeparableProblem(eqx.Module):
    """One objective and one lower level per task, coupled by x: f_s(x, y_s) and g(x, y) = (1/S) sum_s g_s(x, y_s).

    The functions are those of one task, `upper(x, y_s[, data_s]) -> scalar`, `lower(x, y_s[, data_s]) -> scalar` and
    `prepare(x[, data_s]) -> h` (see `Problem`); they are mapped over the tasks. Every array of y has a leading axis S.
    `upper_axes` and `lower_axes` are the data's `in_axes` in the sense of `jax.vmap`: 0 per task, None shared by the tasks.
    The Hessian of the lower level is block diagonal, so that one Hessian-vector product serves all objectives. As g is the
    mean, its curvature is 1/S of a task's: step sizes of the lower level may be S times larger than for one task alone.
    """

    upper: Callable
    lower: Callable
    tasks: int = eqx.field(static=True)
    upper_data: PyTree
    lower_data: PyTree
    upper_axes: tuple[int | None, ...] = eqx.field(static=True)
    lower_axes: tuple[int | None, ...] = eqx.field(static=True)
    prepare: Callable | None

    def __init__(
        self,
        upper: Callable,
        lower: Callable,
        tasks: int,
        upper_data: PyTree = None,
        lower_data: PyTree = None,
        upper_axes: PyTree = 0,
        lower_axes: PyTree = 0,
        *,
        prepare: Callable | None = None,
    ):
        _check_functions(upper, lower, prepare)
        self.tasks = whole_number("tasks", tasks, "pass the number of objectives S")
        self.upper = upper
        self.lower = lower
        self.upper_data = _on_device("upper_data", upper_data)
        self.lower_data = _on_device("lower_data", lower_data)
        self.upper_axes = _checked_axes("upper", self.upper_data, upper_axes, self.tasks)
        self.lower_axes = _checked_axes("lower", self.lower_data, lower_axes, self.tasks)
        self.prepare = prepare


def arguments(data: PyTree) -> tuple:
    """The data argument of a loss: none where no data was given."""
    return () if data is None else (data,)


@by_shape
def objectives(problem: Problem | SeparableProblem, x: PyTree, y: PyTree) -> int:
    """S, after checking that the user's functions accept x and y and return what they must (shapes only, no compute)."""
    if isinstance(problem, SeparableProblem):
        y = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, y)
        upper_data = _one_task(problem.upper_data, problem.upper_axes)
        lower_data = _one_task(problem.lower_data, problem.lower_axes)
    else:
        upper_data, lower_data = problem.upper_data, problem.lower_data
    upper_x = _prepared(problem.prepare, x, upper_data, "upper_data")
    lower_x = _prepared(problem.prepare, x, lower_data, "lower_data")
    values = _shape_of("upper", problem.upper, upper_x, y, *arguments(upper_data))
    lower = _shape_of("lower", problem.lower, lower_x, y, *arguments(lower_data))
    _check_output("lower", lower, 0, "a scalar", "reduce it with jnp.mean or jnp.sum")
    if isinstance(problem, SeparableProblem):
        _check_output("upper", values, 0, "a scalar (one task's objective)", "reduce it, or use bp.Problem")
        return problem.tasks
    _check_output("upper", values, 1, "a vector [S]", "stack the objectives with jnp.stack([...])")
    return values.shape[0]


def _check_functions(upper: Any, lower: Any, prepare: Any) -> None:
    for name, function in (("upper", upper), ("lower", lower), ("prepare", prepare)):
        if not callable(function) and not (name == "prepare" and function is None):
            raise TypeError(message(name, "be a function", repr(function), "pass a JAX function of (x, y[, data])"))


def _on_device(name: str, data: PyTree) -> PyTree:
    try:
        return jax.tree.map(jnp.asarray, data)
    except (TypeError, ValueError) as error:
        found = f"a leaf that is none ({error})"
        raise TypeError(message(name, "be a pytree of arrays", found, "convert its leaves with jnp.asarray")) from None


def _checked_axes(level: str, data: PyTree, axes: PyTree, tasks: int) -> tuple[int | None, ...]:
    """The task axis of every leaf of the data (None: shared), each of length `tasks`."""
    name, parameter = f"{level}_axes", f"{level}_data"
    if data is None:
        return ()
    try:
        per_leaf = jax.tree.broadcast(axes, data, is_leaf=lambda axis: axis is None)
    except ValueError as error:
        found = f"{axes} for data with structure {jax.tree.structure(data)}"
        raise ValueError(message(name, f"be a prefix of `{parameter}`", found, "see in_axes of jax.vmap")) from error
    leaf_axes = tuple(jax.tree.leaves(per_leaf, is_leaf=lambda axis: axis is None))
    for axis, leaf in zip(leaf_axes, jax.tree.leaves(data), strict=True):
        if axis is None:
            continue
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise TypeError(message(name, "hold integers and None", repr(axis), "use 0 (per task) or None (shared)"))
        if not -leaf.ndim <= axis < leaf.ndim or leaf.shape[axis] != tasks:
            found = f"an array of shape {leaf.shape} with axis {axis}"
            remedy = f"stack the tasks along that axis, or mark shared data with None in `{name}`"
            raise ValueError(message(parameter, f"have tasks = {tasks} entries along its task axis", found, remedy))
    return leaf_axes


def _one_task(data: PyTree, axes: tuple[int | None, ...]) -> PyTree:
    leaves, treedef = jax.tree.flatten(data)
    shapes = [
        jax.ShapeDtypeStruct(leaf.shape if axis is None else tuple(np.delete(leaf.shape, axis)), leaf.dtype)
        for leaf, axis in zip(leaves, axes, strict=True)
    ]
    return jax.tree.unflatten(treedef, shapes)


def _prepared(prepare: Callable | None, x: PyTree, data: PyTree, name: str) -> PyTree:
    if prepare is None:
        return x
    shape = _shape_of("prepare", prepare, x, *arguments(data))
    for leaf in jax.tree.leaves(shape):
        if not (isinstance(leaf, jax.ShapeDtypeStruct) and jnp.issubdtype(leaf.dtype, jnp.floating)):
            found = f"{leaf} from `{name}`"
            raise TypeError(message("prepare", "return floating-point arrays", found, "leave the rest in the data"))
    return shape


def _shape_of(name: str, function: Callable, *args: PyTree) -> Any:
    """Abstract evaluation; a failure inside the user's function is reported with how it was called."""
    try:
        return eqx.filter_eval_shape(function, *args)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        call = f"accept {len(args)} arguments with the shapes of x0, y0 and the data"
        raise TypeError(message(name, call, found, "call it once by hand to see where it fails")) from error


def _check_output(name: str, output: Any, ndim: int, what: str, remedy: str) -> None:
    if not isinstance(output, jax.ShapeDtypeStruct):
        raise TypeError(message(name, f"return {what}", f"a {type(output).__name__}", remedy))
    if output.ndim != ndim or 0 in output.shape:
        raise ValueError(message(name, f"return {what}", f"shape {output.shape}", remedy))
    if not jnp.issubdtype(output.dtype, jnp.floating):
        raise TypeError(message(name, f"return {what} of floats", f"dtype {output.dtype}", "return floats, not counts"))

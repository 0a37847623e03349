"""Batches: which samples of the data an upper step sees.

Samples lie along the first axis of every data array (of a task's part of it, for separable problems). All draws come from
counter-based keys: those of step k depend on (key, k, role, index) only, so that a resumed, chunked or sharded run draws
the same samples.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PyTree

from bipareto.errors import flag, message, whole_number
from bipareto.lower import GradientDescent, Path
from bipareto.oracles import JointOracles, Oracles, SeparableOracles
from bipareto.problem import Problem, SeparableProblem

_LOWER, _CROSS, _HESSIAN, _UPPER = range(4)


class Batches(eqx.Module):
    """Samples per draw; None: all data, every time.

    `lower` (the paper's T): for each lower step. `upper` (D_f): for each objective's value and gradient, drawn for each
    objective by itself. `cross` (D_g): for the products with J, and for H where the hypergradient has no batches of its own;
    shared by the objectives. `replace`: draw with replacement (independent samples, as the theory has it) or without,
    which shuffles all indices at every draw.
    """

    lower: int | None = eqx.field(static=True)
    upper: int | None = eqx.field(static=True)
    cross: int | None = eqx.field(static=True)
    replace: bool = eqx.field(static=True)

    def __init__(self, lower: Any = None, upper: Any = None, cross: Any = None, replace: bool = True):
        remedy = "pass a number of samples, or None for all data"
        sizes = (("lower_batch", lower), ("upper_batch", upper), ("cross_batch", cross))
        self.lower, self.upper, self.cross = (
            None if size is None else whole_number(name, size, remedy) for name, size in sizes
        )
        self.replace = flag("replace", replace)

    def sizes(self) -> tuple[tuple[str, str, int | None], ...]:
        """(parameter, level it draws from, size)."""
        levels = (("lower_batch", "lower"), ("upper_batch", "upper"), ("cross_batch", "lower"))
        return tuple((*level, size) for level, size in zip(levels, (self.lower, self.upper, self.cross), strict=True))


class Draws(eqx.Module):
    """The batches of one upper step. Without a key nothing is drawn, and everything is evaluated on all data."""

    oracles: Oracles
    batches: Batches
    key: Key[Array, ""] | None

    def samples(self, level: str, size: int | None) -> int:
        """What one evaluation counts: its samples where batches are drawn, 1 otherwise."""
        if self.key is None:
            return 1
        return size if size is not None else samples_of(self.oracles.problem, level)

    def descend(self, lower: GradientDescent, x: Array, y: Array) -> Path:
        """The lower steps from y, each on its own batch."""
        if self.batches.lower is None:
            h = self.oracles.prepare(x).lower
            return lower(lambda y, t: self.oracles.lower_gradient(h, y), y)

        def gradient(y, t):
            sampled = _on_lower(self.oracles, self._indices("lower", _LOWER, t, self.batches.lower))
            return sampled.lower_gradient(sampled.prepare(x).lower, y)

        return lower(gradient, y)

    def hessian(self, factor: Int[Array, ""] | int, size: int | None) -> Oracles:
        """The oracles on the batch of one factor of a Neumann series."""
        return self.oracles if size is None else _on_lower(self.oracles, self._indices("lower", _HESSIAN, factor, size))

    def point(self) -> Oracles:
        """The oracles on the batches at which the step differentiates: shared in the lower level, own in the upper."""
        oracles, batches = self.oracles, self.batches
        if batches.cross is not None:
            oracles = _on_lower(oracles, self._indices("lower", _CROSS, 0, batches.cross))
        if batches.upper is not None:
            each = jnp.arange(oracles.objectives)
            oracles = _on_upper(oracles, jax.vmap(lambda s: self._indices("upper", _UPPER, s, batches.upper))(each))
        return oracles

    def _indices(self, level: str, role: int, index: Any, size: int | None) -> Int[Array, " batch"]:
        assert self.key is not None
        assert size is not None
        key = jax.random.fold_in(jax.random.fold_in(self.key, role), index)
        count = samples_of(self.oracles.problem, level)
        if self.batches.replace:
            return jax.random.randint(key, (size,), 0, count)
        return jax.random.choice(key, count, (size,), replace=False)


def samples_of(problem: Problem | SeparableProblem, level: str) -> int:
    """How many samples the data of a level has; 1 without data."""
    data, axes = level_data(problem, level)
    leaves = jax.tree.leaves(data)
    return leaves[0].shape[sample_axis(leaves[0], axes[0])] if leaves else 1


def population(problem: Problem | SeparableProblem, sizes: Any, replace: bool) -> None:
    """Raise where the data cannot be sampled as asked; `sizes`: (parameter, level, size)."""
    for parameter, level, size in sizes:
        if size is None:
            continue
        data, axes = level_data(problem, level)
        if not jax.tree.leaves(data):
            rule = f"be None for a problem without `{level}_data`"
            raise ValueError(message(parameter, rule, size, f"pass the samples as {level}_data to the problem"))
        shapes = [(leaf.shape, sample_axis(leaf, axis)) for leaf, axis in zip(jax.tree.leaves(data), axes, strict=True)]
        if any(len(shape) <= axis for shape, axis in shapes) or len({shape[axis] for shape, axis in shapes}) > 1:
            rule = "have as many samples in every array (first axis, after the task axis)"
            found = ", ".join(f"shape {shape}" for shape, _ in shapes)
            raise ValueError(message(f"{level}_data", rule, found, "repeat shared numbers per sample, or close over them"))
        count = samples_of(problem, level)
        if not replace and size > count:
            rule = f"be at most the {count} samples of `{level}_data` when drawn without replacement"
            raise ValueError(message(parameter, rule, size, "lower it, or draw with replace=True"))


def level_data(problem: Problem | SeparableProblem, level: str) -> tuple[PyTree, tuple[int | None, ...]]:
    data = problem.upper_data if level == "upper" else problem.lower_data
    if isinstance(problem, SeparableProblem):
        return data, problem.upper_axes if level == "upper" else problem.lower_axes
    return data, (None,) * len(jax.tree.leaves(data))


def sample_axis(leaf: Array, task_axis: int | None) -> int:
    return 1 if task_axis is not None and task_axis % leaf.ndim == 0 else 0


def _on_lower(oracles: Oracles, indices: Int[Array, " batch"]) -> Oracles:
    data, axes = level_data(oracles.problem, "lower")
    leaves, treedef = jax.tree.flatten(data)
    batch = [jnp.take(leaf, indices, axis=sample_axis(leaf, axis)) for leaf, axis in zip(leaves, axes, strict=True)]
    return eqx.tree_at(lambda o: jax.tree.leaves(o.problem.lower_data), oracles, jax.tree.leaves(treedef.unflatten(batch)))


def _on_upper(oracles: Oracles, indices: Int[Array, "S batch"]) -> Oracles:
    """Every objective on the samples of its own row; the data then has a leading axis S in all its arrays."""
    data, axes = level_data(oracles.problem, "upper")
    leaves, treedef = jax.tree.flatten(data)
    take = lambda leaf, rows: jnp.take(leaf, rows, axis=0)  # noqa: E731
    batch = [jax.vmap(take, (axis, 0))(leaf, indices) for leaf, axis in zip(leaves, axes, strict=True)]
    data, layouts = treedef.unflatten(batch), (oracles.x_layout, oracles.y_layout, oracles.objectives)
    if isinstance(oracles, JointOracles):
        problem = eqx.tree_at(lambda p: jax.tree.leaves(p.upper_data), oracles.problem, jax.tree.leaves(data))
        return JointOracles(problem, *layouts, own_batches=True)
    full = oracles.problem
    assert isinstance(full, SeparableProblem)
    lower_axes = jax.tree.unflatten(jax.tree.structure(full.lower_data), full.lower_axes)
    problem = SeparableProblem(
        full.upper, full.lower, full.tasks, data, full.lower_data, 0, lower_axes, prepare=full.prepare
    )
    return SeparableOracles(problem, *layouts)

"""Trees at the border, vectors inside: how a user's pytree becomes a flat vector and back."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from bipareto.errors import message


@dataclasses.dataclass(frozen=True)
class Layout:
    """The shape of a pytree. Floating-point arrays are variables; everything that is no array is a constant of the tree.

    Hashable, unlike the closure of `ravel_pytree`: two runs on equal trees share one compiled program.
    """

    treedef: Any
    leaves: tuple[Any, ...]
    dtype: Any

    @staticmethod
    def of(tree: PyTree, name: str, *, tasks: int | None = None) -> "Layout":
        """The layout of `tree`; with `tasks`, of one task's part (every array then has a leading axis of that size)."""
        paths, treedef = jax.tree_util.tree_flatten_with_path(tree)
        leaves = tuple(_leaf(name + jax.tree_util.keystr(path), leaf, tasks) for path, leaf in paths)
        variables = [leaf for leaf in leaves if isinstance(leaf, jax.ShapeDtypeStruct)]
        if not variables:
            found = f"a tree of {sorted({type(leaf).__name__ for _, leaf in paths}) or 'no leaves'}"
            rule = "hold at least one floating-point array"
            raise TypeError(message(name, rule, found, "wrap numbers with jnp.asarray(...)"))
        return Layout(treedef, leaves, jnp.result_type(*[leaf.dtype for leaf in variables]))

    @property
    def size(self) -> int:
        return sum(math.prod(leaf.shape) for leaf in self.leaves if isinstance(leaf, jax.ShapeDtypeStruct))

    def flatten(self, tree: PyTree) -> Float[Array, "*batch n"]:
        arrays = [jnp.asarray(leaf) for leaf in jax.tree.leaves(tree) if _is_array(leaf)]
        shapes = [leaf.shape for leaf in self.leaves if isinstance(leaf, jax.ShapeDtypeStruct)]
        batch = arrays[0].shape[: arrays[0].ndim - len(shapes[0])]
        return jnp.concatenate([array.astype(self.dtype).reshape(*batch, -1) for array in arrays], axis=-1)

    def unflatten(self, flat: Any) -> PyTree:
        """The tree of vectors [*batch, n], with their batch axes in front of every array; numpy stays numpy."""
        leaves, start = [], 0
        for leaf in self.leaves:
            if isinstance(leaf, jax.ShapeDtypeStruct):
                stop = start + math.prod(leaf.shape)
                leaves.append(flat[..., start:stop].reshape(flat.shape[:-1] + leaf.shape).astype(leaf.dtype))
                start = stop
            else:
                leaves.append(leaf)
        return jax.tree.unflatten(self.treedef, leaves)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic))


def _leaf(path: str, leaf: Any, tasks: int | None) -> Any:
    if not _is_array(leaf):
        return leaf
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        remedy = (
            "convert it with .astype(float), or split it from the variables (eqx.partition, nnx.split) and close over it"
        )
        raise TypeError(message(path, "be a floating-point array", f"dtype {leaf.dtype}", remedy))
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
    if tasks is None:
        return jax.ShapeDtypeStruct(leaf.shape, dtype)
    if not leaf.shape or leaf.shape[0] != tasks:
        remedy = "stack one array per task, e.g. jnp.zeros((tasks, ...)) or eqx.filter_vmap over keys"
        raise ValueError(message(path, f"have a leading axis of tasks = {tasks}", f"shape {leaf.shape}", remedy))
    return jax.ShapeDtypeStruct(leaf.shape[1:], dtype)

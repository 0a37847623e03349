"""Extreme eigenvalues of the lower Hessian H = grad_yy g, from products H v only (Lanczos)."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bipareto.oracles import Oracles


class Extremes(NamedTuple):
    """Smallest and largest Ritz values, and ||A v - value v|| of their vectors: an eigenvalue lies that near."""

    low: Float[Array, ""]
    high: Float[Array, ""]
    low_residual: Float[Array, ""]
    high_residual: Float[Array, ""]


@eqx.filter_jit
def extreme_eigenvalues(
    oracles: Oracles, x: Float[Array, " p"], y: Array, steps: int = 30
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Estimates (mu, L) of the smallest and largest eigenvalue of H at (x, y): mu from above, L from below.

    Lanczos from a fixed random start, on all blocks of a separable problem at once.
    """
    found = hessian_extremes(oracles, x, y, steps)
    return found.low, found.high


def hessian_extremes(oracles: Oracles, x: Float[Array, " p"], y: Array, steps: int) -> Extremes:
    """Extremes of H over all its blocks."""
    product = oracles.hessian(oracles.prepare(x).lower, y)
    return lanczos(product, y.reshape(-1, oracles.y_layout.size), steps)


def lanczos(product: Callable, like: Float[Array, "B q"], steps: int) -> Extremes:
    """Extreme Ritz values of the symmetric `product` on rows, each row a block of its own, after `steps` products.

    Full reorthogonalisation, a fixed random start. Ritz values lie between the extreme eigenvalues.
    """
    blocks, size = like.shape
    start = jax.random.normal(jax.random.key(0), like.shape, like.dtype)
    steps = min(steps, size)
    across = partial(jnp.einsum, precision="highest")

    def step(carry, index):
        basis, unit = carry
        basis = basis.at[:, index].set(unit)
        image = product(unit)
        rest = image
        for _ in range(2):  # once is not enough in floating point
            rest = rest - across("bkq,bk->bq", basis, across("bkq,bq->bk", basis, rest))
        grown = _norms(rest) > jnp.sqrt(jnp.finfo(like.dtype).eps) * _norms(image)
        following = jnp.where(grown, rest / jnp.where(grown, _norms(rest), 1), 0)
        return (basis, following), (across("bkq,bq->bk", basis, image), _norms(rest))

    empty = jnp.zeros((blocks, steps, size), like.dtype)
    (basis, _), (columns, rests) = jax.lax.scan(step, (empty, start / _norms(start)), jnp.arange(steps))
    upper = jnp.triu(jnp.moveaxis(columns, 0, -1))
    projected = upper + jnp.swapaxes(jnp.triu(upper, 1), 1, 2)
    # Where the recursion ended early, rows are empty; a value between the extremes keeps them from counting.
    spare = jnp.where(jnp.sum(basis**2, axis=2) > 0.5, 0, projected[:, :1, 0])
    values, vectors = jnp.linalg.eigh(projected + jax.vmap(jnp.diag)(spare))
    residuals = rests[-1] * jnp.abs(vectors[:, -1, :])
    low, high = jnp.argmin(values[:, 0]), jnp.argmax(values[:, -1])
    return Extremes(values[low, 0], values[high, -1], residuals[low, 0], residuals[high, -1])


def _norms(rows: Float[Array, "B q"]) -> Float[Array, "B 1"]:
    return jnp.sqrt(jnp.sum(rows**2, axis=1, keepdims=True))

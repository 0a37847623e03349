"""Extreme eigenvalues of the lower Hessian H = grad_yy g, from products H v only (Lanczos)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bipareto.oracles import Oracles


@eqx.filter_jit
def extreme_eigenvalues(
    oracles: Oracles, x: Float[Array, " p"], y: Array, steps: int = 30
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Estimates (mu, L) of the smallest and largest eigenvalue of H at (x, y): mu from above, L from below.

    Lanczos with full reorthogonalisation from a fixed random start, on all blocks of a separable problem at once.
    """
    product = oracles.hessian(oracles.prepare(x).lower, y)
    size = oracles.y_layout.size
    start = jax.random.normal(jax.random.key(0), y.reshape(-1, size).shape, y.dtype)
    steps = min(steps, size)

    def step(carry, index):
        basis, unit = carry
        basis = basis.at[:, index].set(unit)
        image = product(unit)
        rest = image
        for _ in range(2):  # once is not enough in floating point
            rest = rest - jnp.einsum("bkq,bk->bq", basis, jnp.einsum("bkq,bq->bk", basis, rest))
        grown = _norms(rest) > jnp.sqrt(jnp.finfo(y.dtype).eps) * _norms(image)
        following = jnp.where(grown, rest / jnp.where(grown, _norms(rest), 1), 0)
        return (basis, following), jnp.einsum("bkq,bq->bk", basis, image)

    empty = jnp.zeros((len(start), steps, size), y.dtype)
    (basis, _), columns = jax.lax.scan(step, (empty, start / _norms(start)), jnp.arange(steps))
    upper = jnp.triu(jnp.moveaxis(columns, 0, -1))
    projected = upper + jnp.swapaxes(jnp.triu(upper, 1), 1, 2)
    # Where the recursion ended early, rows are empty; a value between the extremes keeps them from counting.
    spare = jnp.where(jnp.sum(basis**2, axis=2) > 0.5, 0, projected[:, :1, 0])
    values = jnp.linalg.eigvalsh(projected + jax.vmap(jnp.diag)(spare))
    return jnp.min(values), jnp.max(values)


def _norms(rows: Float[Array, "B q"]) -> Float[Array, "B 1"]:
    return jnp.sqrt(jnp.sum(rows**2, axis=1, keepdims=True))

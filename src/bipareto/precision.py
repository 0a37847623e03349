"""The library's own products in full precision.

A GPU rounds the factors of float32 products to TF32 unless told otherwise. That is the user's choice for the losses
(`jax_default_matmul_precision`); a stationarity gap is a small difference of large products and would be lost in it.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array


def product(a: Array, b: Array) -> Array:
    """a @ b."""
    return jnp.matmul(a, b, precision="highest")


def full_precision(function: Callable) -> Callable:
    """For functions that call no loss of the user; and for judges of the truth, which see the losses in full precision."""

    @functools.wraps(function)
    def precise(*args, **options):
        with jax.default_matmul_precision("highest"):
            return function(*args, **options)

    return precise

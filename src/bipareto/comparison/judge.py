"""The same judge for every method: true values and the exact stationarity gap, at the solved lower level."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bipareto.distributed import fetch
from bipareto.hypergradient import CG, estimate
from bipareto.hypergradient.methods import Here
from bipareto.oracles import Oracles
from bipareto.precision import full_precision, product
from bipareto.sampling import Batches, Draws
from bipareto.weighting import stationarity_gap

_ROUNDS, _HALVINGS = 100, 30


class Judged(NamedTuple):
    """phi_s(x) [S], the gap min over the simplex of ||sum_s lam_s grad phi_s||^2, and ||grad_y g|| at their y."""

    values: np.ndarray
    gap: float
    residual: float
    y: Array

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.values).all() and np.isfinite(self.gap))


@full_precision
def judge(oracles: Oracles, x: Array, y: Array) -> Judged:
    """Solves the lower level with all data by Newton's method from the method's own y, then every adjoint by conjugate
    gradients.

    Methods know their hypergradients through estimates of different kinds, or not at all, so that the gaps they report are
    not comparable. What the judge evaluates is not counted.
    """
    *told, solved = _judged(oracles, x, y)
    values, gap, residual = fetch(told)
    return Judged(np.asarray(values, float), float(gap), float(residual), solved)


@eqx.filter_jit
def _judged(oracles: Oracles, x: Array, y: Array):
    everything = Draws(oracles, Batches(), None)
    solved = newton(everything, x, y)
    found = estimate(
        everything, CG(100, tolerance=1e-12, warm_start=False), None, x, solved, oracles.zero_dual(combined=False)
    )
    return found.values, stationarity_gap(product(found.jacobian, found.jacobian.T)), found.lower_residual, found.y


def newton(everything: Draws, x: Array, y: Array) -> Array:
    """argmin_y g(x, y): steps of inexact Newton's method, halved until g falls, as long as the gradient gets shorter.

    It needs no step size, so that no method is judged by one that does not suit the point it reached.
    """
    oracles = everything.oracles
    h, like = oracles.prepare(x).lower, oracles.zero_dual(combined=True)
    systems = CG(100, tolerance=1e-3, warm_start=False)
    rounding = 10 * jnp.finfo(like.dtype).eps

    def direction(y: Array, slope: Array) -> Array:
        here = Here(oracles, everything, x, h, y, None)
        return systems(here, slope.reshape(like.shape), like).dual.reshape(y.shape).astype(y.dtype)

    def step(carry: Any) -> Any:
        count, y, slope, _, least = carry
        d, height = direction(y, slope), oracles.lower(h, y)
        falls = lambda t: oracles.lower(h, y - t * d) <= height - 1e-4 * t * jnp.sum(slope * d) + rounding * jnp.abs(height)  # noqa: E731
        halve = lambda c: (c[0] + 1, c[1] / 2)  # noqa: E731
        _, t = jax.lax.while_loop(lambda c: (c[0] < _HALVINGS) & ~falls(c[1]), halve, (0, jnp.ones((), y.dtype)))
        y = y - t * d
        slope = oracles.lower_gradient(h, y)
        length = jnp.sqrt(jnp.sum(slope**2))
        stalls = jnp.where(length < least / 2, 0, carry[3] + 1)
        return count + 1, y, slope, stalls, jnp.minimum(length, least)

    slope = oracles.lower_gradient(h, y)
    start = (jnp.int32(0), y, slope, jnp.int32(0), jnp.sqrt(jnp.sum(slope**2)))
    going = lambda c: (c[0] < _ROUNDS) & (c[3] < 2) & (c[4] > 0)  # noqa: E731
    return jax.lax.while_loop(going, step, start)[1]

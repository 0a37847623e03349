"""One lower level for all objectives."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from bipareto.layout import Layout
from bipareto.oracles.interface import Oracles, Prepared, end_of, hessian_product, prepared_from, seen
from bipareto.problem import Problem, arguments


class JointOracles(Oracles):
    """One lower level for all objectives: S right-hand sides, S products.

    `own_batches`: the upper data has a leading axis S, objective s is evaluated on the s-th batch only.
    """

    problem: Problem
    x_layout: Layout = eqx.field(static=True)
    y_layout: Layout = eqx.field(static=True)
    objectives: int = eqx.field(static=True)
    own_batches: bool = eqx.field(static=True, default=False)

    @property
    def products(self) -> int:
        return self.objectives

    def prepare(self, x):
        upper = partial(prepared_from, self, x)
        if self.own_batches and self.problem.prepare is not None:
            upper = jax.vmap(upper)
        return Prepared(upper(self.problem.upper_data), prepared_from(self, x, self.problem.lower_data))

    def lower(self, h, y):
        data = arguments(self.problem.lower_data)
        return self.problem.lower(seen(self, h), self.y_layout.unflatten(y), *data)

    def lower_gradient(self, h, y):
        return jax.grad(self.lower, argnums=1)(h, y)

    def lower_slopes(self, h, y):
        return jax.tree.map(lambda leaf: leaf[None], jax.grad(self.lower)(h, y))

    def _upper(self, h, y):
        def values(h, *data):
            return self.problem.upper(seen(self, h), self.y_layout.unflatten(y), *data)

        if not self.own_batches:
            return values(h, *arguments(self.problem.upper_data))
        axis = None if self.problem.prepare is None else 0
        return jnp.diagonal(jax.vmap(values, (axis, 0))(h, self.problem.upper_data))

    def upper(self, h, y):
        values, pull = jax.vjp(self._upper, h, y)
        rows = jnp.eye(self.objectives, dtype=values.dtype)
        return values, lambda mix: jax.vmap(pull)(rows if mix is None else mix[None].astype(values.dtype))

    def suspects(self, h: PyTree, y: Array) -> Bool[Array, " S"]:
        """Objectives with a NaN or Inf derivative: forward mode keeps them apart where reverse mode mixes them (0 * NaN)."""
        ones = jax.tree.map(jnp.ones_like, (h, y))
        return ~jnp.isfinite(jax.jvp(self._upper, (h, y), ones)[1])

    def hessian(self, h, y):
        return jax.vmap(hessian_product(lambda y: self.lower_gradient(h, y), y))

    def cross(self, h, y, dual):
        return jax.vmap(jax.grad(lambda h, v: jax.jvp(lambda y: self.lower(h, y), (y,), (v,))[1]), (None, 0))(h, dual)

    def unroll(self, h, y, descend, checkpoint):
        _, pull, path = jax.vjp(lambda h: end_of(descend, self.lower_gradient, h, y, checkpoint), h, has_aux=True)
        return path, lambda b: jax.vmap(pull)(b)[0]

    def pull_back(self, x, upper, lower, combined):
        prepared, pull = jax.vjp(self.prepare, x)
        none = jax.tree.map(jnp.zeros_like, prepared)

        def row(upper, lower):
            return pull(Prepared(none.upper if upper is None else upper, none.lower if lower is None else lower))[0]

        return jax.vmap(row)(upper, lower)

    def zero_dual(self, combined):
        return jnp.zeros((1 if combined else self.objectives, self.y_layout.size), self.y_layout.dtype)

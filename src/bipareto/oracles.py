"""The only autodiff: values, gradients and second-order products for all objectives at once, on flat vectors.

With H = grad_yy g, J v = grad_x <grad_y g, v> and b_s = grad_y f_s the hypergradient is grad phi_s = grad_x f_s - J v_s,
where H v_s = b_s. Hypergradients are rows [R, p]: R = S, one per objective, or R = 1 for a combination of the objectives
with given weights (`mix`). Linear systems are rows [B, q]: B = R, except that the combination of separable objectives still
has one block per task.

Derivatives in x are taken in two stages: first with respect to what the losses see (x itself, or what `prepare` made of
it), then pulled back to x once per row.
"""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from bipareto.layout import Layout
from bipareto.problem import Problem, SeparableProblem, arguments, objectives


class Prepared(NamedTuple):
    """What the losses see in place of x: itself as a flat vector, or what `prepare` computed from it."""

    upper: PyTree
    lower: PyTree


class OracleCounts(NamedTuple):
    """Evaluations as the paper counts them: gradients of f_s (in x and in y), gradients of g, products J v and H v.

    One product of the whole lower level counts once; a separable problem needs one where the general one needs S.
    """

    grad_upper: Any
    grad_lower: Any
    jvp: Any
    hvp: Any


class Oracles(eqx.Module):
    """A problem bound to the layout of its variables. Lower variables: y [q], or [S, q] for a separable problem."""

    problem: eqx.AbstractVar[Problem | SeparableProblem]
    x_layout: eqx.AbstractVar[Layout]
    y_layout: eqx.AbstractVar[Layout]
    objectives: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def products(self) -> int:
        """How many products with H or J serve all objectives."""

    @abc.abstractmethod
    def prepare(self, x: Float[Array, " p"]) -> Prepared:
        """Everything of x that is computed once per upper step."""

    @abc.abstractmethod
    def lower(self, h: PyTree, y: Array) -> Float[Array, ""]:
        """g."""

    @abc.abstractmethod
    def lower_gradient(self, h: PyTree, y: Array) -> Array:
        """grad_y g."""

    @abc.abstractmethod
    def upper(self, h: PyTree, y: Array) -> tuple[Float[Array, " S"], Callable]:
        """Values [S] and a function `mix or None -> (slopes in h, b [B, q])` for their gradients."""

    @abc.abstractmethod
    def hessian(self, h: PyTree, y: Array) -> Callable[[Float[Array, "B q"]], Float[Array, "B q"]]:
        """v -> H v on all rows; linearised here once, applied as often as wanted."""

    @abc.abstractmethod
    def cross(self, h: PyTree, y: Array, dual: Float[Array, "B q"]) -> PyTree:
        """The slopes in h of <grad_y g, v> for every row v of `dual`."""

    @abc.abstractmethod
    def unroll(self, h: PyTree, y: Array, descend: Callable, checkpoint: bool) -> tuple[Any, Callable]:
        """The path of `descend(gradient, y)` and the pull-back of its end: b [B, q] -> slopes in h."""

    @abc.abstractmethod
    def pull_back(self, x: Float[Array, " p"], upper: PyTree, lower: PyTree, combined: bool) -> Float[Array, "R p"]:
        """Slopes in h (of both levels, one per row) -> gradients in x."""

    @abc.abstractmethod
    def zero_dual(self, combined: bool) -> Float[Array, "B q"]:
        """Where the linear solves start."""


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
        upper = partial(_prepare, self, x)
        if self.own_batches and self.problem.prepare is not None:
            upper = jax.vmap(upper)
        return Prepared(upper(self.problem.upper_data), _prepare(self, x, self.problem.lower_data))

    def lower(self, h, y):
        data = arguments(self.problem.lower_data)
        return self.problem.lower(_seen(self, h), self.y_layout.unflatten(y), *data)

    def lower_gradient(self, h, y):
        return jax.grad(self.lower, argnums=1)(h, y)

    def _upper(self, h, y):
        def values(h, *data):
            return self.problem.upper(_seen(self, h), self.y_layout.unflatten(y), *data)

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
        return jax.vmap(jax.linearize(lambda y: self.lower_gradient(h, y), y)[1])

    def cross(self, h, y, dual):
        return jax.vmap(jax.grad(lambda h, v: jax.jvp(lambda y: self.lower(h, y), (y,), (v,))[1]), (None, 0))(h, dual)

    def unroll(self, h, y, descend, checkpoint):
        _, pull, path = jax.vjp(lambda h: _end(descend, self.lower_gradient, h, y, checkpoint), h, has_aux=True)
        return path, lambda b: jax.vmap(pull)(b)[0]

    def pull_back(self, x, upper, lower, combined):
        pull = jax.vjp(self.prepare, x)[1]
        return jax.vmap(lambda upper, lower: pull(Prepared(upper, lower))[0])(upper, lower)

    def zero_dual(self, combined):
        return jnp.zeros((1 if combined else self.objectives, self.y_layout.size), self.y_layout.dtype)


class SeparableOracles(Oracles):
    """A block-diagonal lower level: row s is block s, so one product serves all objectives."""

    problem: SeparableProblem
    x_layout: Layout = eqx.field(static=True)
    y_layout: Layout = eqx.field(static=True)
    objectives: int = eqx.field(static=True)

    @property
    def products(self) -> int:
        return 1

    def _map(self, function: Callable, level: str, *axes: int | None) -> Callable:
        """Map `function(*args, data_s...)` over tasks; `axes` are those of the leading arguments."""
        data, leaf_axes = {
            "upper": (self.problem.upper_data, self.problem.upper_axes),
            "lower": (self.problem.lower_data, self.problem.lower_axes),
        }[level]
        if data is None:
            return jax.vmap(function, in_axes=axes, axis_size=self.objectives)
        data_axes = jax.tree.unflatten(jax.tree.structure(data), leaf_axes)
        mapped = jax.vmap(function, in_axes=(*axes, data_axes), axis_size=self.objectives)
        return lambda *args: mapped(*args, data)

    @property
    def _seen_axis(self):
        """x itself is shared by the tasks; what was prepared from it is one per task."""
        return None if self.problem.prepare is None else 0

    def prepare(self, x):
        if self.problem.prepare is None:
            return Prepared(x, x)
        return Prepared(*[self._map(partial(_prepare, self), level, None)(x) for level in ("upper", "lower")])

    def _lower(self, h, y, *data):
        return self.problem.lower(_seen(self, h), self.y_layout.unflatten(y), *data) / self.objectives

    def lower(self, h, y):
        return jnp.sum(self._map(self._lower, "lower", self._seen_axis, 0)(h, y))

    def _gradient(self, h, y, axis):
        # One gradient of the sum, not S mapped gradients: the same numbers, compiled to a step 6 % faster.
        return jax.grad(lambda y: jnp.sum(self._map(self._lower, "lower", axis, 0)(h, y)))(y)

    def lower_gradient(self, h, y):
        return self._gradient(h, y, self._seen_axis)

    def upper(self, h, y):
        def function(h, y, *data):
            return self.problem.upper(_seen(self, h), self.y_layout.unflatten(y), *data)

        values, slopes = self._map(jax.value_and_grad(function, (0, 1)), "upper", self._seen_axis, 0)(h, y)
        return values, lambda mix: slopes if mix is None else jax.vmap(_scale)(mix, slopes)

    def hessian(self, h, y):
        return jax.linearize(lambda y: self.lower_gradient(h, y), y)[1]

    def cross(self, h, y, dual):
        def along(h, y, v, *data):
            return jax.jvp(lambda y: self._lower(h, y, *data), (y,), (v,))[1]

        return self._map(jax.grad(along), "lower", self._seen_axis, 0, 0)(h, y, dual)

    def unroll(self, h, y, descend, checkpoint):
        if self._seen_axis is None:  # a copy of x per task keeps the tasks' pull-backs apart
            h = jnp.broadcast_to(h, (self.objectives, *h.shape))
        gradient = partial(self._gradient, axis=0)
        _, pull, path = jax.vjp(lambda h: _end(descend, gradient, h, y, checkpoint), h, has_aux=True)
        return path, lambda b: pull(b)[0]

    def pull_back(self, x, upper, lower, combined):
        def pull(slope, *data):
            return jax.vjp(lambda x: _prepare(self, x, *data), x)[1](slope)[0]

        rows = self._map(pull, "upper", 0)(upper) + self._map(pull, "lower", 0)(lower)
        return rows.sum(axis=0, keepdims=True) if combined else rows

    def zero_dual(self, combined):
        return jnp.zeros((self.objectives, self.y_layout.size), self.y_layout.dtype)


def bind(problem: Problem | SeparableProblem, x: PyTree, y: PyTree) -> Oracles:
    """Check the problem against its variables and flatten them."""
    x_layout = Layout.of(x, "x0")
    y_layout = Layout.of(y, "y0", tasks=problem.tasks if isinstance(problem, SeparableProblem) else None)
    count = objectives(problem, x, y)
    if isinstance(problem, SeparableProblem):
        return SeparableOracles(problem, x_layout, y_layout, count)
    return JointOracles(problem, x_layout, y_layout, count)


def curvature(oracles: Oracles, x: Float[Array, " p"], y: Array, mix: Float[Array, " n"]) -> Callable:
    """(dx, dy) -> the derivative along it of the gradient, in x and y, of mix . (f_1 ... f_S, g)."""

    def total(x, y):
        h = oracles.prepare(x)
        return mix[:-1] @ oracles.upper(h.upper, y)[0] + mix[-1] * oracles.lower(h.lower, y)

    return jax.linearize(jax.grad(total, (0, 1)), x, y)[1]


def _prepare(oracles: Oracles, x: Array, data: PyTree = None) -> PyTree:
    function = oracles.problem.prepare
    return x if function is None else function(oracles.x_layout.unflatten(x), *arguments(data))


def _seen(oracles: Oracles, h: PyTree) -> PyTree:
    return h if oracles.problem.prepare is not None else oracles.x_layout.unflatten(h)


def _scale(weight: Array, slopes: PyTree) -> PyTree:
    return jax.tree.map(lambda slope: weight.astype(slope.dtype) * slope, slopes)


def _end(descend: Callable, gradient: Callable, h: PyTree, y: Array, checkpoint: bool) -> tuple[Array, Any]:
    """The end of the lower path and, not differentiated, the whole path."""
    step = jax.checkpoint(lambda h, y: gradient(h, y)) if checkpoint else gradient
    path = descend(lambda y, t: step(h, y), y)
    return path.end, path

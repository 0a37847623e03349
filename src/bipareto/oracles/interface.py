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
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from bipareto.layout import Layout
from bipareto.problem import Problem, SeparableProblem, arguments
from bipareto.shapes import by_shape


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
    def lower_slopes(self, h: PyTree, y: Array) -> PyTree:
        """The slopes in h of g: one row, or one per task (their pulled-back rows then sum to grad_x g)."""

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
        """Slopes in h (of both levels, one per row; None: none of that level) -> gradients in x."""

    @abc.abstractmethod
    def zero_dual(self, combined: bool) -> Float[Array, "B q"]:
        """Where the linear solves start."""


def prepared_from(oracles: Oracles, x: Array, data: PyTree = None) -> PyTree:
    function = oracles.problem.prepare
    return x if function is None else function(oracles.x_layout.unflatten(x), *arguments(data))


def pulled(oracles: Oracles, x: Array, slope: PyTree, data: PyTree = None) -> Array:
    """The slope in what `prepare` made of x, as a slope in x."""
    prepare = oracles.problem.prepare
    if prepare is None:
        return slope
    # As a tree: the compiled sum of flat gradients of every leaf took 30 times as long as putting them side by side.
    variables, constants = eqx.partition(oracles.x_layout.unflatten(x), eqx.is_array)
    pull = jax.vjp(lambda v: prepare(eqx.combine(v, constants), *arguments(data)), variables)[1]
    return oracles.x_layout.flatten(pull(slope)[0])


def seen(oracles: Oracles, h: PyTree) -> PyTree:
    return h if oracles.problem.prepare is not None else oracles.x_layout.unflatten(h)


def hessian_product(gradient: Callable, y: Array) -> Callable[[Array], Array]:
    """v -> H v, linearised once: H is its own transpose, and in reverse mode its products take 7 to 14 % less time."""
    pull = jax.vjp(gradient, y)[1]
    return lambda v: pull(v)[0]


def scaled(weight: Array, slopes: PyTree) -> PyTree:
    return jax.tree.map(lambda slope: weight.astype(slope.dtype) * slope, slopes)


def end_of(descend: Callable, gradient: Callable, h: PyTree, y: Array, checkpoint: bool) -> tuple[Array, Any]:
    """The end of the lower path and, not differentiated, the whole path."""
    step = jax.checkpoint(lambda h, y: gradient(h, y)) if checkpoint else gradient
    path = descend(lambda y, t: step(h, y), y)
    return path.end, path


def zero_values(oracles: Oracles, x: Array, y: Array) -> Float[Array, " S"]:
    """Zeros of the shape and kind of the objectives' values."""
    values = _values(oracles, x, y)
    return jnp.zeros(values.shape, values.dtype)


@by_shape
def _values(oracles: Oracles, x: Array, y: Array) -> jax.ShapeDtypeStruct:
    return jax.eval_shape(lambda x, y: oracles.upper(oracles.prepare(x).upper, y)[0], x, y)


def convolves(program: Any) -> bool:
    """Whether a jaxpr holds a convolution."""
    return "conv_general_dilated" in str(program)

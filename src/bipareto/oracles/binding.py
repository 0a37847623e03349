"""From a problem to its oracles."""

from collections.abc import Callable

import jax
from jaxtyping import Array, Float, PyTree

from bipareto.layout import Layout
from bipareto.oracles.interface import Oracles
from bipareto.oracles.joint import JointOracles
from bipareto.oracles.separable import SeparableOracles
from bipareto.precision import product
from bipareto.problem import Problem, SeparableProblem, objectives


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
        return product(mix[:-1], oracles.upper(h.upper, y)[0]) + mix[-1] * oracles.lower(h.lower, y)

    return jax.linearize(jax.grad(total, (0, 1)), x, y)[1]

"""Every product of the library's own asks for full precision; those of the user's losses are left as the user has them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto.comparison import judge
from bipareto.oracles import bind, curvature
from bipareto.solver import start
from bipareto.spectrum import extreme_eigenvalues
from bipareto.theory.certificate import measure
from test_baselines import methods

TARGETS = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0]])
X, Y = jnp.ones(3), jnp.zeros(3)
FULL = (jax.lax.Precision.HIGHEST,) * 2
ALGORITHMS = methods(np.array([0.5, 0.5]), alpha=0.1) | {
    "wc_mhgd": bp.wc_mhgd([0.7, 0.3], 0.1, 0.1, 3),
    "certified": bp.wc_mhgd([0.7, 0.3], 0.1, 0.1, 3, bp.Neumann(3, 0.1), u="certified"),
    "mgda": bp.mgda(0.1, 0.1, 3, bp.Unrolled()),
    "linear": bp.linear([0.7, 0.3], 0.1, 0.1, 3),
    "bounded stable": bp.stable([0.5, 0.5], 0.05, 0.1, tau=0.3, bound=5.0),
}


def without_products():
    """Losses of sums only: every product in a traced program is the library's."""
    return bp.Problem(
        lambda x, y: jnp.sum((y - TARGETS) ** 2 + 0.1 * x**2, axis=1), lambda x, y: jnp.sum((1 + x**2) * (y - x) ** 2)
    )


def products(program):
    """The precision of every dot product in a jaxpr, those of inner programs included."""
    found = []
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            found.append(equation.params["precision"])
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            if hasattr(inner, "eqns"):
                found += products(inner.jaxpr if hasattr(inner, "jaxpr") else inner)
    return found


def traced(function, *arguments):
    return products(jax.make_jaxpr(function)(*arguments).jaxpr)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_step_multiplies_in_full_precision(name):
    algorithm = ALGORITHMS[name]
    oracles, state = start(without_products(), algorithm, X, Y)
    found = traced(lambda state: algorithm.step(oracles, state, None), state)
    assert found
    assert set(found) == {FULL}


def test_so_do_certificates_judges_and_spectra():
    oracles = bind(without_products(), X, Y)
    programs = {
        "certificate": lambda x, y: measure(oracles, x, y, bp.CG(5)),
        "judge": lambda x, y: judge._judged(oracles, x, y),
        "spectrum": lambda x, y: extreme_eigenvalues(oracles, x, y),
        "curvature": lambda x, y: curvature(oracles, x, y, jnp.ones(3))(x, y),
    }
    for name, program in programs.items():
        assert set(traced(program, X, Y)) == {FULL}, name
    gram = jnp.eye(2)
    assert set(traced(bp.stationarity_gap, gram)) == {FULL}
    assert set(traced(lambda gram: bp.duality_gap(gram, None, gram[0]), gram)) == {FULL}


def test_certificates_and_judges_look_at_the_losses_in_full_precision():
    seen = []

    def lower(x, y):
        seen.append(jax.config.jax_default_matmul_precision)
        return jnp.sum((y - x) ** 2)

    problem = bp.Problem(without_products().upper, lower)
    algorithm = bp.mgda(0.1, 0.1, 3)
    solution = bp.solve(problem, algorithm, X, Y, 2)
    oracles, state = start(problem, algorithm, X, Y)
    assert set(seen) == {None}
    for look in (solution.certify, lambda: judge.judge(oracles, state.x, state.y)):
        seen.clear()
        look()
        assert set(seen) == {"highest"}


def test_the_users_products_are_the_users():
    matrix = jnp.eye(3)
    problem = bp.Problem(
        lambda x, y: jnp.stack([jnp.sum((matrix @ y - target) ** 2) for target in TARGETS]),
        lambda x, y: jnp.sum((matrix @ y - x) ** 2),
    )
    algorithm = ALGORITHMS["wc_mhgd"]
    oracles, state = start(problem, algorithm, X, Y)
    assert set(traced(lambda state: algorithm.step(oracles, state, None), state)) == {FULL, None}

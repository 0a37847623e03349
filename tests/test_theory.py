"""Advice: the formulas as numbers, and settings that run."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto.theory import Constants, advise, estimate_constants, lower_spectrum
from cases import CASES, quadratic, separable_quadratic


def _sums(x, y):
    return jnp.stack([jnp.sum(y), jnp.sum(x)])


def _half(x, y, matrix):
    return 0.5 * y @ matrix @ y - jnp.sum(x) * y[0]


def test_advice_is_the_corrected_formulas():
    constants = Constants(mu=0.5, L=2.0, M=3.0, tau=0.7, rho=0.2)
    kappa = 4.0
    smoothness = 2 + (2 * 4 + 0.7 * 3) / 0.5 + (0.2 * 2 * 3 + 8 + 0.7 * 2 * 3) / 0.25 + 0.2 * 4 * 3 / 0.125
    assert math.isclose(constants.L_phi, smoothness)
    found = advise(constants, epsilon=0.1, objectives=5, largest_preference=0.8)
    assert math.isclose(found.step_size, min(1 / (2 * (1 + smoothness) * 0.8), 1 / (3 * smoothness)))
    assert math.isclose(found.lower_step_size, 2 / 2.5)
    assert found.neumann_step_size == 0.5
    assert found.steps == kappa**3 * 10
    assert found.lower_steps == math.ceil(kappa * math.log(10))
    assert found.neumann_terms == math.ceil(kappa * math.log(kappa**2 * 10))
    assert found.lower_batch == kappa**8 * 10
    assert (found.upper_batch, found.cross_batch, found.hessian_batch) == (kappa**5 * 10,) * 3
    k, batch, sizes = found.steps, found.upper_batch, found.settings()["hypergradient"].sizes
    expected = (2 * k * batch * 5, k * found.lower_steps * found.lower_batch, k * batch * 5, k * sum(sizes) * 5)
    assert found.samples == expected


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Constants)[:5]])
def test_every_constant_makes_the_objectives_less_smooth_or_more(field):
    base = Constants(0.5, 2.0, 3.0, 0.7, 0.2)
    grown = dataclasses.replace(base, **{field: 1.1 * getattr(base, field)})
    assert (grown.L_phi < base.L_phi) if field == "mu" else (grown.L_phi > base.L_phi)


def test_estimated_constants_of_problems_with_known_ones():
    case = quadratic()
    np.testing.assert_allclose(lower_spectrum(case.problem, case.x, case.y), [0.5, 2.0], rtol=1e-6)
    found = estimate_constants(case.problem, case.x, case.y, samples=0)
    second = np.asarray(jax.jacobian(jax.grad(case.problem.lower, 1), (0, 1))(case.x, case.y)[0])
    dense = np.linalg.norm(np.hstack([second, jax.hessian(case.problem.lower, 1)(case.x, case.y)]), 2)
    np.testing.assert_allclose([found.mu, found.L], [0.5, dense], rtol=1e-6)  # f has the smaller curvature 1
    in_x, in_y = jax.jacobian(case.problem.upper, (0, 1))(case.x, case.y)
    norms = np.sqrt(np.sum(np.asarray(in_x) ** 2, axis=1) + np.sum(np.asarray(in_y) ** 2, axis=1))
    np.testing.assert_allclose(found.M, norms.max())
    for other in CASES[1:]:
        low, high = lower_spectrum(other.problem, other.x, other.y)
        assert other.convexity * (1 - 1e-6) <= low <= high <= other.smoothness * (1 + 1e-6)


@pytest.mark.parametrize("condition", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("shape", ["even", "geometric", "one small"])
def test_lanczos_finds_the_spectrum_to_one_percent(shape, condition):
    """H is dense of size 500; even 1000 : 1, where a few dozen products do not see the smallest value."""
    rng = np.random.default_rng(3)
    values = {
        "even": np.linspace(1, condition, 500),
        "geometric": np.geomspace(1, condition, 500),
        "one small": np.append(1.0, np.full(499, condition)),
    }[shape]
    basis, _ = np.linalg.qr(rng.normal(size=(500, 500)))
    found = lower_spectrum(
        bp.Problem(_sums, _half, lower_data=jnp.asarray(basis * values @ basis.T)), np.ones(2), np.ones(500)
    )
    np.testing.assert_allclose(found, [1, condition], rtol=0.01)


def test_constants_that_change_between_points_are_bounded_by_the_true_ones():
    """g = sum_i h(y_i) - y_1 sin(3 x) with h'' = 2 + cos(y_i) in [1, 3]: rho = 1, tau = 9, estimates come from below."""
    lower = lambda x, y: jnp.sum(y**2 - jnp.cos(y)) - y[0] * jnp.sin(3 * x[0])  # noqa: E731
    problem = bp.Problem(lambda x, y: jnp.stack([jnp.sum(jnp.sin(y)), jnp.cos(2 * x[0])]), lower)
    points = [
        estimate_constants(problem, jnp.array([x]), jnp.array([x, -x]), samples=3, seed=i) for i, x in enumerate((0.1, 0.9))
    ]
    found = points[0].joined(points[1])
    assert 1 <= found.mu < 2.7
    assert 3 <= found.L <= np.hypot(3, 3) + 1e-9
    assert 0.3 < found.rho <= 1
    assert 2 < found.tau <= 9
    assert found.M <= 2
    assert set(found.kinds) == {"estimate"}
    assert "estimate" in str(found)
    assert Constants(1.0, 2.0).joined(found).kinds == ("estimate",) * 5
    assert Constants(1.0, 2.0).kinds == ("bound",) * 5


def test_advice_runs():
    """A well-conditioned problem, where theory's settings are affordable; their cost is the predicted one."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 2))
    upper = lambda x, y, d: np.array([[1.0, 0], [0, 1]]) @ (y - 1) ** 2 + 0 * d.mean()  # noqa: E731
    lower = lambda x, y, d: 0.5 * y @ y - y @ x + d.mean(axis=0) @ y  # noqa: E731
    problem = bp.Problem(upper, lower, noise[:, 0], noise - noise.mean(axis=0))
    advice = advise(Constants(1.0, 1.2), 0.2, 2, 0.5)
    assert "step_size" in str(advice)
    algorithm = bp.wc_mhgd([0.5, 0.5], **advice.settings())
    run = bp.solve(problem, algorithm, np.zeros(2), np.zeros(2), advice.steps, key=jax.random.key(0))
    assert run.oracles == advice.samples
    long = bp.solve(problem, algorithm, np.zeros(2), np.zeros(2), 20 * advice.steps, key=jax.random.key(0))
    assert np.mean(long.history.direction[advice.steps :]) < 0.2


@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize("method", ["cg", "unrolled", "no preference"])
def test_deterministic_advice_costs_what_it_says(method, separable):
    case = separable_quadratic(objectives=3) if separable else quadratic()
    constants = Constants(1.0, 1.4)  # not those of the problem: counts do not ask
    found = advise(constants, 0.2, 3, 0.5, method, separable)
    kappa, smoothness = 1.4, constants.L_phi
    assert found.steps == math.ceil(kappa**3 / 0.2)
    assert found.lower_steps == math.ceil(kappa * math.log(5))
    assert found.lower_step_size == 1 / 1.4
    assert found.cg_steps == (math.ceil(math.sqrt(kappa) * math.log(5)) if method == "cg" else None)
    bare = method == "no preference"
    expected = min(1.5 / (1 + smoothness), 1 / smoothness) if bare else min(1 / (1 + smoothness), 1 / (3 * smoothness))
    assert math.isclose(found.step_size, expected)
    settings = {**found.settings(), "lower_step_size": 0.1}
    algorithm = bp.mgda(**settings) if bare else bp.wc_mhgd([0.5, 0.3, 0.2], **settings)
    solution = bp.solve(case.problem, algorithm, case.x, case.y, found.steps)
    assert solution.oracles == found.samples
    assert method in str(found)


def test_advice_says_where_it_is_too_conservative():
    case = quadratic()
    constants = estimate_constants(case.problem, case.x, case.y, samples=0)
    found = advise(constants, 1e-2, 3, 0.5, "cg")
    algorithm = bp.wc_mhgd([0.5, 0.3, 0.2], 0.1, 0.5, 20)
    solution = bp.solve(case.problem, algorithm, case.x, case.y, 100)
    compared = found.compare(algorithm, solution)
    first = int(np.argmax(solution.history.gap <= 1e-2)) + 1
    assert compared.reached == first
    assert {"steps", "step_size", "hvp"} <= set(compared.too_conservative)
    assert "lower_steps" not in compared.too_conservative
    assert "too conservative" in str(compared)
    rows = {name: used for name, _, used in compared.rows}
    assert rows["hvp"] == first * 3 * 11
    assert rows["step_size"] == 0.1
    never = advise(constants, 1e-9, 3, 0.5, "cg").compare(algorithm, solution)
    assert never.reached is None
    assert never.too_conservative == ()
    assert "never" in str(never)

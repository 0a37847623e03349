"""Weightings against independent solvers, and the facts about u the documentation states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import bipareto as bp
from bipareto.weighting import descent_margin
from cases import CASES, NAMES, chebyshev_optimum, quadratic, separable_quadratic

SIZE = 4
weights_of = jax.jit(lambda weighting, values, gram: weighting(values, gram, weighting.init())[0])


def random_step(seed, objectives=SIZE, p=6):
    rng = np.random.default_rng(seed)
    jacobian = rng.normal(size=(objectives, p)) * rng.uniform(0.1, 2, size=(objectives, 1))
    return rng.uniform(0.1, 3, objectives), jacobian, rng.dirichlet(np.ones(objectives)) * 0.9 + 0.1 / objectives


def papers_program(values, jacobian, r, u):
    """Problem (6) as printed, ||K(r o lam)||^2 - u lam'(r o Phi) with K the matrix root, by SLSQP."""
    root = np.real(scipy.linalg.sqrtm(jacobian @ jacobian.T))
    fun = lambda lam: np.sum((root @ (r * lam)) ** 2) - u * lam @ (r * values)  # noqa: E731
    jac = lambda lam: 2 * r * (root.T @ (root @ (r * lam))) - u * r * values  # noqa: E731
    n = len(r)
    simplex = {"type": "eq", "fun": lambda lam: lam.sum() - 1, "jac": lambda lam: np.ones(n)}
    return scipy.optimize.minimize(
        fun, np.full(n, 1 / n), jac=jac, bounds=[(0, 1)] * n, constraints=[simplex], method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), u=st.sampled_from([0.0, 0.01, 1.0, 10.0]))
def test_a_number_reproduces_the_papers_program(seed, u):
    values, jacobian, r = random_step(seed)
    weights = np.asarray(weights_of(bp.WeightedChebyshev(r, u=u), jnp.array(values), jnp.array(jacobian @ jacobian.T)))
    expected = papers_program(values, jacobian, r, u)
    lam = weights / r
    assert np.isclose(lam.sum(), 1, atol=1e-12)
    objective = np.sum((jacobian.T @ weights) ** 2) - u * weights @ values
    assert objective <= expected.fun + 1e-9
    np.testing.assert_allclose(lam, expected.x, atol=2e-4)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), step_size=st.floats(0.01, 2))
def test_prox_is_the_dual_of_the_proximal_chebyshev_step(seed, step_size):
    """-step_size * d solves min_d max_s r_s (phi_s + <grad phi_s, d>) + |d|^2 / (2 step_size), found by SLSQP."""
    values, jacobian, r = random_step(seed)
    weighting = bp.WeightedChebyshev(r, u="prox", step_size=step_size)
    weights = np.asarray(weights_of(weighting, jnp.array(values), jnp.array(jacobian @ jacobian.T)))
    step = -step_size * weights @ jacobian
    model = lambda d: np.max(r * (values + jacobian @ d)) + d @ d / (2 * step_size)  # noqa: E731
    p = jacobian.shape[1]
    epigraph = {"type": "ineq", "fun": lambda z: z[p] - r * (values + jacobian @ z[:p])}
    found = scipy.optimize.minimize(
        lambda z: z[p] + z[:p] @ z[:p] / (2 * step_size), np.append(np.zeros(p), np.max(r * values)),
        constraints=[epigraph], method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert model(step) <= model(found.x[:p]) + 1e-8


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), step_size=st.sampled_from([0.01, 0.1, 1.0]))
def test_certified_keeps_lemma_2_with_the_largest_u(seed, step_size):
    values, jacobian, r = random_step(seed)
    gram = jnp.array(jacobian @ jacobian.T)
    margin = lambda weights: float(descent_margin(gram, weights, jnp.array(r)))  # noqa: E731
    certified = weights_of(bp.WeightedChebyshev(r, u="certified", step_size=step_size), jnp.array(values), gram)
    assert margin(certified) >= -1e-12 * float(jnp.max(gram))
    prox = weights_of(bp.WeightedChebyshev(r, step_size=step_size), jnp.array(values), gram)
    if margin(prox) >= 0:
        np.testing.assert_allclose(certified, prox, atol=1e-12)
        return
    # Below the prox value u stands at the edge of Lemma 2: its inequality is tight there.
    assert margin(certified) <= 1e-2 * float(certified @ gram @ certified)


def test_lemma_2_fails_at_the_papers_u_and_holds_at_zero():
    fails, holds = 0, 0
    for seed in range(60):
        values, jacobian, r = random_step(seed)
        gram = jnp.array(jacobian @ jacobian.T)
        for u in (10.0, 0.0):
            margin = descent_margin(gram, weights_of(bp.WeightedChebyshev(r, u=u), jnp.array(values), gram), jnp.array(r))
            fails += u == 10.0 and margin < 0
            holds += u == 0.0 and margin >= 0
    assert fails > 50
    assert holds == 60


def test_a_huge_u_descends_on_the_worst_objective():
    values, jacobian, r = random_step(3)
    weights = np.asarray(weights_of(bp.WeightedChebyshev(r, u=1e9), jnp.array(values), jnp.array(jacobian @ jacobian.T)))
    worst = np.argmax(r * values)
    np.testing.assert_allclose(weights, r[worst] * np.eye(SIZE)[worst], atol=1e-9)


def test_the_reference_point_shifts_the_values():
    values, jacobian, r = random_step(5)
    gram = jnp.array(jacobian @ jacobian.T)
    z = np.array([0.05, 0.5, -0.3, 0.0])
    shifted = weights_of(bp.WeightedChebyshev(r, u=3.0), jnp.array(values - z), gram)
    np.testing.assert_allclose(weights_of(bp.WeightedChebyshev(r, u=3.0, reference=z), jnp.array(values), gram), shifted)
    other = weights_of(bp.WeightedChebyshev(r, u=3.0, reference=0.3), jnp.array(values), gram)
    assert np.abs(np.asarray(other) - np.asarray(shifted)).max() > 1e-3
    a = weights_of(bp.SmoothChebyshev(r, 0.2, reference=z), jnp.array(values), None)
    np.testing.assert_allclose(a, weights_of(bp.SmoothChebyshev(r, 0.2), jnp.array(values - z), None))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_min_norm_is_a_common_descent_direction_of_least_norm(seed):
    _, jacobian, _ = random_step(seed)
    gram = jacobian @ jacobian.T
    lam = np.asarray(weights_of(bp.MinNorm(), jnp.ones(SIZE), jnp.array(gram)))
    direction = lam @ jacobian
    assert (jacobian @ direction >= direction @ direction - 1e-9).all()
    others = np.random.default_rng(seed).dirichlet(np.ones(SIZE), 200)
    assert (np.sum((others @ jacobian) ** 2, axis=1) >= direction @ direction - 1e-9).all()
    assert np.isclose(float(bp.stationarity_gap(jnp.array(gram))), direction @ direction, atol=1e-12)


def test_smooth_chebyshev_is_the_gradient_of_log_sum_exp():
    values, _, r = random_step(7)
    smooth = lambda v: 0.3 * jax.nn.logsumexp(jnp.array(r) * v / 0.3)  # noqa: E731
    weights = weights_of(bp.SmoothChebyshev(r, temperature=0.3), jnp.array(values), None)
    np.testing.assert_allclose(weights, jax.grad(smooth)(jnp.array(values)), atol=1e-14)


def test_pinned_weights():
    gram, values = jnp.array([[2.0, 0.5], [0.5, 1.0]]), jnp.array([1.0, 3.0])
    np.testing.assert_allclose(weights_of(bp.MinNorm(), values, gram), [0.25, 0.75], atol=1e-14)
    # lam minimises lam' [[.5,.125],[.125,.25]] lam - u lam'(.5, 1.5): lam_1 = (2*.125 - u)/(2*.5) for u = .1
    found = weights_of(bp.WeightedChebyshev([0.5, 0.5], u=0.1), values, gram)
    np.testing.assert_allclose(found, [0.075, 0.425], atol=1e-14)
    np.testing.assert_allclose(weights_of(bp.Linear([2.0, 0.0]), values, None), [2.0, 0.0])


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.parametrize("name", ["prox", "certified", "number", "min norm", "linear", "smooth"])
def test_every_weighting_descends_on_every_problem(case, name):
    """The quantity each weighting promises to lower, after some steps on each problem with a known answer."""
    count = len(case.values(case.x))
    r = np.linspace(1, 2, count) / np.linspace(1, 2, count).sum()
    step = 0.02
    weighting = {
        "prox": bp.WeightedChebyshev(r, step_size=step),
        "certified": bp.WeightedChebyshev(r, u="certified", step_size=step),
        "number": bp.WeightedChebyshev(r, u=5.0),
        "min norm": bp.MinNorm(),
        "linear": bp.Linear(r),
        "smooth": bp.SmoothChebyshev(r, temperature=0.1),
    }[name]
    algorithm = bp.HypergradientDescent(case.lower, bp.CG(20), weighting, step)
    solution = bp.solve(case.problem, algorithm, case.x, case.y, steps=40)
    before, after = np.asarray(case.values(case.x)), np.asarray(case.values(solution.x))
    np.testing.assert_allclose(solution.values, after, atol=1e-9)
    if name in ("certified", "min norm"):
        assert (after < before).all()
    elif name == "linear":
        assert r @ after < r @ before - 1e-6
    else:
        assert np.max(r * after) < np.max(r * before) - 1e-6


def front_points(case, many_weights):
    """argmin_x sum_s w_s phi_s(x) for each w, the phi being quadratic: every Pareto point is one."""
    origin = case.jacobian(jnp.zeros_like(case.x))
    curvature = np.stack([case.jacobian(unit) - origin for unit in jnp.eye(len(case.x))], axis=-1)  # [S, p, p]
    return [np.linalg.solve(np.tensordot(w, curvature, 1), -np.asarray(w) @ origin) for w in many_weights]


@pytest.mark.parametrize("case", [quadratic(), separable_quadratic()], ids=["joint", "separable"])
def test_ends_lie_on_the_exact_front(case):
    """Linear scalarisation ends at its closed-form minimiser; the others at the one that belongs to their last weights."""
    count = len(case.values(case.x))
    r = np.linspace(1, 2, count)
    settings = (0.05, 1 / case.smoothness, case.lower.steps, bp.CG(20))
    fixed = bp.solve(case.problem, bp.linear(r / r.sum(), *settings), case.x, case.y, 5000)
    np.testing.assert_allclose(fixed.x, front_points(case, [r / r.sum()])[0], atol=1e-8)
    for algorithm in (bp.mgda(*settings), bp.wc_mhgd(r, *settings)):
        run = bp.solve(case.problem, algorithm, case.x, case.y, 8000)
        np.testing.assert_allclose(run.x, front_points(case, run.history.weights[-1:])[0], atol=1e-5)


@pytest.mark.parametrize("case", [quadratic(), quadratic(1, p=2, objectives=5), separable_quadratic(2)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_prox_falls_to_the_chebyshev_optimum(case, seed):
    """max_s r_s phi_s never increases, and ends at the optimum an independent solver finds."""
    count = len(case.values(case.x))
    r = np.random.default_rng(seed).dirichlet(np.ones(count)) * 0.8 + 0.2 / count
    _, optimum = chebyshev_optimum(case, r, np.asarray(case.x))
    algorithm = bp.wc_mhgd(r, 0.3, 1 / case.smoothness, case.lower.steps, hypergradient=bp.CG(20))
    solution = bp.solve(case.problem, algorithm, case.x, case.y, steps=3000)
    heights = np.max(r * solution.history.values, axis=1)
    assert np.diff(heights).max() <= 1e-12
    assert abs(np.max(r * solution.values) - optimum) <= 1e-6

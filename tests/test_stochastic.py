"""The stochastic hypergradient against its exact expectation, its variance and its bias; the algorithm against its noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto.hypergradient import estimate
from bipareto.oracles import bind
from bipareto.sampling import Batches, Draws
from bipareto.spectrum import extreme_eigenvalues
from cases import CASES, NAMES

P, Q, S, N = 3, 4, 2, 16


def noisy_quadratic(seed=0, low=0.5, high=2.0, noise=0.3):
    """g = y'(A + E_i)y/2 - y'(B + F_i)x, f_s = |y - t_s - e_i|^2/2 with noise of mean zero over the samples."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(Q, Q)))
    a, b, t = basis @ np.diag(np.linspace(low, high, Q)) @ basis.T, rng.normal(size=(Q, P)), rng.normal(size=(S, Q))
    centred = lambda array: noise * (array - array.mean(axis=0))  # noqa: E731
    e = centred(rng.normal(size=(N, Q, Q)))
    lower_data = jnp.array((e + e.swapaxes(1, 2)) / 2), jnp.array(centred(rng.normal(size=(N, Q, P))))

    def lower(x, y, data):
        e, f = data
        return 0.5 * y @ (a + jnp.mean(e, axis=0)) @ y - y @ (b + jnp.mean(f, axis=0)) @ x

    def upper(x, y, data):
        return 0.5 * jnp.mean(jnp.sum((y - t[:, None] - data) ** 2, axis=2), axis=1) + 0.5 * jnp.sum(x**2)

    problem = bp.Problem(upper, lower, jnp.array(centred(rng.normal(size=(N, Q)))), lower_data)
    return problem, jnp.array(rng.normal(size=P)), jnp.array(rng.normal(size=Q)), a, b, t


def expectation(x, y, a, b, t, terms, eta):
    """E = grad_x f - J eta sum_{i=0}^{Q} (I - eta A)^i b_s: factors, cross term and right-hand side are independent."""
    series = eta * sum(np.linalg.matrix_power(np.eye(len(a)) - eta * a, i) for i in range(terms + 1))
    return np.asarray(x) + (np.asarray(y) - t) @ series @ b  # J = -b'


def sampled(problem, x, y, method, batches, keys):
    oracles = bind(problem, x, y)
    one = lambda key: estimate(Draws(oracles, batches, key), method, None, x, y, oracles.zero_dual(False)).jacobian  # noqa: E731
    return np.asarray(jax.jit(jax.vmap(one))(keys))


@pytest.mark.parametrize("eta", [0.1, 0.45, 0.9])
@pytest.mark.parametrize("terms", [1, 3, 20])
def test_the_mean_over_keys_is_the_exact_expectation(terms, eta):
    problem, x, y, a, b, t = noisy_quadratic()
    method = bp.StochasticNeumann(terms, eta, batch=2, convexity=0.5)
    found = sampled(problem, x, y, method, Batches(upper=3, cross=2), jax.random.split(jax.random.key(terms), 4000))
    error = np.abs(found.mean(axis=0) - expectation(x, y, a, b, t, terms, eta))
    standard_error = found.std(axis=0) / np.sqrt(len(found))
    assert (standard_error > 1e-4).all()  # the noise is there
    assert (error <= 4 * standard_error).all()


def test_a_shared_factor_would_be_noticed():
    """The same batch in all factors gives another mean: the test above can fail."""
    problem, x, y, a, b, t = noisy_quadratic(noise=0.6)
    oracles, eta = bind(problem, x, y), 0.45

    def shared(key):
        batch = Draws(oracles, Batches(upper=3, cross=2), key)
        term = total = batch.point().upper(x, y)[1](None)[1]
        product = batch.hessian(0, 2).hessian(x, y)
        for _ in range(3):
            term = term - eta * product(term)
            total = total + term
        return x - batch.point().cross(x, y, eta * total)

    found = np.asarray(jax.jit(jax.vmap(shared))(jax.random.split(jax.random.key(0), 4000)))
    error = np.abs(found.mean(axis=0) - expectation(x, y, a, b, t, 3, eta))
    assert (error > 4 * found.std(axis=0) / np.sqrt(len(found))).any()


def test_the_variance_falls_like_one_over_the_batch():
    problem, x, y, *_ = noisy_quadratic()
    variances = []
    for size in (2, 8, 32):
        method, batches = bp.StochasticNeumann(3, 0.45, batch=size), Batches(upper=size, cross=size)
        found = sampled(problem, x, y, method, batches, jax.random.split(jax.random.key(size), 4000))
        variances.append(found.var(axis=0).sum())
    slope = np.polyfit(np.log([2, 8, 32]), np.log(variances), 1)[0]
    assert abs(slope + 1) < 0.05


def test_the_bias_falls_like_the_series():
    """||E - grad phi|| <= C (1 - eta mu)^(Q+1), and its decay rate is exactly that once the slowest mode is left."""
    eta, mu = 0.4, 0.5
    problem, x, _, a, b, t = noisy_quadratic()
    y = jnp.linalg.solve(a, b @ x)
    exact = np.asarray(x) + (np.asarray(y) - t) @ np.linalg.inv(a) @ b
    constant = np.linalg.norm(b, 2) * np.linalg.norm(np.asarray(y) - t, axis=1) / mu
    bias = {}
    for terms in (1, 3, 10, 60, 61):
        _, found = bp.hypergradient(problem, x, y, bp.StochasticNeumann(terms, eta))
        np.testing.assert_allclose(found, expectation(x, y, a, b, t, terms, eta), atol=1e-12)
        bias[terms] = np.linalg.norm(np.asarray(found) - exact, axis=1)
        assert (bias[terms] <= constant * (1 - eta * mu) ** (terms + 1)).all()
    np.testing.assert_allclose(bias[61] / bias[60], 1 - eta * mu, rtol=1e-4)
    measured = sampled(
        problem, x, y, bp.StochasticNeumann(3, eta, batch=4), Batches(), jax.random.split(jax.random.key(0), 4000)
    )
    spread = 4 * np.linalg.norm(measured.std(axis=0), axis=1) / np.sqrt(len(measured))
    assert (np.abs(np.linalg.norm(measured.mean(axis=0) - exact, axis=1) - bias[3]) <= spread).all()


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_full_batches_and_a_converged_series_are_the_exact_hypergradient(case):
    method = bp.StochasticNeumann(case.lower.steps, 1 / case.smoothness)
    _, found = bp.hypergradient(case.problem, case.x, case.solution(case.x), method)
    rows = np.concatenate([np.asarray(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(found)], axis=1)
    np.testing.assert_allclose(rows, case.jacobian(case.x), rtol=0, atol=1e-10)


def test_without_replacement_a_batch_of_everything_is_everything():
    problem, x, y, a, b, t = noisy_quadratic()
    batches = Batches(upper=N, cross=N, replace=False)
    method = bp.StochasticNeumann(3, 0.45, batch=N)
    _, found = bp.hypergradient(problem, x, y, method, batches=batches, key=jax.random.key(0))
    np.testing.assert_allclose(found, expectation(x, y, a, b, t, 3, 0.45), atol=1e-12)


def test_theory_sized_series_run():
    """kappa = 5: Q = kappa log(kappa^2 / eps) factors with batches that shrink to one sample."""
    problem, x, y, a, b, t = noisy_quadratic(low=0.4, high=2.0, noise=0.01)
    terms = int(np.ceil(5 * np.log(5**2 / 1e-2)))
    method = bp.StochasticNeumann(terms, 0.5, batch=1, convexity=0.4)
    assert method.sizes[0] == terms
    assert method.sizes[-1] == 1
    _, found = bp.hypergradient(problem, x, y, method, batches=Batches(upper=8, cross=8), key=jax.random.key(0))
    exact = expectation(x, y, a, b, t, terms, 0.5)
    assert np.abs(np.asarray(found) - exact).max() < 0.05 * np.abs(exact).max()


def test_lanczos_finds_the_extreme_eigenvalues():
    for case in CASES:
        oracles = bind(case.problem, case.x, case.y)
        x, y = oracles.x_layout.flatten(case.x), oracles.y_layout.flatten(case.y)
        hessian = jax.jacobian(lambda y, o=oracles, x=x: o.lower_gradient(o.prepare(x).lower, y))(y)
        values = np.linalg.eigvalsh(np.asarray(hessian).reshape(y.size, y.size))
        low, high = extreme_eigenvalues(oracles, x, y)
        np.testing.assert_allclose([low, high], [values[0], values[-1]], rtol=1e-6)


def test_the_noise_floor_falls_with_the_batches():
    """Theorem 2: a term in 1/K, and a floor that falls with the batch sizes. Gaps are of the exact problem."""
    problem, x, y, a, b, t = noisy_quadratic(noise=1.0, low=1.0, high=2.0)

    def gap(x):
        solution = np.linalg.solve(a, b @ np.asarray(x))
        jacobian = np.asarray(x) + (solution - t) @ np.linalg.inv(a) @ b
        return float(bp.stationarity_gap(jnp.array(jacobian @ jacobian.T)))

    floors = {}
    for size in (2, 32):
        algorithm = bp.mgda(0.02, 0.4, 10, bp.StochasticNeumann(8, 0.4, size), Batches(size, size, size))
        ends = [gap(bp.solve(problem, algorithm, x, y, 300, key=jax.random.key(seed)).x) for seed in range(6)]
        floors[size] = np.mean(ends)
    assert floors[32] < floors[2] / 3
    assert floors[2] < 0.1 * gap(x)

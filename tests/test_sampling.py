"""Batches mean what the theory says: who draws what, of which size, from which key."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto.hypergradient.methods import _shrinking
from bipareto.oracles import bind
from bipareto.sampling import Batches, Draws

S, N, M = 3, 12, 10
KEY = jax.random.key(7)


def marked(separable, replace=True):
    """A problem whose data are the samples' own numbers, so that a batch can be read off its oracles."""
    x, y = jnp.ones(2), jnp.ones((S, 2)) if separable else jnp.ones(2)
    numbers, per_task = jnp.arange(N), 100 * jnp.arange(S)[:, None] + jnp.arange(N)
    if not separable:
        upper = lambda x, y, data: jnp.stack([jnp.mean(data * y[0]) for _ in range(S)])  # noqa: E731
        problem = bp.Problem(upper, lambda x, y, data: jnp.mean(data[0]) * y @ y, jnp.arange(1.0, M + 1), (numbers, numbers))
    else:
        problem = bp.SeparableProblem(
            lambda x, y, data: jnp.mean(data) * y[0],
            lambda x, y, data: jnp.mean(data[1]) * y @ y,
            S,
            jnp.arange(1.0, M + 1),
            (numbers, per_task, per_task.T),
            None,
            (None, 0, 1),
        )
    return Draws(bind(problem, x, y), Batches(4, 5, 6, replace), KEY)


@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize("replace", [False, True])
def test_batches_have_their_sizes_and_owners(separable, replace):
    draws = marked(separable, replace)
    point = draws.point().problem
    cross = np.asarray(point.lower_data[0])
    assert cross.shape == (6,)
    upper = np.asarray(point.upper_data)
    assert upper.shape == (S, 5)  # one batch per objective
    assert len({tuple(row) for row in upper}) == S
    hessian = [np.asarray(draws.hessian(j, 6).problem.lower_data[0]) for j in range(3)]
    assert len({tuple(batch) for batch in (*hessian, cross)}) == 4  # every factor has its own
    if not replace:
        assert all(len(set(batch)) == len(batch) for batch in (*hessian, cross, *upper))
    if separable:  # shared by the tasks: the same samples, each task's own rows of them
        np.testing.assert_array_equal(point.lower_data[1], 100 * np.arange(S)[:, None] + cross)
        np.testing.assert_array_equal(point.lower_data[2], np.asarray(point.lower_data[1]).T)


def test_draws_depend_on_key_step_role_and_index_only():
    draws = marked(False)
    for other in (marked(False), Draws(draws.oracles, Batches(4, 5, 6), KEY)):
        np.testing.assert_array_equal(draws.point().problem.upper_data, other.point().problem.upper_data)
    moved = Draws(draws.oracles, draws.batches, jax.random.key(8))
    assert (np.asarray(moved.point().problem.upper_data) != np.asarray(draws.point().problem.upper_data)).any()
    bigger = Draws(draws.oracles, Batches(9, 5, 7), KEY)  # other roles' sizes do not matter
    np.testing.assert_array_equal(draws.point().problem.upper_data, bigger.point().problem.upper_data)


@pytest.mark.parametrize("replace", [False, True])
def test_every_sample_is_drawn_equally_often(replace):
    draws = marked(False, replace)
    draw = lambda key: Draws(draws.oracles, draws.batches, key).point().problem.lower_data[0]  # noqa: E731
    batches = jax.jit(jax.vmap(draw))(jax.random.split(KEY, 4000))
    counts = np.bincount(np.asarray(batches).ravel(), minlength=N)
    expected = 4000 * 6 / N
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


@pytest.mark.parametrize(
    ("batch", "terms", "step", "mu"), [(4, 3, 0.5, 0.2), (1, 20, 0.3, 0.5), (7, 1, 1.0, 1.0), (2, 5, 0.1, 1e-3)]
)
def test_shrinking_sizes_are_the_formulas(batch, terms, step, mu):
    """|B_{Q+1-j}| = ceil(B Q (1 - eta mu)^(j-1)): B_Q, used first, is the largest."""
    sizes = bp.StochasticNeumann(terms, step, batch, mu).sizes
    exact = [batch * terms * (1 - step * mu) ** (j - 1) for j in range(1, terms + 1)]
    assert all(size >= value - 1e-6 and size < value + 1 for size, value in zip(sizes, exact, strict=True))
    assert list(sizes) == sorted(sizes, reverse=True)
    assert sizes[0] == batch * terms
    assert bp.StochasticNeumann(terms, step, batch).sizes == (batch,) * terms


def test_pinned_sizes():
    assert _shrinking(5, 3, 0.5, 0.4) == (15, 12, 10)


def test_the_sizes_drawn_are_those_sizes():
    """Read off inside the compiled step: the length of the batch each factor's Hessian sees."""
    seen = []

    def lower(x, y, data):
        seen.append(data.shape[0])
        return jnp.mean(data) * y @ y + x @ y

    problem = bp.Problem(lambda x, y: jnp.stack([y @ y, y[0]]), lower, lower_data=jnp.linspace(0.2, 0.4, 30))
    method = bp.StochasticNeumann(4, 0.5, batch=3, convexity=0.5)
    assert method.sizes == (12, 9, 7, 6)
    bp.hypergradient(problem, jnp.ones(2), jnp.ones(2), method, batches=Batches(cross=11), key=KEY)
    assert set(seen) == {30, 12, 9, 7, 6, 11}  # 30: the shape check before


@functools.cache
def noisy(seed=0, samples=25):
    rng = np.random.default_rng(seed)
    z, w = jnp.array(rng.normal(size=(samples, 3))), jnp.array(rng.normal(size=(samples, 3)))
    upper = lambda x, y, data: jnp.stack([jnp.mean((data - y) ** 2), jnp.mean((data + y) ** 2)])  # noqa: E731
    lower = lambda x, y, data: 0.5 * y @ y - y @ x + jnp.mean(data @ y)  # noqa: E731
    return bp.Problem(upper, lower, w, z), jnp.ones(3), jnp.zeros(3)


def algorithm(**changes):
    settings = {"batches": Batches(4, 5, 6), "hypergradient": bp.StochasticNeumann(3, 0.5, 4, 0.5)}
    return bp.wc_mhgd([0.4, 0.6], 0.1, 0.2, 7, **{**settings, **changes})


def test_a_key_is_a_run_bitwise_and_whatever_the_chunks(monkeypatch):
    problem, x, y = noisy()
    first, again = (bp.solve(problem, algorithm(), x, y, 25, key=KEY) for _ in range(2))
    monkeypatch.setattr("bipareto.solver.loop.chunk_size", lambda oracles, state: 3)
    chunked = bp.solve(problem, algorithm(), x, y, 25, key=KEY, evaluate_every=4)
    for other in (again, chunked):
        np.testing.assert_array_equal(first.x, other.x)
        np.testing.assert_array_equal(first.history.values, other.history.values)
        np.testing.assert_array_equal(first.values, other.values)
    assert np.abs(np.asarray(bp.solve(problem, algorithm(), x, y, 25, key=jax.random.key(1)).x) - first.x).max() > 1e-3


def test_counts_are_in_samples():
    """Gc(f) = 2 K D_f S, Gc(g) = K D T, JV = K D_g S, HV = K sum |B_j| S."""
    problem, x, y = noisy()
    k, d, s = 9, 7, 2
    method = bp.StochasticNeumann(3, 0.5, 4, 0.5)
    counts = bp.solve(problem, algorithm(), x, y, k, key=KEY).oracles
    assert counts == (2 * k * 5 * s, k * d * 4, k * 6 * s, k * sum(method.sizes) * s)
    part = bp.solve(problem, algorithm(batches=Batches(lower=4)), x, y, k, key=KEY).oracles  # the rest on all 25 samples
    assert part == (2 * k * 25 * s, k * d * 4, k * 25 * s, k * sum(method.sizes) * s)
    cg = bp.solve(problem, algorithm(hypergradient=bp.CG(2)), x, y, k, key=KEY).oracles
    assert cg == (2 * k * 5 * s, k * d * 4, k * 6 * s, k * 3 * 6 * s)


def test_separable_estimates_equal_a_hand_made_one():
    """Batches rebuilt from the same draws, everything else with dense matrices, for one step on two tasks."""
    rng = np.random.default_rng(1)
    z, labels, w = (
        jnp.array(rng.normal(size=(20, 3))),
        jnp.array(rng.normal(size=(2, 20))),
        jnp.array(rng.normal(size=(15, 3))),
    )
    lower = lambda x, y, d: jnp.mean(jax.nn.sigmoid(x[d[2]]) * (d[0] @ y - d[1]) ** 2) + 0.1 * y @ y  # noqa: E731
    upper = lambda x, y, d: jnp.mean((d @ y - 1) ** 2)  # noqa: E731
    problem = bp.SeparableProblem(upper, lower, 2, w, (z, labels, jnp.arange(20)), None, (None, 0, None))
    x, y, eta = jnp.array(rng.normal(size=20)), jnp.array(rng.normal(size=(2, 3))), 0.3
    method, batches = bp.StochasticNeumann(2, eta, batch=5), Batches(upper=4, cross=6)
    values, found = bp.hypergradient(problem, x, y, method, batches=batches, key=KEY)
    draws = Draws(bind(problem, x, y), batches, KEY)
    point = draws.point().problem
    for s in range(2):
        own = lambda data, s=s: (data[0], data[1][s], data[2])  # noqa: E731
        v = term = np.asarray(jax.grad(upper, 1)(x, y[s], point.upper_data[s]))
        for j in range(2):
            batch = own(draws.hessian(j, 5).problem.lower_data)
            term = term - eta * np.asarray(jax.hessian(lower, 1)(x, y[s], batch)) @ term / 2
            v = v + term
        cross = np.asarray(jax.jacobian(jax.grad(lower, 1), 0)(x, y[s], own(point.lower_data))).T / 2
        np.testing.assert_allclose(found[s], -cross @ (eta * v), atol=1e-12)
        np.testing.assert_allclose(values[s], upper(x, y[s], point.upper_data[s]), atol=1e-13)


def test_preparation_sees_the_batches():
    """Features of the batch, not of all data; with own upper batches also for the joint problem."""
    problem, x, y = noisy()
    prepared = bp.Problem(
        lambda h, y, data: problem.upper(h[0], y, data) + jnp.mean(h[1] - data),
        lambda h, y, data: problem.lower(h[0], y, data) + jnp.mean(h[1] - data),
        problem.upper_data,
        problem.lower_data,
        prepare=lambda x, data: (x, data * 1.0),
    )
    a, b = (bp.solve(p, algorithm(), x, y, 8, key=KEY) for p in (problem, prepared))
    np.testing.assert_allclose(a.x, b.x, atol=1e-12)
    np.testing.assert_allclose(a.history.values, b.history.values, atol=1e-12)


def test_averaged_values_steer_the_weights():
    problem, x, y = noisy()
    share = 0.8
    run = bp.solve(problem, algorithm(average=share), x, y, 6, key=KEY)
    total = np.zeros(2)
    r = np.array([0.4, 0.6])
    for k in range(6):
        total = share * total + (1 - share) * run.history.values[k]
        heights = total / (1 - share ** (k + 1))
        gram = jnp.array(r[:, None] * run.history.gram[k] * r)
        np.testing.assert_allclose(
            run.history.weights[k], r * bp.simplex_qp(gram, jnp.array(2 / 0.1 * r * heights)), atol=1e-9
        )
    plain = bp.solve(problem, algorithm(), x, y, 6, key=KEY)
    assert np.abs(plain.history.weights - run.history.weights)[1:].max() > 1e-3


def test_full_data_values_are_taken_at_their_cadence():
    problem, x, y = noisy()
    run = bp.solve(problem, algorithm(), x, y, 10, key=KEY, evaluate_every=3)
    assert run.evaluations.steps.tolist() == [0, 3, 6, 9]
    np.testing.assert_allclose(run.evaluations.values[0], problem.upper(x, y, problem.upper_data), atol=1e-13)
    part = bp.solve(problem, algorithm(), x, y, 6, key=KEY)  # the estimates of step 6 are of the same point, on a batch
    np.testing.assert_array_equal(part.history.values, run.history.values[:6])
    assert np.abs(run.evaluations.values[2] - run.history.values[6]).max() < 2
    assert len(bp.solve(problem, algorithm(), x, y, 3, key=KEY).evaluations.steps) == 0


@pytest.mark.parametrize("recipe", ["mgda", "stocbio", "linear"])
def test_the_other_recipes_run_on_batches(recipe):
    problem, x, y = noisy()
    settings = {"step_size": 0.05, "lower_step_size": 0.2, "lower_steps": 10, "batches": Batches(8, 8, 8)}
    made = {
        "mgda": lambda: bp.mgda(hypergradient=bp.StochasticNeumann(6, 0.5, 8), **settings),
        "stocbio": lambda: bp.stocbio([0.5, 0.5], hypergradient=bp.StochasticNeumann(6, 0.5, 8), **settings),
        "linear": lambda: bp.linear([0.5, 0.5], hypergradient=bp.CG(3), **settings),
    }[recipe]()
    run = bp.solve(problem, made, 2 * x, y, 150, key=KEY)
    assert run.status is bp.Status.COMPLETED
    exact = lambda x: problem.upper(x, x - jnp.mean(problem.lower_data, axis=0), problem.upper_data).sum()  # noqa: E731
    assert exact(run.x) < 0.5 * exact(2 * x)
    assert isinstance(bp.stocbio().hypergradient, bp.StochasticNeumann)

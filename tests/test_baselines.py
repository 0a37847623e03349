"""The other methods of the paper's table: their recursions against plain numpy, where they end, what they count."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize

import bipareto as bp
from bipareto.algorithms.forum import multipliers
from bipareto.oracles import bind
from bipareto.sampling import Draws
from cases import as_joint, network, quadratic, separable_quadratic
from test_stochastic import noisy_quadratic
from test_weighting import front_points

CASE = quadratic()
W = np.array([0.5, 0.3, 0.2])
D, N = 60, 8


def methods(weights, alpha=0.5):
    """Every method with settings that suit the quadratic cases; alpha = 1/L."""
    return {
        "aid": bp.aid(weights, 0.05, alpha, D, bp.CG(N)),
        "itd": bp.itd(weights, 0.05, alpha, D),
        "amigo": bp.amigo(weights, 0.05, alpha, D, bp.AdjointDescent(N, alpha)),
        "soba": bp.soba(weights, 0.01, alpha / 2),
        "stable": bp.stable(weights, 0.05, alpha, tau=0.3),
        "moml": bp.moml(0.05, alpha, D),
        "gmoba": bp.gmoba(0.05, alpha, alpha),
        "moco": bp.moco(0.05, alpha, D, bp.CG(N), tracking=bp.Decaying(1.0, 0.5), weights_step=bp.Decaying(0.05, 0.5)),
        "forum": bp.forum(bp.Decaying(1.0, 0.7), alpha, D),
    }


NAMES = list(methods(W))
SCALARISED = ("aid", "itd", "amigo", "soba", "stable")


def exact_gap(case, x):
    jacobian = case.jacobian(x)
    return float(bp.stationarity_gap(jnp.array(jacobian @ jacobian.T)))


@functools.cache
def ended(name, steps=4000):
    return bp.solve(CASE.problem, methods(W)[name], CASE.x, CASE.y, steps)


@pytest.mark.parametrize("name", NAMES)
def test_several_objectives_end_pareto_stationary(name):
    """Judged by the exact hypergradients of the closed-form lower solution, not by the method's own."""
    solution = ended(name)
    assert solution.status is bp.Status.COMPLETED
    assert exact_gap(CASE, solution.x) <= (1e-4 if name == "forum" else 1e-10)
    np.testing.assert_allclose(solution.values, case_values(solution), atol=1e-3 if name == "forum" else 1e-7)
    assert solution.history.gap[-1] <= (5e-2 if name == "forum" else 1e-10)  # of 385; FORUM's is its KKT residual
    if name in SCALARISED:
        np.testing.assert_allclose(solution.x, front_points(CASE, [W])[0], atol=1e-6)


def case_values(solution):
    return np.asarray(CASE.values(solution.x))


@pytest.mark.parametrize("name", [*SCALARISED, "stocbio"])
def test_one_objective_ends_at_the_closed_form_optimum(name):
    case = quadratic(objectives=1)
    series = bp.stocbio([1.0], 0.05, 0.5, D, bp.StochasticNeumann(100, 0.5))
    solution = bp.solve(case.problem, (methods([1.0]) | {"stocbio": series})[name], case.x, case.y, 3000)
    best = front_points(case, [np.ones(1)])[0]
    assert np.linalg.norm(np.asarray(solution.x) - best) <= 1e-7 * np.linalg.norm(np.asarray(case.x) - best)


K = 7
COUNTS = {
    "aid": (6, D, 1, N + 1),
    "itd": (6, D, D, D),
    "amigo": (6, D, 1, N),
    "soba": (6, 1, 3, 3),
    "moml": (6, D, 3 * D, 3 * D),
    "gmoba": (6, 1, 3, 3),
    "moco": (6, D, 3, 3 * (N + 1)),
    "forum": (6, D + 3, 0, 0),
}


@pytest.mark.parametrize("name", NAMES)
def test_oracle_counts(name):
    found = ended(name, K).oracles
    if name == "stable":  # 6 columns of H and of J at the new point, and from the second step on at the old one
        assert found == (6 * K, K, 6 * (2 * K - 1), 6 * (2 * K - 1))
    else:
        assert found == tuple(K * count for count in COUNTS[name])


@pytest.mark.parametrize("name", NAMES)
def test_exploring_is_solving(name):
    algorithm = methods(W)[name]
    assert not algorithm.takes_preference
    front = bp.explore(CASE.problem, algorithm, None, CASE.x, CASE.y, K)
    np.testing.assert_allclose(front.values[0, 0], ended(name, K).values, rtol=0, atol=1e-10)
    np.testing.assert_allclose(front.x[0, 0], ended(name, K).x, rtol=0, atol=1e-10)
    one, other = front.solutions[0][0].history, ended(name, K).history
    np.testing.assert_allclose(one.gram, other.gram, rtol=1e-9, atol=1e-10)
    assert front.solutions[0][0].oracles == ended(name, K).oracles


class Interrupted(Exception):
    pass


def stop(done, _):
    if done >= 5:
        raise Interrupted


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_run_goes_on_to_the_same_bits(name, tmp_path):
    run = functools.partial(bp.solve, CASE.problem, methods(W)[name], CASE.x, CASE.y, 40, directory=tmp_path / "run")
    with pytest.raises(Interrupted):
        run(callback=stop, save_every=0.0)
    resumed, whole = run(resume=True), ended(name, 40)
    np.testing.assert_array_equal(resumed.x, whole.x)
    np.testing.assert_array_equal(resumed.y, whole.y)
    assert jax.tree.all(jax.tree.map(lambda a, b: np.array_equal(a, b, equal_nan=True), resumed.history, whole.history))


@pytest.mark.parametrize("name", ["soba", "stable", "forum"])
def test_separable_run_equals_the_joint_run(name):
    case = separable_quadratic(objectives=2)
    algorithm = methods(np.ones(2) / 2, 1.0)[name]
    a = bp.solve(case.problem, algorithm, case.x, case.y, 6)
    b = bp.solve(as_joint(case.problem), algorithm, case.x, case.y, 6)
    np.testing.assert_allclose(a.x, b.x, rtol=0, atol=1e-11)
    np.testing.assert_allclose(a.history.gap, b.history.gap, rtol=0, atol=1e-10)
    assert a.oracles.grad_lower == b.oracles.grad_lower
    if name == "stable":
        assert (a.oracles.hvp, b.oracles.hvp) == (3 * 11, 6 * 11)
    elif name != "forum":
        assert (2 * a.oracles.hvp, 2 * a.oracles.jvp) == (b.oracles.hvp, b.oracles.jvp)


@pytest.mark.parametrize("name", ["stable", "forum"])
def test_a_prepared_problem_is_the_same_problem(name):
    """Derivatives in what `prepare` made, pulled back to x, in both kinds of problem; x and y are trees."""
    plain, prepared = network(objectives=2), network(objectives=2, prepared=True)
    algorithm = methods(np.ones(2) / 2, 0.3)[name]
    a, b = (bp.solve(case.problem, algorithm, case.x, case.y, 4) for case in (plain, prepared))
    for one, other in zip(jax.tree.leaves((a.x, a.y)), jax.tree.leaves((b.x, b.y)), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11)
    halved = [lambda h, y, loss=loss: loss(h / 2, y) for loss in (CASE.problem.upper, CASE.problem.lower)]
    twice = bp.solve(bp.Problem(*halved, prepare=lambda x: 2 * x), methods(W)[name], CASE.x, CASE.y, K)
    np.testing.assert_allclose(twice.x, ended(name, K).x, rtol=0, atol=1e-10)


@eqx.filter_jit
def one_step(algorithm, oracles, state, key):
    return algorithm.step(oracles, state, key)


def walk(algorithm, problem, x, y, steps, key=None):
    """The states and records of a run, step by step."""
    oracles = bind(problem, x, y)
    states, records = [algorithm.init(oracles, x, y, key)], []
    for _ in range(steps):
        state, record, verdict = one_step(algorithm, oracles, states[-1], key)
        assert int(verdict.code) == 0
        states.append(state)
        records.append(record)
    return states, records


def dense(case):
    """H, J (p x q) and the derivatives of both levels of a quadratic case."""
    lower, upper = case.problem.lower, case.problem.upper
    hessian = np.asarray(jax.hessian(lower, 1)(case.x, case.y))
    cross = np.asarray(jax.jacobian(jax.grad(lower, 1), 0)(case.x, case.y)).T
    slopes = jax.jit(lambda x, y: (jax.grad(lower, (0, 1))(x, y), jax.jacobian(upper, (0, 1))(x, y)))
    return hessian, cross, lambda x, y: jax.tree.map(np.asarray, slopes(x, y))


def test_soba_moves_all_three_from_the_same_point():
    h, j, slopes = dense(CASE)
    x, y, v = np.asarray(CASE.x), np.asarray(CASE.y), np.zeros((3, 6))
    states, records = walk(bp.soba(W, bp.Decaying(0.01, 0.5), 0.2, bp.Decaying(0.1, 0.25)), CASE.problem, CASE.x, CASE.y, 5)
    for t in range(5):
        (_, gy), (fx, fy) = slopes(x, y)
        jacobian = fx - v @ j.T
        np.testing.assert_allclose(records[t].gram, jacobian @ jacobian.T, rtol=1e-11)
        x, y, v = (
            x - 0.01 / (t + 1) ** 0.5 * W @ jacobian,
            y - 0.2 * gy,
            v - 0.1 / (t + 1) ** 0.25 * (v @ h - fy),
        )
        for found, expected in ((states[t + 1].x, x), (states[t + 1].y, y), (states[t + 1].dual, v)):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["soba", "amigo", "gmoba"])
def test_adjoints_converge_to_the_solution_of_the_linear_system(name):
    h, _, slopes = dense(CASE)
    algorithm = {
        "soba": bp.soba(W, 0.02, 0.25),
        "amigo": bp.amigo(W, 0.05, 0.5, 10, bp.AdjointDescent(2, 0.4)),
        "gmoba": bp.gmoba(0.05, 0.5, 0.4),
    }[name]
    final = walk(algorithm, CASE.problem, CASE.x, CASE.y, 2500)[0][-1]
    b = slopes(final.x, final.y)[1][1]
    b = W[None] @ b if name == "amigo" else b
    np.testing.assert_allclose(final.dual, np.linalg.solve(h, b.T).T, atol=1e-7)


def test_amigo_is_warm_started_descent_on_the_adjoint():
    case = quadratic(objectives=1)
    h, j, slopes = dense(case)
    x, y, v = np.asarray(case.x), np.asarray(case.y), np.zeros(6)
    states, _ = walk(bp.amigo([2.0], 0.02, 0.3, 4, bp.AdjointDescent(3, 0.2)), case.problem, case.x, case.y, 4)
    for t in range(4):
        for _ in range(4):
            y = y - 0.3 * slopes(x, y)[0][1]
        fx, fy = (2 * gradient[0] for gradient in slopes(x, y)[1])
        for _ in range(3):
            v = v - 0.2 * (h @ v - fy)
        x = x - 0.02 * (fx - j @ v)
        np.testing.assert_allclose(states[t + 1].x, x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(states[t + 1].dual[0], v, rtol=0, atol=1e-12)


def shortest(a, b):
    """The minimum-norm point of the segment between two vectors."""
    share = np.clip((b - a) @ b / ((a - b) @ (a - b)), 0, 1)
    return share * a + (1 - share) * b


def test_gmoba_is_one_step_of_each():
    case = quadratic(objectives=2)
    h, j, slopes = dense(case)
    x, y, v = np.asarray(case.x), np.asarray(case.y), np.zeros((2, 6))
    states, _ = walk(bp.gmoba(0.02, 0.3, 0.2), case.problem, case.x, case.y, 5)
    for t in range(5):
        y = y - 0.3 * slopes(x, y)[0][1]
        fx, fy = slopes(x, y)[1]
        v = v - 0.2 * (v @ h - fy)
        x = x - 0.02 * shortest(*(fx - v @ j.T))
        np.testing.assert_allclose(states[t + 1].x, x, rtol=0, atol=1e-11)


def test_moml_is_iterative_differentiation_with_the_shortest_combination():
    case = quadratic(objectives=2)

    def unrolled(x, y):
        for _ in range(4):
            y = y - 0.3 * jax.grad(case.problem.lower, 1)(x, y)
        return case.problem.upper(x, y), y

    derivative = jax.jit(jax.jacobian(unrolled, has_aux=True))
    x, y = case.x, case.y
    for _ in range(6):
        rows, y = derivative(x, y)
        x = x - 0.05 * shortest(*np.asarray(rows))
    for checkpoint in (False, True):
        found = bp.solve(case.problem, bp.moml(0.05, 0.3, 4, bp.Unrolled(checkpoint)), case.x, case.y, 6)
        np.testing.assert_allclose(found.x, x, rtol=0, atol=1e-11)


def test_recipes_are_their_parts():
    settings = (0.2, 0.3, 5)
    batches = bp.Batches(2, 3, 4)
    for recipe, parts in (
        (bp.aid(W, *settings, bp.CG(3), batches), bp.linear(W, *settings, bp.CG(3), batches)),
        (bp.itd(W, *settings), bp.linear(W, *settings, bp.Unrolled())),
        (bp.amigo(W, *settings), bp.linear(W, *settings, bp.AdjointDescent(10, 0.1))),
        (bp.gmoba(0.2, 0.3, 0.4, batches), bp.mgda(0.2, 0.3, 1, bp.AdjointDescent(1, 0.4, 4), batches)),
    ):
        assert eqx.tree_equal(recipe, parts)


def projected(z):
    """Euclidean projection onto the simplex by sorting."""
    falling = np.sort(z)[::-1]
    levels = (np.cumsum(falling) - 1) / np.arange(1, len(z) + 1)
    return np.maximum(z - levels[np.flatnonzero(falling > levels)[-1]], 0)


def test_moco_tracks_and_projects():
    tracked, lam, x = np.zeros((3, 4)), np.full(3, 1 / 3), CASE.x
    algorithm = bp.moco(
        0.03, 0.5, 150, bp.CG(20), tracking=bp.Decaying(0.7, 0.5), weights_step=bp.Decaying(0.02, 0.25), rho=0.5
    )
    states, records = walk(algorithm, CASE.problem, CASE.x, CASE.y, 8)
    on_the_edge = 0
    for k in range(8):
        h = CASE.jacobian(x)
        tracked = tracked - 0.7 / (k + 1) ** 0.5 * (tracked - h)
        lam = projected(lam - 0.02 / (k + 1) ** 0.25 * (tracked @ tracked.T + 0.5 * np.eye(3)) @ lam)
        x = x - 0.03 * lam @ tracked
        on_the_edge += (lam == 0).any()
        np.testing.assert_allclose(states[k + 1].memory[0], tracked, rtol=0, atol=1e-8)
        np.testing.assert_allclose(records[k].weights, lam, rtol=0, atol=1e-8)
        np.testing.assert_allclose(states[k + 1].x, x, rtol=0, atol=1e-8)
        np.testing.assert_allclose(records[k].gram, h @ h.T, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(records[k].direction, np.sum((lam @ tracked) ** 2), rtol=1e-6)
    assert on_the_edge  # the projection did something softmax could not


def sampled_ridge():
    """H and J depend on x, y and the sample: g = mean (z'y - t)^2/2 + sum exp(x) y^2/2, f_s = |y - a_s|^2/2 + 0.1|x|^2."""
    rng = np.random.default_rng(0)
    z, t, a = (jnp.array(rng.normal(size=shape)) for shape in ((12, 3), 12, (2, 3)))

    def lower(x, y, data):
        return 0.5 * jnp.mean((data[0] @ y - data[1]) ** 2) + 0.5 * jnp.sum(jnp.exp(x) * y**2)

    problem = bp.Problem(lambda x, y: 0.5 * jnp.sum((y - a) ** 2, axis=1) + 0.1 * jnp.sum(x**2), lower, None, (z, t))
    return problem, jnp.array(0.3 * rng.normal(size=3)), jnp.array(rng.normal(size=3)), np.asarray(a)


def test_stable_is_its_dense_recursion():
    """Step by step with the same samples, the old point beside the new one, and both projections at work."""
    problem, x0, y0, a = sampled_ridge()
    tau, bound, mu, w, key = 0.4, 0.9, 1.3, np.array([0.6, 0.7]), jax.random.key(3)
    algorithm = bp.stable(w, 0.1, 0.2, tau, bound, mu, bp.Batches(cross=2))
    states, records = walk(algorithm, problem, x0, y0, 8, key)
    oracles = bind(problem, x0, y0)
    x, y, clipped = np.asarray(x0), np.asarray(y0), np.zeros(2)
    old = before = None
    for k in range(8):
        draws = Draws(oracles, algorithm.batches, jax.random.fold_in(key, k))
        z, t = (np.asarray(leaf) for leaf in draws.point().problem.lower_data)
        at = lambda x, y: (z.T @ z / 2 + np.diag(np.exp(x)), np.diag(np.exp(x) * y))  # noqa: B023, E731
        new = at(x, y)
        if old is not None and before is not None:
            new = [(1 - tau) * (c - o) + n for c, o, n in zip(before, at(*old), new, strict=True)]
        size, basis = np.linalg.eigh(new[0])
        left, single, right = np.linalg.svd(new[1])
        clipped += [(size < mu).any(), (single > bound).any()]
        before = basis @ np.diag(np.maximum(size, mu)) @ basis.T, left @ np.diag(np.minimum(single, bound)) @ right
        v = np.linalg.solve(before[0], (y - a).T).T
        jacobian = 0.2 * x - v @ before[1].T
        old, moved = (x, y), x - 0.1 * w @ jacobian
        y = y - 0.2 * (z.T @ (z @ y - t) / 2 + np.exp(x) * y) - np.linalg.solve(before[0], before[1].T @ (moved - x))
        x = moved
        np.testing.assert_allclose(states[k + 1].memory[0][0], before[0], rtol=0, atol=1e-11)
        np.testing.assert_allclose(states[k + 1].memory[1][0], before[1].T, rtol=0, atol=1e-11)
        np.testing.assert_allclose(records[k].gram, jacobian @ jacobian.T, rtol=0, atol=1e-10)
        np.testing.assert_allclose(states[k + 1].x, x, rtol=0, atol=1e-11)
        np.testing.assert_allclose(states[k + 1].y, y, rtol=0, atol=1e-11)
    assert (clipped > 0).all()
    assert (clipped < 8).all()
    assert records[0].counts == (4, 2, 6, 6)  # without data one sample of the upper level
    assert records[1].counts == (4, 2, 12, 12)


def direction_program(rows, barrier, rho):
    """min_d max_s <g_s, d> + |d|^2/2 subject to <g_q, d> <= -rho |g_q|^2 by sequential quadratic programming."""
    n = rows.shape[1]
    found = scipy.optimize.minimize(
        lambda z: z[n] + 0.5 * z[:n] @ z[:n],
        np.append(-rho * barrier, 10.0),
        jac=lambda z: np.append(z[:n], 1.0),
        constraints=[
            {"type": "ineq", "fun": lambda z: z[n] - rows @ z[:n], "jac": lambda z: np.c_[-rows, np.ones(len(rows))]},
            {
                "type": "ineq",
                "fun": lambda z: -rho * barrier @ barrier - barrier @ z[:n],
                "jac": lambda z: np.append(-barrier, 0.0)[None],
            },
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x[:n]


def test_forum_solves_its_quadratic_program():
    """Against an independent solver, and by its own KKT conditions; with and without the barrier active."""
    active = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows, barrier = rng.normal(size=(4, 6)), rng.normal(size=6) * 10.0 ** rng.integers(-1, 2)
        rho = float(rng.choice([0.0, 0.1, 2.0]))
        rows = rows + (0.5 * barrier if seed % 3 == 0 else 0)
        lam, nu = (np.asarray(part) for part in multipliers(jnp.array(rows), jnp.array(barrier), jnp.asarray(rho)))
        d = -(lam @ rows + nu * barrier)
        np.testing.assert_allclose(d, direction_program(rows, barrier, rho), atol=2e-5)
        slack = -rho * barrier @ barrier - barrier @ d
        assert slack >= -1e-9 * (barrier @ barrier)
        assert nu >= 0
        assert abs(nu * slack) <= 1e-8 * (1 + barrier @ barrier)
        heights = rows @ d
        assert (heights[lam > 1e-9] >= heights.max() - 1e-7).all()
        active += nu > 0
    assert 5 <= active <= 25


def test_forum_without_a_barrier_is_min_norm():
    rows = jnp.array(np.random.default_rng(0).normal(size=(3, 5)))
    lam, nu = multipliers(rows, jnp.zeros(5), jnp.asarray(0.5))
    np.testing.assert_allclose(lam, bp.simplex_qp(rows @ rows.T), atol=1e-12)
    assert nu == 0


def test_forum_takes_the_direction_and_closes_the_lower_gap():
    """One step from numpy gradients after another, with a mean of lam; g(x, y) - min g falls."""
    slopes = dense(CASE)[2]
    states, records = walk(bp.forum(0.002, 0.5, 20, 2.0, bp.Decaying(0.5, 1.0)), CASE.problem, CASE.x, CASE.y, 300)
    mean = np.full(3, 1 / 3)
    for k in range(6):
        x, y = np.asarray(states[k].x), np.asarray(states[k].y)
        end = y
        for _ in range(20):
            end = end - 0.5 * slopes(x, end)[0][1]
        (gx, gy), (fx, fy) = slopes(x, y)
        rows, barrier = np.c_[fx, fy], np.append(gx - slopes(x, end)[0][0], gy)
        lam = np.asarray(multipliers(jnp.array(rows), jnp.array(barrier), jnp.asarray(2.0))[0])
        mean = mean + 0.5 / (k + 1) * (lam - mean)
        nu = max(0, mean @ (2.0 - rows @ barrier / (barrier @ barrier)))
        moved = np.append(x, y) - 0.002 * (mean @ rows + nu * barrier)
        np.testing.assert_allclose(np.append(states[k + 1].x, states[k + 1].y), moved, rtol=0, atol=1e-11)
        np.testing.assert_allclose(records[k].weights, mean, rtol=0, atol=1e-10)
    lower = jax.jit(lambda x, y: CASE.problem.lower(x, y) - CASE.problem.lower(x, CASE.solution(x)))
    gaps = np.array([lower(state.x, state.y) for state in states])
    assert (np.diff(gaps[:50]) < 0).all()
    assert gaps[-1] < 1e-2 * gaps[0]


def test_batches_are_counted_in_samples_and_seeds_differ():
    problem, x, y, *_ = noisy_quadratic()
    batches, key, w = bp.Batches(upper=3, cross=2), jax.random.key(0), [0.5, 0.5]
    three = bp.Batches(4, 3, 2)
    expected = {  # S = 2, q = 4
        "soba": (bp.soba(w, 0.01, 0.1, batches=batches), (12, 2, 4, 4)),
        "gmoba": (bp.gmoba(0.01, 0.1, 0.1, three), (12, 4, 4, 4)),
        "amigo": (bp.amigo(w, 0.01, 0.1, 5, bp.AdjointDescent(6, 0.1, batch=7), three), (12, 20, 2, 42)),
        "moco": (bp.moco(0.01, 0.1, 5, bp.StochasticNeumann(3, 0.2, 7), three), (12, 20, 4, 42)),
    }
    for name, (algorithm, counts) in expected.items():
        found = bp.solve(problem, algorithm, x, y, 3, key=jax.random.fold_in(key, jnp.int32(1)))
        assert found.oracles == tuple(3 * count for count in counts), name
        if name == "soba":
            front = bp.explore(problem, algorithm, None, x, y, 3, seeds=2, key=key)
            assert np.abs(front.values[0, 0] - front.values[0, 1]).max() > 1e-6
            np.testing.assert_allclose(front.values[0, 1], found.values, rtol=0, atol=1e-10)


def test_optax_drives_every_part_of_a_single_loop():
    steps = optax.adam(optax.exponential_decay(0.05, 300, 0.5)), optax.sgd(0.3, momentum=0.3), optax.sgd(0.3)
    found = bp.solve(CASE.problem, bp.soba(W, *steps), CASE.x, CASE.y, 3000)
    assert exact_gap(CASE, found.x) < 1e-4 * exact_gap(CASE, CASE.x)


@pytest.mark.parametrize("name", ["soba", "stable", "forum"])
def test_a_failing_objective_is_named(name):
    upper = lambda x, y: CASE.problem.upper(x, y).at[1].set(jnp.nan)  # noqa: E731
    found = bp.solve(bp.Problem(upper, CASE.problem.lower), methods(W)[name], CASE.x, CASE.y, 3)
    assert found.status is bp.Status.NON_FINITE_VALUE
    assert "objective 1" in found.message
    np.testing.assert_array_equal(found.x, CASE.x)


def test_a_diverging_adjoint_fails():
    """A schedule is not checked before: here v overflows while x, with its tiny steps, is still small."""
    found = bp.solve(CASE.problem, bp.soba(W, 1e-300, 0.1, bp.Decaying(1e3, 0.0)), CASE.x, CASE.y, 300)
    assert found.status is bp.Status.NON_FINITE_HYPERGRADIENT or found.status is bp.Status.ADJOINT_DIVERGED
    assert np.isfinite(found.x).all()


def test_evolution_finds_the_front_of_two_variables():
    """y* = x, f = |y|^2 and |y - 1|^2: on the front x is between 0 and 1, and sqrt f_1 + sqrt f_2 = sqrt 2."""
    pytest.importorskip("pymoo")
    problem = bp.Problem(
        lambda x, y: jnp.stack([jnp.sum(y**2), jnp.sum((y - 1) ** 2)]), lambda x, y: 0.5 * jnp.sum((y - x["a"]) ** 2)
    )
    settings = {"lower_step_size": 0.5, "lower_steps": 40, "population": 24, "generations": 60}
    x0 = {"a": jnp.array([0.3, -0.5])}
    run = lambda **more: bp.evolutionary(problem, x0, jnp.zeros(2), (-2.0, {"a": jnp.ones(2) * 2}), **settings, **more)  # noqa: E731
    front = run(names=("near", "far"))
    points = front.points
    assert front.values.shape == (1, 24, 2)
    assert front.nondominated().all()
    assert np.median(np.sqrt(points).sum(axis=1) - np.sqrt(2)) < 0.03
    assert (np.sqrt(points).sum(axis=1) - np.sqrt(2)).min() > -1e-9
    assert (points.min(axis=0) < 0.01).all()  # from one end to the other
    x = np.asarray(front.x["a"])[0]
    np.testing.assert_allclose(points, np.c_[np.sum(x**2, 1), np.sum((x - 1) ** 2, 1)], atol=1e-9)
    total = np.sum([run.oracles for run in front.solutions[0]], axis=0)
    assert tuple(total) == (0, 24 * 60 * 40, 0, 0)
    np.testing.assert_array_equal(run().points, points)
    assert np.abs(run(seed=1).points[0] - points[0]).max() > 0
    assert front.names == ("near", "far")
    assert np.isnan(front.solutions[0][0].history.gap).all()


def test_evolution_survives_values_that_are_not_finite():
    pytest.importorskip("pymoo")
    upper = lambda x, y: jnp.stack([jnp.log(y[0]), -y[0] + y[1] ** 2])  # noqa: E731
    problem = bp.Problem(upper, lambda x, y: 0.5 * jnp.sum((y - x) ** 2))
    front = bp.evolutionary(problem, -jnp.ones(2), jnp.zeros(2), (-1, 1), lower_step_size=1.0, generations=5)
    assert np.isfinite(front.points).all()

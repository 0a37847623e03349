"""The loop: rates, counts, stopping, reductions for S = 1, reproducibility, and what a run returns."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bipareto as bp
from bipareto import solver
from bipareto.oracles import bind
from cases import CASES, NAMES, as_joint, logistic, quadratic, ridge, separable_quadratic

R3 = np.array([0.5, 0.3, 0.2])


def run(case, algorithm, steps, **options):
    return bp.solve(case.problem, algorithm, case.x, case.y, steps=steps, **options)


def decay(case, algorithm, steps, first):
    """Slope of the running mean of ||d||^2 against K, both in logarithms, from step `first` on."""
    direction = run(case, algorithm, steps).history.direction
    k = np.arange(1, len(direction) + 1)
    mean = np.cumsum(direction) / k
    return np.polyfit(np.log(k[k >= first]), np.log(mean[k >= first]), 1)[0]


@pytest.mark.parametrize("u", ["certified", "prox"])
@pytest.mark.parametrize("hypergradient", [bp.CG(20), bp.Unrolled()], ids=["CG", "NS"])
def test_squared_direction_decays_like_one_over_k(hypergradient, u):
    """Theorem 1: the running mean of ||d||^2 falls at least like K^-0.9 on a smooth problem, for CG and NS."""
    case = quadratic()
    assert decay(case, bp.wc_mhgd(R3, 0.05, 0.5 / case.smoothness, 60, hypergradient, u=u), 1500, 30) <= -0.9


def test_squared_direction_decays_late_on_a_harder_problem():
    """Ridge regression is still in its transient at K = 30 (slope -0.88 over 30 ... 1500 here): the rate shows later."""
    case = ridge()
    assert decay(case, bp.wc_mhgd(R3, 0.2, 1 / case.smoothness, 60, bp.CG(20), u="certified"), 3000, 100) <= -0.9


K, D, N = 7, 5, 3
EXPECTED = {
    # ALGORITHMS, section 6: CG: JV = KS, HV = K(N+1)S; NS: JV = HV = KDS; Gc(f) = 2KS, Gc(g) = KD
    "CG": (bp.CG(N), lambda s: (2 * K * s, K * D, K * s, K * (N + 1) * s)),
    "CG cold": (bp.CG(N, warm_start=False), lambda s: (2 * K * s, K * D, K * s, K * N * s)),
    "Neumann": (bp.Neumann(N, 0.1), lambda s: (2 * K * s, K * D, K * s, K * N * s)),
    "Unrolled": (bp.Unrolled(), lambda s: (2 * K * s, K * D, K * D * s, K * D * s)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_oracle_counts(name):
    hypergradient, expected = EXPECTED[name]
    case = quadratic(objectives=3)
    assert run(case, bp.wc_mhgd(R3, 0.01, 0.1, D, hypergradient), K).oracles == expected(3)
    # One combined system, so one product per step where S were needed; gradients of all objectives all the same.
    grad_upper, grad_lower, jvp, hvp = expected(3)
    assert run(case, bp.linear(R3, 0.01, 0.1, D, hypergradient), K).oracles == (
        grad_upper,
        grad_lower,
        jvp // 3,
        hvp // 3,
    )


@pytest.mark.parametrize("objectives", [1, 2, 10])
def test_separable_problems_need_the_products_of_one_objective(objectives):
    case = separable_quadratic(objectives=objectives)
    solution = run(case, bp.mgda(0.01, 0.1, D, bp.CG(N)), K)
    assert solution.oracles == (2 * K * objectives, K * D, K, K * (N + 1))


def test_cg_counts_the_products_it_made():
    case = quadratic()
    solution = run(case, bp.mgda(0.01, 0.5, 30, bp.CG(steps=100, tolerance=1e-9)), K)
    assert K * 3 * 3 < solution.oracles.hvp < K * 3 * 20


def hand_written_aid(case, alpha, beta, lower_steps, cg_steps, steps):
    """Approximate implicit differentiation for one objective with dense numpy matrices."""
    data = case.problem
    hessian = np.asarray(jax.hessian(data.lower, 1)(case.x, case.y))
    cross = np.asarray(jax.jacobian(jax.grad(data.lower, 1), 0)(case.x, case.y)).T
    grad_y, grad_upper = jax.jit(jax.grad(data.lower, 1)), jax.jit(jax.jacobian(data.upper, (0, 1)))
    x, y, v = case.x, case.y, np.zeros(len(case.y))
    for _ in range(steps):
        for _ in range(lower_steps):
            y = y - alpha * grad_y(x, y)
        fx, fy = (np.asarray(g)[0] for g in grad_upper(x, y))
        r = fy - hessian @ v
        p = r
        for _ in range(cg_steps):
            hp = hessian @ p
            a = r @ r / (p @ hp)
            v, r_next = v + a * p, r - a * hp
            p, r = r_next + (r_next @ r_next) / (r @ r) * p, r_next
        x = x - beta * (fx - cross @ v)
    return np.asarray(x), v


@pytest.mark.parametrize("recipe", ["wc_mhgd", "mgda", "linear"])
def test_one_objective_is_approximate_implicit_differentiation(recipe):
    """With warm-started duals: two CG steps per upper step would be far off from a cold start."""
    case = quadratic(objectives=1)
    settings = (0.1, 0.3, 4, bp.CG(2))
    algorithm = {
        "wc_mhgd": bp.wc_mhgd([1.0], *settings),
        "mgda": bp.mgda(*settings),
        "linear": bp.linear([1.0], *settings),
    }
    expected, _ = hand_written_aid(case, 0.3, 0.1, 4, 2, 12)
    np.testing.assert_allclose(run(case, algorithm[recipe], 12).x, expected, rtol=0, atol=1e-12)
    cold = run(case, bp.mgda(0.1, 0.3, 4, bp.CG(2, warm_start=False)), 12).x
    assert np.abs(np.asarray(cold) - expected).max() > 1e-4


def test_one_objective_is_iterative_differentiation():
    case = quadratic(objectives=1)

    def end(x, y):
        for _ in range(4):
            y = y - 0.3 * jax.grad(case.problem.lower, 1)(x, y)
        return case.problem.upper(x, y)[0], y

    x, y = case.x, case.y
    for _ in range(12):
        slope, y = jax.jit(jax.grad(end, has_aux=True))(x, y)
        x = x - 0.1 * slope
    solution = run(case, bp.wc_mhgd([1.0], 0.1, 0.3, 4, bp.Unrolled()), 12)
    np.testing.assert_allclose(solution.x, x, rtol=0, atol=1e-12)


def test_warm_started_duals_track_the_solution():
    """With a few CG steps per upper step the dual residual keeps falling; from a cold start it does not."""
    case = quadratic(q=30)
    residuals = {}
    for warm in (True, False):
        algorithm = bp.mgda(0.01, 0.5, 40, bp.CG(2, warm_start=warm))
        residuals[warm] = run(case, algorithm, 200).history.dual_residual[-1].max()
    assert residuals[True] < 1e-6 * residuals[False]


@pytest.mark.parametrize("case", CASES[:4], ids=NAMES[:4])
def test_no_preference_ends_pareto_stationary(case):
    solution = run(case, bp.mgda(0.1, 0.7 / case.smoothness, 2 * case.lower.steps, bp.CG(20)), 20_000, tolerance=1e-12)
    assert solution.status is bp.Status.STATIONARY
    jacobian = case.jacobian(solution.x)
    assert float(bp.stationarity_gap(jnp.array(jacobian @ jacobian.T))) <= 1.1e-12


def test_tolerance_stops_at_the_first_step_below_it():
    case = quadratic()
    algorithm = bp.mgda(0.1, 0.5, 60, bp.CG(20))
    free, stopped = run(case, algorithm, 300), run(case, algorithm, 300, tolerance=1e-6)
    first = int(np.argmax(free.history.gap <= 1e-6))
    assert 0 < first < 299
    assert len(stopped.history.gap) == first + 1
    np.testing.assert_array_equal(stopped.history.values, free.history.values[: first + 1])
    np.testing.assert_array_equal(stopped.values, free.history.values[first])
    np.testing.assert_allclose(stopped.values, case.values(stopped.x), atol=1e-10)


def test_history_is_consistent_with_itself():
    case = quadratic()
    solution = run(case, bp.wc_mhgd(R3, 0.1, 0.5, 60, bp.CG(20), u=2.0), 20)
    history = solution.history
    assert history.values.shape == history.weights.shape == (20, 3)
    assert history.gram.shape == (20, 3, 3)
    jacobian = case.jacobian(case.x)
    np.testing.assert_allclose(history.gram[0], jacobian @ jacobian.T, atol=1e-8)
    for k in range(20):
        w, m = history.weights[k], history.gram[k]
        assert np.isclose(np.sum(w / R3), 1)
        assert np.isclose(history.direction[k], w @ m @ w)
        assert np.isclose(history.margin[k], 2 * 0.5 * np.min(m @ w) - w @ m @ w)
        assert history.gap[k] <= history.direction[k] / np.sum(w) ** 2 + 1e-12
    np.testing.assert_allclose(solution.values, case.values(solution.x), atol=1e-10)
    np.testing.assert_allclose(solution.y, case.solution(solution.x), atol=1e-10)
    assert "COMPLETED after 20 steps" in str(solution)


def test_the_result_does_not_depend_on_the_chunks(monkeypatch):
    case = quadratic()
    algorithm = bp.wc_mhgd(R3, 0.1, 0.5, 10)
    whole = run(case, algorithm, 30)
    again = run(case, algorithm, 30)
    monkeypatch.setattr("bipareto.solver.loop.chunk_size", lambda oracles, state: 4)
    chunked = run(case, algorithm, 30)
    for other in (again, chunked):
        np.testing.assert_array_equal(whole.x, other.x)
        assert jax.tree.all(jax.tree.map(lambda a, b: np.array_equal(a, b), whole.history, other.history))
    monkeypatch.setattr(
        "bipareto.solver.loop.chunk_size", lambda oracles, state: 1
    )  # no compiled loop: other code, same numbers
    np.testing.assert_allclose(run(case, algorithm, 30).x, whole.x, rtol=0, atol=1e-13)


def test_a_second_run_compiles_nothing():
    """Preference, u, step sizes and data are arguments of the compiled program; a new preference costs no compilation."""
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, _, **__: compiled.append(event))
    backend = lambda: sum("backend_compile" in event for event in compiled)  # noqa: E731
    case = quadratic()
    run(case, bp.wc_mhgd(R3, 0.1, 0.5, 11, bp.CG(3), u=1.0), 5)
    first = backend()
    run(case, bp.wc_mhgd([0.1, 0.1, 0.8], 0.2, 0.4, 11, bp.CG(3), u=2.0), 5)
    assert first > 0
    assert backend() == first


def test_separable_run_equals_the_joint_run():
    case = separable_quadratic()
    r = bp.preferences.focused(5, 0.6)[1]
    for algorithm in (
        bp.wc_mhgd(r, 0.1, 1.0, 8, bp.CG(2)),
        bp.linear(r, 0.1, 1.0, 8, bp.CG(20)),  # converged: truncated, blocks and their sum take different scalars
        bp.mgda(0.1, 1.0, 8, bp.Unrolled()),
    ):
        a = run(case, algorithm, 15)
        b = bp.solve(as_joint(case.problem), algorithm, case.x, case.y, 15)
        np.testing.assert_allclose(a.x, b.x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(a.history.gram, b.history.gram, rtol=0, atol=1e-11)


def test_values_only_weightings_follow_the_full_jacobian():
    """One combined solve gives the direction that weighting all S hypergradients gives."""
    case = quadratic()
    w = np.array([0.2, 0.5, 0.3])
    combined = run(case, bp.linear(w, 0.1, 0.5, 60, bp.CG(20)), 10)
    x = case.x
    for _ in range(10):
        x = x - 0.1 * w @ case.jacobian(x)
    np.testing.assert_allclose(combined.x, x, atol=1e-9)
    assert combined.history.gram.shape == (10, 1, 1)
    assert np.isnan(combined.history.margin).all()
    np.testing.assert_allclose(combined.history.gap, combined.history.direction)


def test_optax_transformations_and_schedules_drive_the_upper_level():
    case = quadratic()
    settings = {"lower_step_size": 0.5, "lower_steps": 60, "hypergradient": bp.CG(20)}
    plain = run(case, bp.wc_mhgd(R3, 0.1, u=20.0, **settings), 10)
    same = run(case, bp.wc_mhgd(R3, optax.sgd(0.1), u=20.0, **settings), 10)
    np.testing.assert_allclose(plain.x, same.x, atol=1e-14)
    constant = run(case, bp.wc_mhgd(R3, optax.constant_schedule(0.1), u="prox", **settings), 10)
    np.testing.assert_allclose(constant.x, plain.x, atol=1e-14)
    falling = run(case, bp.linear(R3, lambda k: 0.1 / (k + 1.0), **settings), 10)
    x = case.x
    for k in range(10):
        x = x - 0.1 / (k + 1) * R3 @ case.jacobian(x)
    np.testing.assert_allclose(falling.x, x, atol=1e-9)
    adam = run(case, bp.mgda(optax.adam(0.05), **settings), 300)
    assert adam.history.gap[-1] < 1e-3 * adam.history.gap[0]


def test_prox_u_follows_a_schedule():
    case = quadratic()
    oracles = bind(case.problem, case.x, case.y)
    schedule = lambda k: 0.1 / (k + 1.0)  # noqa: E731
    algorithm = bp.wc_mhgd(R3, schedule, 0.5, 60, bp.CG(20))
    state = algorithm.init(oracles, case.x, case.y, None)
    for k in range(3):
        fixed = bp.wc_mhgd(R3, 1.0, 0.5, 60, bp.CG(20), u=2 / schedule(k))
        expected = fixed.step(oracles, fixed.init(oracles, state.x, state.y, None), None)[1].weights
        state, record, _ = algorithm.step(oracles, state, None)
        np.testing.assert_allclose(record.weights, expected, atol=1e-9)


def test_callback_sees_every_step_once():
    seen = []
    case = quadratic()
    solution = run(case, bp.mgda(0.1, 0.5, 5), 37, callback=lambda done, records: seen.append((done, records.values)))
    assert seen[-1][0] == 37
    np.testing.assert_array_equal(np.concatenate([values for _, values in seen]), solution.history.values)


def test_progress_is_shown_where_asked(capsys):
    case = quadratic()
    run(case, bp.mgda(0.1, 0.5, 5), 20, progress=True)
    shown = capsys.readouterr()
    assert "step 20/20" in shown.err
    assert "steps/s" in shown.err
    assert shown.out == ""
    run(case, bp.mgda(0.1, 0.5, 5), 20)
    assert capsys.readouterr().err == ""  # not a terminal


def test_single_precision_runs_stay_single():
    case = ridge()
    single = jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32), (case.x, case.y, case.problem.upper_data, case.problem.lower_data)
    )
    problem = bp.Problem(case.problem.upper, case.problem.lower, single[2], single[3])
    algorithm = bp.wc_mhgd(R3, 0.1, 0.2, 30, bp.CG(8))
    a, b = bp.solve(problem, algorithm, single[0], single[1], 50), run(case, algorithm, 50)
    assert {leaf.dtype for leaf in (a.x, a.y, a.values, a.history.gram, a.history.weights)} == {np.dtype(np.float32)}
    np.testing.assert_allclose(a.values, b.values, rtol=2e-4)


def temporary_bytes(hypergradient, lower_steps):
    case = logistic(samples=200, features=10)
    algorithm = bp.mgda(0.1, 0.1, lower_steps, hypergradient)
    oracles, state = solver.start(case.problem, algorithm, case.x, case.y)
    compiled = solver.advance.lower(algorithm, oracles, state, None, None, jnp.int32(1), 8).compile()
    return compiled.compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("hypergradient", [bp.CG(5), bp.Neumann(5, 0.1)], ids=["CG", "Neumann"])
def test_memory_does_not_grow_with_the_lower_steps(hypergradient):
    assert temporary_bytes(hypergradient, 10) == temporary_bytes(hypergradient, 1000)


def test_memory_of_unrolling_grows_less_with_checkpoints():
    growth = {c: temporary_bytes(bp.Unrolled(c), 1000) - temporary_bytes(bp.Unrolled(c), 10) for c in (False, True)}
    assert growth[False] > 5 * growth[True] > 0

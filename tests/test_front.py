"""Exploration: the same numbers as single runs, failures marked, fronts covered and chosen from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto import metrics, preferences
from cases import quadratic, separable_quadratic
from test_sampling import algorithm as stochastic
from test_sampling import noisy
from test_weighting import front_points

R = preferences.lattice(3, 3, floor=0.05)


def settings(case):
    return 0.1, 1 / case.smoothness, 20, bp.CG(4)


@pytest.mark.parametrize("batch", [None, 4])
def test_exploring_equals_single_runs(batch):
    case = separable_quadratic(objectives=3)
    front = bp.explore(case.problem, bp.wc_mhgd(R[0], *settings(case)), R, case.x, case.y, 40, batch=batch)
    assert front.values.shape == (10, 1, 3)
    assert not front.failed.any()
    for row, r in enumerate(R):
        single = bp.solve(case.problem, bp.wc_mhgd(r, *settings(case)), case.x, case.y, 40)
        found = front.solutions[row][0]
        np.testing.assert_allclose(found.values, single.values, rtol=0, atol=1e-10)
        np.testing.assert_allclose(found.x, single.x, rtol=0, atol=1e-10)
        np.testing.assert_allclose(found.history.gram, single.history.gram, rtol=0, atol=1e-10)
        assert found.oracles == single.oracles
        assert found.status is single.status


def test_seeds_are_keys_and_equal_single_runs():
    problem, x, y = noisy()
    key = jax.random.key(3)
    r = np.array([[0.4, 0.6], [0.7, 0.3]])
    front = bp.explore(problem, stochastic(), r, x, y, 12, seeds=3, key=key)
    assert front.values.shape == (2, 3, 2)
    for p in range(2):
        for seed in range(3):
            single = stochastic().prefer(r[p])
            expected = bp.solve(problem, single, x, y, 12, key=jax.random.fold_in(key, seed))
            np.testing.assert_allclose(front.solutions[p][seed].x, expected.x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(front.mean(), front.values.mean(axis=1))
    np.testing.assert_allclose(front.standard_error(), front.values.std(axis=1, ddof=1) / np.sqrt(3))


def test_no_preference_is_one_row():
    case = quadratic()
    front = bp.explore(case.problem, bp.mgda(*settings(case)), None, case.x, case.y, 30)
    single = bp.solve(case.problem, bp.mgda(*settings(case)), case.x, case.y, 30)
    assert front.preferences is None
    np.testing.assert_allclose(front.values[0, 0], single.values, atol=1e-10)
    assert "none" in front.table()


def failing(case, edge):
    """NaN in objective 1 once objective 0 is below the edge, which only some preferences reach."""

    def upper(x, y):
        values = case.problem.upper(x, y)
        return values.at[1].set(jnp.where(values[0] < edge, jnp.nan, values[1]))

    return bp.Problem(upper, case.problem.lower)


def test_a_run_that_fails_is_marked_and_disturbs_no_other():
    case = quadratic()
    whole = bp.explore(case.problem, bp.wc_mhgd(R[0], *settings(case)), R, case.x, case.y, 60)
    lowest = np.array([run[0].history.values[:, 0].min() for run in whole.solutions])
    edge = float(np.median(lowest))
    front = bp.explore(failing(case, edge), bp.wc_mhgd(R[0], *settings(case)), R, case.x, case.y, 60)
    assert 0 < front.failed.sum() < len(R)
    for p in range(len(R)):
        run = front.solutions[p][0]
        if front.failed[p, 0]:
            assert run.status is bp.Status.NON_FINITE_VALUE
            assert "objective 1" in run.message
            assert np.isfinite(run.values).all()  # of its last finite point
            single = bp.solve(failing(case, edge), bp.wc_mhgd(R[p], *settings(case)), case.x, case.y, 60)
            assert run.message == single.message
            np.testing.assert_allclose(run.x, single.x, atol=1e-10)
        else:
            np.testing.assert_allclose(run.x, whole.solutions[p][0].x, rtol=0, atol=1e-12)
    assert len(front.points) == (~front.failed).sum()
    assert not front.nondominated()[front.failed].any()
    assert front.table().count("1 of 1 runs failed") == front.failed.sum()
    assert not front.select(R[0]).status.failed


def test_runs_stop_one_by_one_at_the_tolerance():
    case = quadratic()
    front = bp.explore(case.problem, bp.wc_mhgd(R[0], 0.1, 0.5, 60, bp.CG(20)), R, case.x, case.y, 3000, tolerance=1e-8)
    lengths = [len(run[0].history.gap) for run in front.solutions]
    assert {run[0].status for run in front.solutions} == {bp.Status.STATIONARY}
    assert len(set(lengths)) > 3
    for run in front.solutions:
        assert run[0].history.gap[-1] <= 1e-8 < run[0].history.gap[-2]


def test_more_preferences_cover_the_exact_front_better():
    case = quadratic(objectives=2)
    points = front_points(case, [np.array([w, 1 - w]) for w in np.linspace(0, 1, 51)])
    exact = np.asarray(jax.vmap(case.values)(jnp.array(points)))
    distances = []
    for divisions in (1, 3, 12):
        r = preferences.lattice(2, divisions, floor=0.02)
        front = bp.explore(case.problem, bp.wc_mhgd(r[0], 0.1, 0.5, 60, bp.CG(20)), r, case.x, case.y, 600)
        distances.append(front.igd_plus(exact))
    assert distances[0] > 2 * distances[1] > 4 * distances[2]
    assert front.hypervolume(exact.max(axis=0)).value <= metrics.hypervolume(exact, exact.max(axis=0)).value
    # Where one objective alone is active, several preferences share a point; elsewhere r o Phi is equal.
    both = front.alignment()["nonuniformity"][:, 0] < 1e-6
    assert both.sum() >= 6
    assert front.nondominated()[both].all()


def test_select_finds_the_best_run_for_a_preference():
    case = quadratic()
    front = bp.explore(case.problem, bp.wc_mhgd(R[0], 0.1, 0.5, 60, bp.CG(20)), R, case.x, case.y, 800)
    for r in R:
        best = front.select(r)
        assert np.max(r * best.values) == min(np.max(r * run[0].values) for run in front.solutions)


@pytest.mark.parametrize("objectives", [2, 3, 7])
def test_preferences_are_positive_sum_to_one_and_repeat(objectives):
    made = {
        "focused": lambda: preferences.focused(objectives, 0.8),
        "lattice": lambda: preferences.lattice(objectives, 3),
        "energy": lambda: preferences.energy(objectives, 12, floor=0.02, seed=4),
        "dirichlet": lambda: preferences.dirichlet(np.arange(1, objectives + 1), 9, seed=2),
        "from_ray": lambda: preferences.from_ray(np.arange(1, objectives + 1))[None],
        "from_aspiration": lambda: preferences.from_aspiration(np.arange(2, objectives + 2), reference=1.0)[None],
    }
    for name, make in made.items():
        r = make()
        assert r.shape[1] == objectives, name
        assert (r >= 0.0099).all(), name
        np.testing.assert_allclose(r.sum(axis=1), 1, atol=1e-12)
        np.testing.assert_array_equal(r, make())


def test_pinned_preferences():
    np.testing.assert_allclose(preferences.focused(5, 0.96)[1], [0.01, 0.96, 0.01, 0.01, 0.01])
    np.testing.assert_allclose(preferences.from_ray([1.0, 3.0]), [0.75, 0.25])
    np.testing.assert_allclose(preferences.from_aspiration([2.0, 4.0], reference=[1.0, 1.0]), [0.75, 0.25])
    np.testing.assert_allclose(preferences.lattice(2, 2, floor=0.1), [[0.1, 0.9], [0.5, 0.5], [0.9, 0.1]])
    assert len(preferences.lattice(10, 4)) == 715


def test_a_ray_and_an_aspiration_are_reached():
    case = quadratic()
    ray = np.array([1.0, 1.2, 1.1])
    run = bp.solve(case.problem, bp.wc_mhgd(preferences.from_ray(ray), 0.1, 0.5, 60, bp.CG(20)), case.x, case.y, 4000)
    np.testing.assert_allclose(run.values / ray, (run.values / ray).mean(), rtol=1e-6)
    levels = 1.01 * run.values  # can be reached, so all are
    aimed = bp.wc_mhgd(preferences.from_aspiration(levels), 0.1, 0.5, 60, bp.CG(20))
    assert (bp.solve(case.problem, aimed, case.x, case.y, 4000).values <= levels).all()


def nearest(points):
    apart = np.linalg.norm(points[:, None] - points[None], axis=2) + 10 * np.eye(len(points))
    return apart.min()


def test_energy_spreads_better_than_chance():
    spread = nearest(preferences.energy(4, 20))
    chance = max(nearest(np.random.default_rng(seed).dirichlet(np.ones(4), 20)) for seed in range(20))
    assert spread > 1.5 * chance


def test_dirichlet_draws_lie_around_their_centre():
    center = np.array([0.2, 0.3, 0.5])
    close, wide = (preferences.dirichlet(center, 400, concentration, floor=1e-3) for concentration in (500.0, 20.0))
    np.testing.assert_allclose(close.mean(axis=0), center, atol=0.01)
    assert close.std(axis=0).max() < 0.3 * wide.std(axis=0).max()


def test_dominance_and_volume_of_known_points():
    points = np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0], [3.0, 3.0], [2.0, 2.0], [np.nan, 0.0]])
    assert metrics.nondominated(points).tolist() == [True, True, True, False, True, False]
    found = metrics.hypervolume(points, reference=[4.0, 4.0])
    assert (found.value, found.exact) == (6.0, True)
    np.testing.assert_array_equal(metrics.hypervolume(points).reference, [3.0, 3.0])
    many = np.random.default_rng(0).random((60, 10))
    rough = metrics.hypervolume(many, np.ones(10))
    assert not rough.exact
    samples = np.random.default_rng(1).random((20_000, 10))
    dominated = np.any(np.all(samples[:, None] >= many[None], axis=2), axis=1)
    assert abs(rough.value - dominated.mean()) < 5 * dominated.std() / np.sqrt(len(samples)) + 1e-3
    assert metrics.igd_plus(points[:3], points[:3]) == 0
    np.testing.assert_allclose(metrics.chebyshev(points[:3], [0.25, 0.75]), [2.25, 1.5, 0.75])
    np.testing.assert_allclose(metrics.nonuniformity([[3.0, 1.0]], [0.25, 0.75]), 0, atol=1e-15)


def test_the_picture_shows_every_preference(tmp_path):
    case = separable_quadratic(objectives=3)
    for rows in (preferences.focused(3, 0.6), preferences.lattice(3, 4)):
        front = bp.explore(case.problem, bp.wc_mhgd(R[0], *settings(case)), rows, case.x, case.y, 40)
        figure = front.plot()
        lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 3]
        assert len(lines) == len(rows)
        np.testing.assert_allclose(lines[1].get_ydata(), front.mean()[1])
        figure.savefig(tmp_path / "front.png")
        assert (tmp_path / "front.png").stat().st_size > 10_000

"""Exploration: the same numbers as single runs, failures marked, fronts covered and chosen from."""

import csv
import math
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
import fronts
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
    broken = failing(case, edge)
    front = bp.explore(broken, bp.wc_mhgd(R[0], *settings(case)), R, case.x, case.y, 60)
    assert 0 < front.failed.sum() < len(R)
    for p in range(len(R)):
        run = front.solutions[p][0]
        if front.failed[p, 0]:
            assert run.status is bp.Status.NON_FINITE_VALUE
            assert "objective 1" in run.message
            assert np.isfinite(run.values).all()  # of its last finite point
            single = bp.solve(broken, bp.wc_mhgd(R[p], *settings(case)), case.x, case.y, 60)
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
        "evenly": lambda: preferences.evenly(objectives, 12, seed=4),
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


@pytest.mark.parametrize(
    ("objectives", "count", "made"),
    [(2, 12, 12), (2, 2, 2), (3, 3, 3), (3, 9, 6), (3, 10, 10), (4, 34, 20), (4, 35, 35), (5, 1000, 715), (5, 69, 35)],
)
def test_evenly_is_the_largest_lattice_that_fits(objectives, count, made):
    found = preferences.evenly(objectives, count, floor=0.02)
    divisions = next(h for h in range(1, 30) if math.comb(h + objectives - 1, objectives - 1) == made)
    np.testing.assert_array_equal(found, preferences.lattice(objectives, divisions, floor=0.02))


@pytest.mark.parametrize(("objectives", "count"), [(6, 50), (6, 3), (10, 12), (5, 4), (3, 2)])
def test_evenly_spreads_by_energy_where_lattices_explode_or_do_not_fit(objectives, count):
    found = preferences.evenly(objectives, count, floor=0.02, seed=3)
    np.testing.assert_array_equal(found, preferences.energy(objectives, count, floor=0.02, seed=3))
    assert len(found) == count


@pytest.mark.parametrize("objectives", [2, 5, 9])
def test_one_even_preference_is_the_middle(objectives):
    np.testing.assert_allclose(preferences.evenly(objectives, 1), np.full((1, objectives), 1 / objectives))


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


def test_angles_to_the_preferred_ray():
    even = metrics.angle([[2.0, 2.0], [5.0, 0.0], [0.0, 0.1], [1.0, np.sqrt(3)], [-1.0, -1.0]], [0.5, 0.5])
    np.testing.assert_allclose(even, [0, 45, 45, 15, 180], atol=1e-12)
    # r = (3/4, 1/4): the ray 1/r is (1, 3); cos of the angle to (1, 0) is 1/sqrt(10).
    np.testing.assert_allclose(
        metrics.angle([[1.0, 0.0], [2.0, 6.0]], [3, 1]), [np.degrees(np.arccos(0.1**0.5)), 0], atol=1e-12
    )
    np.testing.assert_allclose(metrics.angle([[3.0, 7.0]], [3, 1], reference=[2.0, 4.0]), 0, atol=1e-12)
    # A small angle in full: (1, 1 + 2t) and (1, 1) are t apart up to t^2, which the arc cosine would round to 0 here.
    np.testing.assert_allclose(np.radians(metrics.angle([[1.0, 1.0 + 2e-10]], [1, 1])), 1e-10, rtol=1e-5)
    assert np.isnan(metrics.angle([[2.0, 4.0], [np.nan, 1.0]], [1, 1], reference=[2.0, 4.0])).all()


def test_coverage_of_known_points():
    a, b = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[1.0, 2.0], [2.0, 2.0], [0.5, 3.0], [3.0, 3.0]])
    assert metrics.coverage(a, b) == 0.75  # all but (0.5, 3)
    assert metrics.coverage(b, a) == 0.5  # (1, 2) is in both; nothing of b reaches (2, 1)
    assert metrics.coverage(a, a) == 1
    spoilt = np.vstack([b, [[np.nan, 9.0], [np.inf, 9.0]]])
    assert metrics.coverage(a, spoilt) == 0.75
    assert metrics.coverage([[np.nan, -9.0]], b) == 0
    left, right = (fronts.front(None, points[None]) for points in (a, b))
    assert (left.coverage(right), left.coverage(b), right.coverage(left)) == (0.75, 0.75, 0.5)


def test_coverage_counts_failed_runs_in_neither_front():
    front = bp.Front(None, [[fronts.run([2.0, 2.0]), fronts.run([0.0, 0.0], status=bp.Status.NON_FINITE_VALUE)]])
    other = fronts.front(None, [[[1.0, 1.0], [3.0, 3.0]]])
    assert front.coverage(other) == 0.5
    assert other.coverage(front) == 1


def test_alignment_and_selection_measure_from_the_reference():
    r, z = np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([10.0, -5.0])
    points = np.array([[z + 0.3 / r[0]], [z + 0.1 / r[1] + [0.0, 0.4]]])
    front = fronts.front(r, points, reference=z)
    found = front.alignment()
    np.testing.assert_allclose(found["chebyshev"], [[0.3], [0.3]])
    np.testing.assert_allclose(found["angle"][0], 0, atol=1e-6)
    np.testing.assert_allclose(found["angle"][1], np.degrees(np.arctan2(0.6, 0.2)) - 45)
    np.testing.assert_allclose(found["nonuniformity"][0], 0, atol=1e-12)
    assert (fronts.front(r, points).alignment()["angle"] > 30).all()
    # For r = (0.2, 0.8), from z: (1.5, 0.375) gives 0.3, (0.2, 0.6) gives 0.48; from 0 the first entries decide: 2.3 > 2.04.
    np.testing.assert_array_equal(front.select(r[0]).values, points[0, 0])
    np.testing.assert_array_equal(fronts.front(r, points).select(r[0]).values, points[1, 0])


def test_names_head_the_table_in_line_with_their_columns():
    values = np.array([[[1.0, 20.0]], [[3.0, 4.0]]])
    plain, named = (
        fronts.front([[0.3, 0.7], [0.7, 0.3]], values, names=names)
        for names in (None, ("loss", "energy per inference [mJ]"))
    )
    assert plain.objective_names == ("phi_1", "phi_2")
    assert plain.table().splitlines()[0].split() == ["preference", "phi_1", "phi_2"]
    head, first, second = named.table(digits=2).splitlines()
    assert head.endswith("loss  energy per inference [mJ]")
    assert first.split() == ["0.3000", "0.7000", "1.00*", "20.00"]
    assert second.split()[2:] == ["3.00", "4.00*"]
    assert len({len(line) for line in (head, first.ljust(len(head)), second)}) == 1


AWKWARD = [0.1 + 0.2, 5e-324, np.nextafter(1.0, 2.0), 1e300, float(np.float32(0.1)), np.pi]


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_a_csv_reads_back_bitwise(tmp_path):
    r = np.array([[1 / 3, 2 / 3], [0.1, 0.9]])
    values = np.array(AWKWARD[:4]).reshape(2, 1, 2)
    good = [fronts.run(values[0, 0], gap=[1.0, 1e-3, AWKWARD[4], AWKWARD[5]], seconds=1 / 3), fronts.run([1.0, 1e301])]
    bad = [
        fronts.run(values[1, 0], np.zeros((0, 2)), np.zeros(0), bp.Status.NON_FINITE_LOWER),
        fronts.run([np.nan, 2.0], status=bp.Status.UPPER_OVERSHOT),
    ]
    front = bp.Front(r, [good, bad], names=("loss", 'cost, "all" [€]'))
    front.to_csv(tmp_path / "front.csv")
    rows = read(tmp_path / "front.csv")
    after = ["nondominated", "status", "steps", "gap", "seconds"]
    assert list(rows[0]) == ["r_1", "r_2", "seed", "loss", 'cost, "all" [€]', *after]
    for p in range(2):
        for seed in range(2):
            row, run = rows[2 * p + seed], front.solutions[p][seed]
            assert [float(row["r_1"]), float(row["r_2"])] == r[p].tolist()
            np.testing.assert_array_equal([float(row["loss"]), float(row['cost, "all" [€]'])], run.values)
            assert row["seed"] == str(seed)
            assert float(row["seconds"]) == run.seconds
    assert [row["status"] for row in rows] == ["COMPLETED", "COMPLETED", "NON_FINITE_LOWER", "UPPER_OVERSHOT"]
    assert [row["nondominated"] for row in rows] == ["True", "False", "False", "False"]
    assert [row["steps"] for row in rows] == ["4", "4", "0", "4"]
    assert float(rows[0]["gap"]) == AWKWARD[5]
    assert rows[2]["gap"] == ""


def test_a_csv_of_single_precision_and_no_preference(tmp_path):
    values = np.float32([[0.1, 1 / 3]])
    single = bp.Front(None, [[bp.Solution(**{**vars(fronts.run(values[0])), "values": values[0]})]])
    single.to_csv(str(tmp_path / "front.csv"))
    (row,) = read(tmp_path / "front.csv")
    assert (row["r_1"], row["r_2"]) == ("", "")
    np.testing.assert_array_equal(np.float32([row["phi_1"], row["phi_2"]]), values[0])


def test_a_csv_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "front.csv"
    fronts.front(None, [[[1.0, 2.0]]]).to_csv(path)
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode  # the file of anyone, not only of its writer
    plain.unlink()
    before = path.read_bytes()

    def broken(*_):
        raise OSError("disk full")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, broken)
            with pytest.raises(OSError, match="disk full"):
                fronts.front(None, [[[3.0, 4.0]]]).to_csv(path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["front.csv"]
    fronts.front(None, [[[3.0, 4.0]]]).to_csv(path)
    assert read(path)[0]["phi_1"] == "3.0"


class Model(eqx.Module):
    weight: jax.Array
    scale: jax.Array
    activation: object
    depth: int = eqx.field(static=True)


def test_upper_variables_of_all_runs_are_stacked():
    def model(number):
        return Model(number * jnp.arange(6.0).reshape(2, 3), jnp.asarray(float(number)), jnp.tanh, 4)

    grid = [[fronts.run([1.0, 2.0], x={"m": model(10 * p + i), "name": "n"}) for i in range(3)] for p in range(2)]
    found = bp.Front(None, grid).x
    assert found["m"].weight.shape == (2, 3, 2, 3)
    assert found["m"].scale.shape == (2, 3)
    for p in range(2):
        for i in range(3):
            np.testing.assert_array_equal(found["m"].weight[p, i], grid[p][i].x["m"].weight)
            assert found["m"].scale[p, i] == 10 * p + i
    assert (found["m"].activation, found["m"].depth, found["name"]) == (jnp.tanh, 4, "n")
    np.testing.assert_array_equal(
        jax.vmap(jax.vmap(lambda m: m.weight[1, 1] + m.scale))(eqx.filter(found["m"], eqx.is_array)),
        [[0, 5, 10], [50, 55, 60]],
    )

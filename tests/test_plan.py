"""Where the runs of an exploration start, and where new preferences go."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto.distributed import mesh
from bipareto.front.fleet import Fleet, Run, Task
from bipareto.front.plan import midpoint, spanning_tree, tour
from bipareto.solver import start
from bipareto.store import CorruptFile
from cases import quadratic
from test_sampling import algorithm as stochastic
from test_sampling import noisy
from test_weighting import front_points

CASE = quadratic(objectives=2)
MODULE = sys.modules["bipareto.front.explore"]  # the name itself is the function
ROWS = np.array([[0.2, 0.8], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
METHOD = bp.wc_mhgd(ROWS[0], 0.1, 0.5, 30, bp.CG(6))


def explore(rows=ROWS, steps=25, **options):
    return bp.explore(CASE.problem, METHOD, rows, CASE.x, CASE.y, steps, **options)


def test_a_tour_goes_to_the_nearest_not_visited():
    assert tour(ROWS) == [0, 2, 3, 1]
    assert tour(ROWS[:1]) == [0]


def test_continuation_is_a_chain_of_single_runs():
    front = explore(continuation=True)
    x, y = CASE.x, CASE.y
    for p in tour(ROWS):
        single = bp.solve(CASE.problem, METHOD.prefer(ROWS[p]), x, y, 25)
        np.testing.assert_allclose(front.solutions[p][0].x, single.x, rtol=0, atol=1e-10)
        np.testing.assert_allclose(front.solutions[p][0].values, single.values, rtol=0, atol=1e-10)
        x, y = single.x, single.y


def test_batches_hold_for_seeds_of_a_chain_too(monkeypatch):
    problem, x, y = noisy()
    rows, options = np.array([[0.4, 0.6], [0.7, 0.3]]), {"seeds": 3, "key": jax.random.key(1), "refine": 1}
    whole = bp.explore(problem, stochastic(), rows, x, y, 4, continuation=True, **options)
    widths = seen_widths(monkeypatch)
    parts = bp.explore(problem, stochastic(), rows, x, y, 4, continuation=True, batch=2, **options)
    assert widths == [2] * 6
    np.testing.assert_allclose(parts.values, whole.values, rtol=0, atol=1e-10)


def test_a_spanning_tree_on_a_curve_is_the_curve():
    angles = np.array([0.1, 1.4, 0.5, 0.9])
    edges = spanning_tree(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    assert {frozenset((i, j)) for _, i, j in edges} == {frozenset(pair) for pair in ((0, 2), (2, 3), (3, 1))}
    longest = max(edges)
    assert {longest[1], longest[2]} == {3, 1}
    np.testing.assert_allclose(longest[0], 2 * np.sin(0.25), rtol=1e-12)


def test_a_new_preference_lies_between_the_ends_of_the_largest_gap():
    r = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.5, 0.5], [0.45, 0.55]])
    values = np.array([[0.0, 10.0], [1.0, 9.0], [9.0, 0.0], [20.0, 20.0], [np.nan, np.nan]])  # dominated, failed
    mean = np.sqrt(r[1] * r[2])
    np.testing.assert_allclose(midpoint(r, values), mean / mean.sum())
    np.testing.assert_allclose(midpoint(r[:1], values[:1]), [0.5, 0.5])
    # Where that preference is there already the next gap is taken.
    again = np.vstack([r[:3], mean / mean.sum()])
    other = np.sqrt(r[0] * r[1])
    np.testing.assert_allclose(midpoint(again, np.vstack([values[:3], [30.0, 30.0]])), other / other.sum())


@pytest.mark.parametrize("continuation", [False, True])
def test_refinement_fills_the_front_better_than_it_was(continuation):
    points = front_points(CASE, [np.array([w, 1 - w]) for w in np.linspace(0.02, 0.98, 41)])
    exact = np.asarray(jax.vmap(CASE.values)(jnp.array(points)))
    coarse = explore(ROWS[:2], 400)
    fine = explore(ROWS[:2], 400, refine=4, continuation=continuation)
    assert fine.values.shape == (6, 1, 2)
    np.testing.assert_allclose(fine.values[:2], coarse.values, atol=1e-4 if continuation else 1e-10)
    assert fine.igd_plus(exact) < 0.5 * coarse.igd_plus(exact)

    def widest(front):
        return max(length for length, _, _ in spanning_tree(front.points))

    assert widest(fine) < 0.6 * widest(coarse)


def test_refined_and_continued_runs_resume(tmp_path):
    options = {"refine": 2, "continuation": True, "directory": tmp_path / "run"}
    front = explore(**options)
    (tmp_path / "run" / "result-00004.npz").unlink()
    (tmp_path / "run" / "result-00005.npz").unlink()
    again = explore(**options, resume=True)
    np.testing.assert_array_equal(again.preferences, front.preferences)
    np.testing.assert_array_equal(again.values, front.values)


def seen_widths(monkeypatch):
    widths, keep = [], Fleet.__init__

    def note(self, task, runs, width):
        widths.append(width)
        keep(self, task, runs, width)

    monkeypatch.setattr(Fleet, "__init__", note)
    return widths


def test_runs_that_do_not_fit_the_memory_are_made_in_batches(monkeypatch):
    whole = explore()
    widths = seen_widths(monkeypatch)
    monkeypatch.setattr(Fleet, "bytes_per_run", lambda self: 100.0)
    monkeypatch.setattr(MODULE, "_free_memory", lambda: 220.0 / 0.75)
    halves = explore()
    assert widths == [4, 2, 2]
    np.testing.assert_allclose(halves.values, whole.values, rtol=0, atol=1e-10)


def test_the_compiler_tells_what_a_run_needs():
    state = np.zeros(1000)
    problem = bp.Problem(lambda x, y: jnp.stack([jnp.sum(y**2), jnp.sum((y - x) ** 2)]), lambda x, y: jnp.sum((y - x) ** 2))
    oracles, first = start(problem, METHOD, state, state)
    task = Task.of(METHOD, oracles, first, None, 5, mesh())
    need = [Fleet(task, [Run(0, ROWS[0], None, first)] * count, count).bytes_per_run() for count in (1, 8)]
    assert need[0] > 8 * 2000  # x and y at the least
    np.testing.assert_allclose(need[0], need[1], rtol=0.5)
    assert MODULE._free_memory() > 1e6


def test_a_convolution_on_a_cpu_is_explored_one_run_at_a_time(monkeypatch):
    widths = seen_widths(monkeypatch)
    kernel = jnp.ones((1, 1, 2))

    def upper(x, y):
        shown = jax.lax.conv_general_dilated(y[None, None], kernel, (1,), "VALID")[0, 0]
        return jnp.stack([jnp.sum(shown**2), jnp.sum((shown - 1) ** 2)])

    problem = bp.Problem(upper, lambda x, y: jnp.sum((y - x) ** 2))
    method = bp.wc_mhgd(ROWS[0], 0.02, 0.2, 4, bp.CG(2))
    front = bp.explore(problem, method, ROWS[:2], jnp.ones(4), jnp.ones(4), 6)
    assert widths == [1, 1]
    single = bp.solve(problem, method.prefer(ROWS[1]), jnp.ones(4), jnp.ones(4), 6)
    np.testing.assert_allclose(front.values[1, 0], single.values, rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def front():
    return explore(steps=60, names=("cost", "risk"))


def test_resolving_goes_on_from_the_nearest_point(front):
    wish = np.array([0.5, 0.5])
    nearest = front.select(wish)
    run = front.resolve(wish, steps=30)
    again = bp.solve(CASE.problem, METHOD.prefer(wish), nearest.x, nearest.y, 30)
    np.testing.assert_array_equal(run.x, again.x)
    assert np.max(wish * run.values) < np.max(wish * nearest.values)
    assert len(front.resolve(wish).history.gap) == 60
    assert len(front.resolve(wish, tolerance=1e3).history.gap) == 1


def test_a_front_is_saved_and_read_back_whole(front, tmp_path):
    front.save(tmp_path / "front.npz", x=True)
    read = bp.Front.load(tmp_path / "front.npz", CASE.x, CASE.y)
    np.testing.assert_array_equal(read.values, front.values)
    np.testing.assert_array_equal(read.preferences, front.preferences)
    np.testing.assert_array_equal(read.x, front.x)
    assert read.names == ("cost", "risk")
    assert read.status == front.status
    for old, new in zip(front.solutions, read.solutions, strict=True):
        for leaf, other in zip(jax.tree.leaves(old[0].history), jax.tree.leaves(new[0].history), strict=True):
            np.testing.assert_array_equal(leaf, other)
        assert old[0].oracles == new[0].oracles
        assert (old[0].message, old[0].seconds) == (new[0].message, new[0].seconds)
    assert read.table() == front.table()
    np.testing.assert_array_equal(np.load(tmp_path / "front.npz")["values"], front.values)
    with pytest.raises(ValueError, match="a front read from a file"):
        read.resolve([0.5, 0.5])


def test_a_front_without_variables_or_with_wrong_ones(front, tmp_path):
    front.save(tmp_path / "small.npz")
    assert bp.Front.load(tmp_path / "small.npz").solutions[0][0].x is None
    front.save(tmp_path / "front.npz", x=True)
    assert bp.Front.load(tmp_path / "front.npz").solutions[0][0].x.shape == CASE.x.shape
    with pytest.raises(CorruptFile, match="give x0 and y0 of its own shapes"):
        bp.Front.load(tmp_path / "front.npz", jnp.zeros(17), CASE.y)
    (tmp_path / "text.npz").write_text("no front")
    with pytest.raises(CorruptFile, match="intact file"):
        bp.Front.load(tmp_path / "text.npz")
    with pytest.raises(FileNotFoundError, match="be a saved front"):
        bp.Front.load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match="lie in an existing folder"):
        front.save(tmp_path / "none" / "front.npz")


def test_progress_shows_runs_objectives_and_time_left(capsys):
    explore(steps=40, progress=True, batch=2)
    shown = capsys.readouterr().err
    lines = shown.splitlines()
    assert lines[-1].startswith("runs 4/4  steps 160/160  gap ")
    assert lines[-1].endswith("0 s left")
    last = [line for line in lines if line.startswith("  0.60 0.40  |")][-1]
    assert last.endswith("step 40")
    value = float(last.split("|")[1].split()[0])
    np.testing.assert_allclose(value, explore(steps=40).solutions[3][0].history.values[-1, 0], rtol=1e-3)

"""Methods compared: equal budgets, one judge that knows the truth, measures that can be taken again by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from cases import quadratic
from test_stochastic import noisy_quadratic

CASE = quadratic()
ROWS = bp.preferences.focused(3, 0.8)
BUDGET, DEPTH = 1500.0, 10
METHODS = {
    "WC-MHGD": lambda size, r: bp.wc_mhgd(r, size, 0.5, DEPTH, bp.CG(5)),
    "MGDA": lambda size, r: bp.mgda(size, 0.5, DEPTH, bp.CG(5)),
    "AID": lambda size, r: bp.aid(r, size, 0.5, DEPTH, bp.CG(5)),
}


def compared(**changes):
    settings = {"budget": BUDGET, "step_sizes": (0.05, 0.5), "judge": CASE.lower, "preferences": ROWS, "points": 5}
    settings |= {"measure": lambda x, y: {"x": x, "y": y}}
    return bp.compare(CASE.problem, METHODS, CASE.x, CASE.y, **settings | changes)


@pytest.fixture(scope="module")
def found():
    return compared()


def test_every_run_spends_its_budget_and_no_more(found):
    for run in found.runs:
        each = run.track.calls[-1] / run.track.steps[-1]
        assert run.track.calls[-1] <= BUDGET < run.track.calls[-1] + each
        assert len(run.track.steps) == 6
        assert np.all(np.diff(run.track.calls) > 0)
        np.testing.assert_allclose(run.track.calls, np.linspace(0, BUDGET, 6), atol=each)
    assert [len(found.of(name)) for name in METHODS] == [3, 1, 3]
    assert [run.preference for run in found.of("AID")] == [0, 1, 2]
    assert found.of("MGDA")[0].preference is None


@pytest.mark.parametrize("name", METHODS)
def test_a_run_is_that_of_solve_judged_by_the_closed_form(found, name):
    run = found.of(name)[-1]
    algorithm = METHODS[name](run.step_size, ROWS[2])
    solution = bp.solve(CASE.problem, algorithm, CASE.x, CASE.y, int(run.track.steps[-1]))
    np.testing.assert_allclose(run.measures["x"], solution.x, rtol=1e-12)
    assert run.track.calls[-1] == sum(solution.oracles)
    np.testing.assert_allclose(run.measures["y"], CASE.solution(solution.x), rtol=1e-9)
    np.testing.assert_allclose(run.track.values[-1], CASE.values(solution.x), rtol=1e-9)
    rows = CASE.jacobian(solution.x)
    exact = float(bp.stationarity_gap(jnp.array(rows @ rows.T)))
    np.testing.assert_allclose(run.track.gap[-1], exact, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(run.track.values[0], CASE.values(CASE.x), rtol=1e-9)


def test_the_step_size_with_the_largest_hypervolume_is_taken(found):
    for name in METHODS:
        assert found.chosen[name] == max(found.tuned[name], key=found.tuned[name].get)
        # nothing is drawn here, so that the runs that chose are those that count
        ends = np.array([run.track.values[-1] for run in found.of(name)])
        volume = bp.metrics.hypervolume(ends, CASE.values(CASE.x)).value
        np.testing.assert_allclose(found.tuned[name][found.chosen[name]], volume, rtol=1e-9)
    given = compared(step_sizes={"WC-MHGD": 0.05, "MGDA": 0.5, "AID": 0.05})
    assert given.chosen == {"WC-MHGD": 0.05, "MGDA": 0.5, "AID": 0.05}
    assert given.tuned == {name: {} for name in METHODS}


def test_measures_are_those_of_the_ends(found):
    ends = {name: np.array([run.track.values[-1] for run in found.of(name)]) for name in METHODS}
    union = np.concatenate(list(ends.values()))
    union = union[bp.metrics.nondominated(union)]
    corner = found.corner[0]
    np.testing.assert_allclose(corner, CASE.values(CASE.x))
    for name, points in ends.items():
        share = bp.metrics.hypervolume(points, corner).value / bp.metrics.hypervolume(union, corner).value
        np.testing.assert_allclose(found.hypervolume(name), [share])
        np.testing.assert_allclose(found.igd_plus(name), [bp.metrics.igd_plus(points, union)])
        np.testing.assert_array_equal(found.best(name), [points.min(axis=0)])
        np.testing.assert_array_equal(found.gap(name), [max(run.track.gap[-1] for run in found.of(name))])
    lines = found.table().splitlines()
    assert [line.split()[0] for line in lines[2:5]] == list(METHODS)
    assert f"{found.hypervolume('AID')[0]:.4g}" in lines[4]
    assert "calls on all data" in lines[-1]
    with pytest.raises(ValueError, match="did you mean 'MGDA'"):
        found.of("MGD")


def test_a_given_corner_replaces_the_start():
    corner = [40.0, 30.0, 50.0]
    found = compared(reference=corner, step_sizes={"WC-MHGD": 0.05, "MGDA": 0.05, "AID": 0.05}, names=("a", "b", "c"))
    np.testing.assert_array_equal(found.corner, [corner])
    assert "best b" in found.table()


def test_runs_that_fail_are_marked_and_count_for_nothing():
    found = compared(step_sizes={"WC-MHGD": 0.05, "MGDA": 1e200, "AID": 100.0})
    assert all(run.track.status.failed for name in ("MGDA", "AID") for run in found.of(name))
    assert found.hypervolume("AID") == 0
    assert np.isnan(found.igd_plus("MGDA")).all()
    assert not any(run.track.status.failed for run in found.of("WC-MHGD"))
    np.testing.assert_allclose(found.hypervolume("WC-MHGD"), 1)
    chosen = compared(step_sizes=(1e200, 0.05)).chosen
    assert set(chosen.values()) == {0.05}


def test_calls_are_samples_where_any_method_samples():
    problem, x, y = noisy_quadratic()[:3]
    batches = bp.Batches(lower=4, upper=3, cross=2)
    series = bp.StochasticNeumann(2, 0.1, batch=5)
    methods = {
        "drawn": lambda size, r: bp.mgda(size, 0.1, 3, series, batches),
        "whole": lambda size, r: bp.mgda(size, 0.1, 3, bp.Neumann(2, 0.1)),
    }
    settings = {"budget": 20_000.0, "step_sizes": (0.01,), "judge": bp.GradientDescent(0.1, 50), "points": 2, "seeds": 2}
    found = bp.compare(problem, methods, x, y, key=jax.random.key(0), **settings)
    for name in methods:
        run = found.of(name)[0]
        algorithm = methods[name](0.01, None)
        counts = bp.solve(problem, algorithm, x, y, 1, key=jax.random.key(0)).oracles
        upper, lower = (len(jax.tree.leaves(data)[0]) for data in (problem.upper_data, problem.lower_data))
        worth = (1, 1, 1, 1) if name == "drawn" else (upper, lower, lower, lower)
        each = sum(count * samples for count, samples in zip(counts, worth, strict=True))
        assert run.track.calls[-1] == each * run.track.steps[-1]
        assert run.track.steps[-1] == 20_000 // each
    drawn, whole = (np.array([run.track.values[-1] for run in found.of(name)]) for name in methods)
    assert not np.array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(whole[0], whole[1])
    assert "samples" in found.table()


def test_a_budget_of_seconds_is_spent_too():
    (run, *_) = compared(budget=0.02, unit="seconds", step_sizes=dict.fromkeys(METHODS, 0.05), preferences=ROWS).runs
    assert run.track.seconds[-1] * (1 + 1 / run.track.steps[-1]) >= 0.02 * (1 - 1e-6)


def test_a_budget_below_one_step_is_refused():
    with pytest.raises(ValueError, match="`budget` must pay for a step of every method; found 30 where Hyper"):
        compared(budget=30.0)


def test_saved_loaded_and_joined(found, tmp_path):
    found.save(tmp_path / "found.json")
    again = bp.Comparison.load(tmp_path / "found.json")
    assert again.table() == found.table()
    np.testing.assert_array_equal(again.preferences, found.preferences)
    np.testing.assert_allclose(again.runs[0].measures["x"], found.runs[0].measures["x"], rtol=1e-6)
    both = again.join(found)
    assert both.hypervolume("AID").shape == (2,)
    np.testing.assert_allclose(both.hypervolume("AID")[1], found.hypervolume("AID")[0])
    assert "±" in both.table()
    with pytest.raises(ValueError, match="`others` must have the methods, step sizes, budget"):
        found.join(dataclasses.replace(found, budget=found.budget | {"amount": 3.0}))


@pytest.mark.parametrize("harm", ["", "{}", "[]", '{"runs": 3}', "not json", "half"])
def test_harmed_files_are_named(found, harm, tmp_path):
    file = tmp_path / "found.json"
    found.save(file)
    file.write_text(file.read_text()[: 5000 if harm == "half" else 0] + ("" if harm == "half" else harm))
    with pytest.raises(bp.CorruptFile, match=r"found\.json"):
        bp.Comparison.load(file)
    with pytest.raises(FileNotFoundError, match="`path` must be a saved comparison"):
        bp.Comparison.load(tmp_path / "absent.json")


def test_a_run_that_breaks_ends_where_it_was_last_judged():
    """The gradient is NaN from some x on: the track stops before it and says why."""

    def upper(x, y):
        return jnp.stack([jnp.sum((y - 3) ** 2), jnp.where(x[0] > 1, jnp.nan, jnp.sum((y - 2) ** 2))])

    problem = bp.Problem(upper, lambda x, y: 0.5 * jnp.sum((y - x) ** 2))
    methods = {"MGDA": lambda size, r: bp.mgda(size, 0.5, 20)}
    settings = {"budget": 10_000.0, "step_sizes": (0.05,), "judge": bp.GradientDescent(0.5, 60), "points": 100}
    (run,) = bp.compare(problem, methods, jnp.zeros(1), jnp.zeros(1), **settings).runs
    assert run.track.status is bp.Status.NON_FINITE_VALUE
    assert np.isfinite(run.track.values).all()
    assert len(run.track.steps) > 1


def test_pictures_show_every_method(found, tmp_path):
    for kind in ("calls", "seconds", "radar"):
        figure = found.plot(kind)
        figure.savefig(tmp_path / "figure.png")
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == list(METHODS)
    lines = found.plot("calls").axes[0].get_lines()
    worst = np.max([run.track.gap for run in found.of("AID")], axis=0)
    np.testing.assert_allclose(lines[2].get_ydata(), worst, rtol=1e-6)
    spider = found.plot("radar").axes[0].get_lines()[0].get_ydata()
    np.testing.assert_allclose(spider[:-1], 1 / found.best("WC-MHGD")[0])
    with pytest.raises(ValueError, match="did you mean 'calls'"):
        found.plot("call")
    with pytest.raises(ValueError, match="`measure` must be one of"):
        found.plot("radar", measure="accuracy")


def test_progress_names_method_step_size_and_preference(capsys):
    compared(step_sizes=dict.fromkeys(METHODS, 0.05), progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 7
    assert lines[1].startswith("WC-MHGD, step size 0.05, seed 0, preference 2/3: COMPLETED after")

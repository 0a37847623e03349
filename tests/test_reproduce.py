"""The paper's figures: run what is missing, save it, draw from what is saved."""

import dataclasses
import json

import numpy as np
import pytest

from bipareto import preferences
from bipareto.comparison import Comparison
from bipareto.datasets import digits
from bipareto.experiments import contests, figures, hyper_cleaning, studies
from bipareto.experiments.geometry import GRADIENTS, PREFERENCE, VALUES, geometry
from bipareto.experiments.reproduce import FIGURES, reproduce
from bipareto.store import describe

TINY = dataclasses.replace(
    hyper_cleaning.QUICK, sizes=(60, 40, 40), steps=3, lower_steps=2, seeds=2,
    lower_batch=8, upper_batch=8, cross_batch=8, neumann_batch=8,
)  # fmt: skip


@pytest.fixture
def tiny(monkeypatch):
    """Hyper-cleaning of a few embedded digits in place of MNIST."""
    small = dataclasses.replace(studies.EXPERIMENTS["stochastic"], presets={"quick": TINY}, load=digits)
    monkeypatch.setitem(studies.EXPERIMENTS, "stochastic", small)


def test_every_figure_of_the_paper_has_a_name():
    assert set(FIGURES) == {
        "geometry",
        *(f"deterministic-{kind}" for kind in ("preferences", "extreme", "u", "depth", "none-5", "none-10", "comparison")),
        *(f"stochastic-{kind}" for kind in ("preferences", "u", "depth", "none-5", "none-10", "comparison")),
    }
    assert FIGURES["deterministic-extreme"].study.settings("paper").peak == 0.96
    assert FIGURES["stochastic-none-10"].study.settings("paper").tasks == 10
    variants = FIGURES["stochastic-depth"].study.variants
    assert [FIGURES["stochastic-depth"].study.settings("paper", v).lower_steps for v in variants] == [50, 100, 200]


@pytest.mark.usefixtures("tiny")
def test_a_study_is_run_once_saved_and_drawn(tmp_path, monkeypatch):
    picture = reproduce("stochastic-preferences", "quick", tmp_path)
    saved = json.loads(picture.with_suffix(".json").read_text())
    assert [seed["seed"] for seed in saved["seeds"]] == [0, 1]
    assert len(saved["seeds"][0]["runs"]) == 5
    assert saved["tasks"][4] == "60% wrong"
    assert saved["seeds"][0]["runs"][0]["corrupted_weight"][0] is None  # no label of the first task is wrong
    assert picture.stat().st_size > 10_000
    assert sorted(entry.name for entry in picture.parent.iterdir()) == [picture.with_suffix(".json").name, picture.name]
    monkeypatch.setattr(studies, "explore", None)  # nothing is computed again
    reproduce("stochastic-preferences", "quick", tmp_path)
    saved["settings"]["ridge"] = 3.0
    picture.with_suffix(".json").write_text(json.dumps(saved))
    with pytest.raises(ValueError, match="hold results of the same settings"):
        reproduce("stochastic-preferences", "quick", tmp_path)
    mean, error = figures.measured(saved, "train_loss")
    runs = 1 / np.array([[run["train_loss"] for run in seed["runs"]] for seed in saved["seeds"]])
    np.testing.assert_allclose(mean, runs.mean(axis=0))
    np.testing.assert_allclose(error, np.abs(runs[0] - runs[1]) / 2)


@pytest.mark.usefixtures("tiny")
def test_a_comparison_is_run_once_per_seed_saved_and_drawn(tmp_path, monkeypatch):
    whole = contests.CONTESTS["stochastic-comparison"]
    some = lambda settings: {name: whole.methods(settings)[name] for name in ("WC-MHGD", "SOBA")}  # noqa: E731
    monkeypatch.setitem(contests.CONTESTS, whole.name, dataclasses.replace(whole, methods=some, grid=(1.0, 3.0), points=2))
    picture = reproduce(whole.name, "quick", tmp_path, seeds=1)
    first = Comparison.load(picture.with_suffix(".json"))
    reproduce(whole.name, "quick", tmp_path)
    found = Comparison.load(picture.with_suffix(".json"))
    assert len(found.start) == TINY.seeds
    assert found.chosen == first.chosen
    np.testing.assert_array_equal(found.runs[0].track.values, first.runs[0].track.values)
    assert found.of("WC-MHGD")[0].track.steps[-1] == TINY.steps  # its own budget
    assert found.names[4] == "60% wrong"
    assert {len(run.measures["test_accuracy"]) for run in found.runs} == {5}
    assert picture.stat().st_size > 10_000
    monkeypatch.setattr(contests, "compare", None)  # nothing is computed again
    reproduce(whole.name, "quick", tmp_path)
    monkeypatch.setitem(contests.CONTESTS, whole.name, dataclasses.replace(whole, methods=some, grid=(1.0, 9.0)))
    with pytest.raises(ValueError, match="hold results of the same settings; found grid"):
        reproduce(whole.name, "quick", tmp_path)


@pytest.mark.parametrize("name", contests.CONTESTS)
def test_every_method_of_a_comparison_follows_step_size_and_settings(name):
    contest = contests.CONTESTS[name]
    settings = studies.EXPERIMENTS[contest.experiment].presets["tuned"]
    rows = preferences.focused(settings.tasks, settings.peak)
    for build in contest.methods(settings).values():
        algorithm = build(7.0, rows[1])
        told = describe("", algorithm)
        assert 7.0 in told.values()
        weighting = getattr(algorithm, "weighting", None)
        weights = getattr(weighting, "preference", getattr(weighting, "weights", None))
        if weights is not None:
            np.testing.assert_allclose(weights, rows[1])
        assert algorithm.draws == (contest.experiment == "stochastic")


def synthetic(name, seeds=2):
    """Results of the right form with known numbers."""
    study = FIGURES[name].study
    settings = study.settings("paper")
    tasks = studies.EXPERIMENTS[study.experiment].names(settings)
    rng = np.random.default_rng(0)
    measures = [name for name, _ in figures._MEASURES[study.experiment]]
    curve = {"step": list(range(5)), "values": rng.uniform(0.1, 2, (5, len(tasks))).tolist(), "gap": [1.0] * 5}
    run = lambda: {name: rng.uniform(0.5, 1, len(tasks)).tolist() for name in measures} | {"curve": curve}  # noqa: E731
    rows = [{"seed": seed, "seconds": [1.0], "runs": [run() for _ in study.variants]} for seed in range(seeds)]
    head = {"study": name, "experiment": study.experiment, "preset": "paper", "tasks": tasks}
    return head | {"variants": [dataclasses.asdict(variant) for variant in study.variants], "seeds": rows}


@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if figure.study])
def test_every_figure_draws_all_its_variants(name, tmp_path):
    results = synthetic(name)
    figure = getattr(figures, FIGURES[name].drawing)(results)
    figure.savefig(tmp_path / "figure.png")
    labels = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    if FIGURES[name].drawing == "alone":
        assert labels == {*results["tasks"], "seed 0", "seed 1"}
    else:
        assert len(labels - {"best of all"}) == len(results["variants"])
    if FIGURES[name].drawing == "radars":
        mean, _ = figures.measured(results, "train_loss")
        np.testing.assert_allclose(figure.axes[0].get_lines()[1].get_ydata()[:-1], mean[1])


def test_the_geometry_is_computed(tmp_path):
    found = geometry()
    scaled = PREFERENCE[:, None] * GRADIENTS
    shortest = min(np.linalg.norm(t * GRADIENTS[0] + (1 - t) * GRADIENTS[1]) for t in np.linspace(0, 1, 10_001))
    np.testing.assert_allclose(np.linalg.norm(found["mgda"]), shortest, rtol=1e-6)
    for u, lam in zip(found["u"], found["weights"], strict=True):
        grid = np.linspace(0, 1, 1001)
        mixes = np.stack([grid, 1 - grid], axis=1)
        heights = np.sum((mixes @ scaled) ** 2, axis=1) - u * mixes @ (PREFERENCE * VALUES)
        lam = np.array(lam)
        assert np.sum((lam @ scaled) ** 2) - u * lam @ (PREFERENCE * VALUES) <= heights.min() + 1e-12
    assert found["weights"][-1] == [1.0, 0.0]  # the objective with the larger r phi
    assert reproduce("geometry", "tuned", tmp_path).stat().st_size > 10_000


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`name` must be one of .* did you mean 'stochastic-depth'"):
        reproduce("stochastic-dept", out=tmp_path)
    with pytest.raises(ValueError, match="did you mean 'tuned'"):
        reproduce("stochastic-depth", "tune", out=tmp_path)

"""What the README and the examples show is run as it stands."""

import importlib.util
import json
import pathlib
import re
from typing import ClassVar

import jax
import numpy as np
import pytest

import bipareto as bp
from bipareto.datasets import digits
from bipareto.experiments import demo
from bipareto.experiments.hyper_cleaning import corrupted, split
from bipareto.weighting import Weighting
from cases import separable_quadratic

ROOT = pathlib.Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


@pytest.fixture
def single_precision():
    with jax.enable_x64(False):
        yield


@pytest.mark.usefixtures("single_precision")
def test_readme_quickstart(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quickstart = BLOCKS[0]
    assert len(quickstart.strip().splitlines()) <= 25
    names = {}
    exec(compile(quickstart, "README.md", "exec"), names)
    solution = names["solution"]
    assert solution.status is bp.Status.COMPLETED
    assert "COMPLETED after 200 steps" in capsys.readouterr().out
    before = solution.history.values[0]
    r = np.array([0.2, 0.2, 0.6])
    assert np.max(r * solution.values) < np.max(r * before)
    for block in BLOCKS[1:]:
        exec(compile(block, "README.md", "exec"), names)
        assert not names["front"].failed.any()
    assert (tmp_path / "run" / "result-00000.npz").exists()
    assert names["closer"].values[0] < solution.values[0]
    assert np.argmin(names["front"].values[:, 0], axis=0).tolist() == [0, 1, 2]
    assert names["noisy"].evaluations.steps.tolist() == list(range(0, 200, 20))
    assert np.max(r * names["noisy"].values) < np.max(r * names["noisy"].evaluations.values[0])
    other = bp.solve(names["problem"], bp.wc_mhgd([0.6, 0.2, 0.2], 0.5, 0.2, 50), np.zeros(10), np.zeros((3, 10)), 200)
    assert other.values[0] < solution.values[0]
    assert other.values[2] > solution.values[2]


def test_the_page_on_clusters_is_python_that_shards():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "clusters.md").read_text(), flags=re.DOTALL)
    for block in blocks:
        compile(block, "clusters.md", "exec")
    case = separable_quadratic(objectives=2)
    names = {"bp": bp, "problem": case.problem}
    exec(compile(next(block for block in blocks if "shard(" in block), "clusters.md", "exec"), names)
    assert isinstance(names["problem"], bp.SeparableProblem)


@pytest.mark.usefixtures("single_precision")
def test_the_weighting_of_the_contributors_page_works():
    block = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.DOTALL)[0]
    names = {"Weighting": Weighting, "ClassVar": ClassVar, "jax": jax, "np": np}
    exec(compile(block, "CONTRIBUTING.md", "exec"), names)
    algorithm = bp.HypergradientDescent(bp.GradientDescent(0.1, 32), bp.CG(), names["Softmax"](0.1), step_size=0.1)
    upper = lambda x, y: np.array([1.0, 2.0]) * (y - 1.0) ** 2  # noqa: E731
    solution = bp.solve(bp.Problem(upper, lambda x, y: ((y - x) ** 2).sum()), algorithm, np.zeros(2), np.zeros(2), 50)
    assert (solution.values < solution.history.values[0]).all()


@pytest.mark.usefixtures("single_precision")
def test_the_readmes_table_of_names_is_true():
    names = set(re.findall(r"`(\w+)[`(]", (ROOT / "README.md").read_text().split("## What there is")[1].split("- **Any")[0]))
    assert {"Problem", "CG", "wc_mhgd", "solve"} <= names
    assert all(hasattr(bp, name) for name in names - {"prepare"})


@pytest.mark.usefixtures("single_precision")
@pytest.mark.parametrize("name", ["equinox_model", "nnx_model"])
def test_examples_run_and_improve(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    solution = example.main(steps=25)
    assert solution.status is bp.Status.COMPLETED
    assert (solution.values < solution.history.values[0]).all()


@pytest.mark.usefixtures("single_precision")
def test_demo_prints_its_table_and_saves_its_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["demo", "--steps", "60", "--out", str(tmp_path / "results")])
    demo.main()
    shown = capsys.readouterr().out
    results = json.loads((tmp_path / "results" / "hyper_cleaning.json").read_text())
    runs = results["runs"]
    assert next(iter(runs)) == "not cleaned"
    assert len(runs) == 7
    losses = np.array([runs[f"{rate:.0%} wrong"]["losses"] for rate in results["rates"]])
    assert (np.argmin(losses, axis=0) == np.arange(5)).all()  # every task is best off under its own preference
    assert shown.count("*") == 1 + 5
    assert (tmp_path / "results" / "hyper_cleaning.png").stat().st_size > 20_000
    assert str(tmp_path / "results" / "hyper_cleaning.png") in shown
    assert f"Report:  {tmp_path / 'results' / 'report.html'}" in shown
    assert "loss, 45% wrong [nats]" in (tmp_path / "results" / "report.html").read_text()


def test_demo_refuses_wrong_settings(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["demo", "--steps", "0", "--out", str(tmp_path / "never")])
    with pytest.raises(SystemExit, match="2"):
        demo.main()
    assert "--steps must be >= 1; found 0" in capsys.readouterr().err
    assert not (tmp_path / "never").exists()


def test_the_digits_are_the_digits():
    images, labels = digits()
    assert images.shape == (1797, 64)
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert images.min() == 0
    assert images.max() == 1
    np.testing.assert_array_equal(16 * images[0, :8], [0, 0, 5, 13, 9, 1, 0, 0])


def test_corruption_is_nested_and_at_its_rate():
    labels = np.arange(1000) % 10
    noisy = corrupted(labels, (0.0, 0.3, 0.6), 10, seed=3)
    wrong = noisy != labels
    assert wrong.mean(axis=1).tolist() == [0.0, 0.3, 0.6]
    assert (wrong[2] | ~wrong[1]).all()
    parts = split(labels[:, None], labels, (600, 300, 100), seed=1)
    assert [len(part.labels) for part in parts] == [600, 300, 100]

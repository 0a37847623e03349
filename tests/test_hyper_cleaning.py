"""Hyper-cleaning in small: embedded digits always, MNIST where its files are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto.datasets import digits, mnist
from bipareto.experiments import hyper_cleaning as hc
from bipareto.oracles import bind
from bipareto.solver import start

SMALL = dataclasses.replace(
    hc.QUICK, sizes=(400, 300, 400), steps=60, lower_steps=30, step_size=300.0, ridge=0.02,
    lower_batch=64, upper_batch=150, cross_batch=200, neumann_batch=100,
)  # fmt: skip
ROWS = bp.preferences.focused(5, 0.9)


@pytest.fixture(params=["digits", "MNIST"])
def small(request, monkeypatch):
    if request.param == "digits":
        return hc.hyper_cleaning(*digits(), SMALL)
    monkeypatch.setenv("BIPARETO_DATA", str(request.getfixturevalue("data_folder")))
    return hc.hyper_cleaning(*mnist(), dataclasses.replace(SMALL, lower_step_size=0.3))


def solve(data, preference, seed=0):
    algorithm = hc.algorithm(SMALL, preference)
    return bp.solve(data.problem, algorithm, data.x0, data.y0, SMALL.steps, key=jax.random.key(seed))


def test_the_defaults_are_the_papers():
    settings = hc.PRESETS["paper"]
    assert settings == hc.Settings()
    assert (settings.steps, settings.lower_steps, settings.neumann_terms, settings.neumann_step_size) == (150, 200, 3, 0.5)
    assert (settings.lower_step_size, settings.step_size, settings.u, settings.ridge) == (0.1, 0.1, 10, 0.1)
    assert (settings.peak, settings.seeds, settings.sizes) == (0.9, 5, (20_000, 5_000, 10_000))
    assert hc.RATES[5] == (0, 0.15, 0.3, 0.45, 0.6)
    np.testing.assert_allclose(hc.RATES[10], np.arange(10) / 10)
    changed = {name for name, value in vars(hc.TUNED).items() if value != getattr(hc.PAPER, name)}
    assert changed == {"step_size", "u"}


def test_each_preference_lowers_its_own_task_and_finds_the_wrong_labels(small):
    runs = [solve(small, row) for row in ROWS[[1, 4]]]
    for task, run in zip((1, 4), runs, strict=True):
        assert run.status is bp.Status.COMPLETED
        found = hc.weights(run.x, small)
        assert found.corrupted[task] < found.clean[task] - 0.1
        assert np.isnan(found.corrupted[0])
    assert runs[0].values[1] < runs[1].values[1]
    assert runs[1].values[4] < runs[0].values[4]
    assert runs[1].values[4] < runs[1].history.values[0][4]
    assert (hc.accuracy(runs[1].y, small.test) > 0.5).all()
    before, after = hc.retrained(small.x0, small), hc.retrained(runs[1].x, small)
    np.testing.assert_allclose(before, hc.references(small).everything, atol=1e-6)  # equal weights: nothing was cleaned
    assert after[4] > before[4]


def test_without_a_preference_all_tasks_gain():
    run = solve(hc.hyper_cleaning(*digits(), SMALL), None)
    assert (run.values < run.history.values[0]).all()


def test_ten_rates():
    data = hc.hyper_cleaning(*digits(), dataclasses.replace(SMALL, tasks=10))
    assert data.y0.shape == (10, 64, 10)
    np.testing.assert_allclose((data.noisy != data.train.labels).mean(axis=1), hc.RATES[10], atol=1e-9)
    algorithm = hc.algorithm(SMALL, bp.preferences.focused(10, 0.9)[9])
    oracles, _ = start(data.problem, algorithm, data.x0, data.y0, jax.random.key(0))
    assert oracles.objectives == 10


def test_a_batch_carries_the_weights_of_its_images():
    data = hc.hyper_cleaning(*digits(), SMALL)
    rows = np.array([7, 3, 3, 200])
    x = jnp.linspace(-2, 2, 400)
    model = jnp.asarray(np.random.default_rng(0).normal(size=(64, 10)))
    batch = tuple(map(jnp.asarray, (data.train.images[rows], data.noisy[2][rows], rows)))
    logits = data.train.images[rows] @ np.asarray(model)
    loss = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(4), data.noisy[2][rows]]
    expected = np.mean(loss / (1 + np.exp(-np.asarray(x)[rows]))) + SMALL.ridge * np.sum(np.asarray(model) ** 2)
    np.testing.assert_allclose(data.problem.lower(x, model, batch), expected, rtol=1e-5)


def test_seeds_give_other_splits_and_the_same_seed_the_same():
    first, again, other = (hc.hyper_cleaning(*digits(), SMALL, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.noisy, again.noisy)
    assert (first.train.labels != other.train.labels).any()
    assert first.train.images.dtype == first.x0.dtype == first.y0.dtype == np.float32


def test_references_are_trained_to_convergence():
    data = hc.hyper_cleaning(*digits(), SMALL)
    right = data.noisy == data.train.labels
    everything, clean_only = hc.references(data)
    assert everything[0] == clean_only[0]
    assert clean_only[4] > everything[4]
    models = hc._trained(data, np.full(right.shape, 1.0))
    whole = data._replace(problem=hc.cleaning_problem(data.train, data.noisy, data.validation, SMALL.ridge))
    oracles = bind(whole.problem, data.x0, data.y0)
    saturated = jnp.full_like(data.x0, 40.0)  # sigmoid = 1
    gradient = oracles.lower_gradient(saturated, oracles.y_layout.flatten(models))
    start = oracles.lower_gradient(saturated, oracles.y_layout.flatten(data.y0))
    assert jnp.linalg.norm(gradient) < 1e-3 * jnp.linalg.norm(start)

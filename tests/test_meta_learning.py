"""Meta-learning in small: random images for the mechanics, FC100 where its files are."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto.datasets import fc100
from bipareto.experiments import meta_learning as ml
from bipareto.solver import start

TINY = dataclasses.replace(ml.PAPER, tasks=2, ways=3, sizes=(2, 3, 4), channels=(4, 4), steps=12, lower_steps=5)
BLOCKS = len(TINY.channels)


def pictures(classes=5, each=12, size=8, seed=0):
    """Images whose class shows as a pattern under noise."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes) + 20, each)
    pattern = rng.normal(size=(classes, size, size, 3))
    return pattern[labels - 20] + 0.5 * rng.normal(size=(len(labels), size, size, 3)), labels


def tiny(**changes):
    return ml.meta_learning(*pictures(), dataclasses.replace(TINY, **changes))


def test_the_defaults_are_the_papers():
    settings = ml.PRESETS["paper"]
    assert settings == ml.Settings()
    assert (settings.steps, settings.lower_steps, settings.step_size, settings.lower_step_size) == (500, 32, 0.1, 0.1)
    assert (settings.tasks, settings.ways, settings.u, settings.peak, settings.seeds) == (5, 5, 10, 0.8, 4)
    assert [settings.ways * size for size in settings.sizes[:2]] == [25, 75]
    x = ml.backbone(jax.random.key(0), settings.channels)
    shapes = {name: jax.tree.map(jnp.shape, block) for name, block in x.items()}
    assert shapes["block0"] == {"kernel": (3, 3, 3, 64), "scale": (64,), "shift": (64,)}
    assert shapes["block3"]["kernel"] == (3, 3, 64, 64)
    images = jax.ShapeDtypeStruct((25, 32, 32, 3), jnp.float32)
    assert jax.eval_shape(ml.features, x, (images, None)).shape == (25, 256)
    assert abs(float(jnp.std(x["block3"]["kernel"])) / np.sqrt(2 / (9 * 64)) - 1) < 0.02
    assert {leaf.dtype for leaf in jax.tree.leaves(x)} == {np.dtype("float32")}


def test_tasks_are_drawn_without_showing_their_test_images():
    labels = np.repeat(np.arange(7), 20)
    images = np.arange(140, dtype=np.float32)[:, None, None, None] * np.ones((1, 8, 8, 3), np.float32)
    settings = dataclasses.replace(TINY, tasks=10, sizes=(2, 5, 6))
    parts = ml.few_shot_tasks(images, labels, settings, seed=3)
    number = [part.images[:, :, 0, 0, 0].astype(int) for part in parts]
    assert [part.shape for part in number] == [(10, 6), (10, 15), (10, 18)]
    support, query, test = number
    assert not set(test.ravel()) & (set(support.ravel()) | set(query.ravel()))
    for task in range(10):
        assert len({*support[task], *query[task], *test[task]}) == 6 + 15 + 18
        classes = labels[support[task][::2]]
        assert len(set(classes)) == 3
        for part, shots in zip(number, parts, strict=True):
            np.testing.assert_array_equal(labels[part[task]], classes[shots.labels[task]])
    assert len({tuple(labels[row]) for row in support}) > 1
    again = ml.few_shot_tasks(images, labels, settings, seed=3)
    np.testing.assert_array_equal(again[0].images, parts[0].images)


def test_features_are_normalised_by_the_batch_they_come_in():
    data = tiny()
    images = jnp.asarray(data.query.images[0])
    h = ml.features(data.x0, (images, None))
    np.testing.assert_allclose(ml.features(data.x0, (3 * images, None)), h, atol=1e-3)  # the statistics take the scale
    assert jnp.max(jnp.abs(ml.features(data.x0, (images[:4], None)) - h[:4])) > 0.01  # and depend on the others
    both = jax.vmap(ml.features, (None, 0))(data.x0, (jnp.asarray(data.query.images), jnp.asarray(data.query.labels)))
    np.testing.assert_allclose(both[0], h, atol=1e-5)  # per task


def test_features_of_nearly_constant_images_are_finite_and_so_is_their_gradient():
    data = tiny()
    for images in (0.5 + 1e-6 * data.query.images[0], np.ones_like(data.query.images[0])):
        h, pull = jax.vjp(lambda x, images=images: ml.features(x, (jnp.asarray(images, jnp.float32), None)), data.x0)
        assert jnp.isfinite(h).all()
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(pull(jnp.ones_like(h))))


def test_the_preferred_loss_falls_most():
    data, other = tiny(), None
    for task in range(2):
        run = bp.solve(data.problem, ml.algorithm(TINY, [[0.8, 0.2], [0.2, 0.8]][task]), data.x0, data.y0, TINY.steps)
        assert run.status is bp.Status.COMPLETED
        assert run.values[task] < 0.7 * run.history.values[0][task]
        if other is not None:
            assert run.values[1] < other[1]
            assert run.values[0] > other[0]
        other = run.values
    assert {leaf.dtype for leaf in jax.tree.leaves((run.x, run.y))} == {np.dtype("float32")}


def plain(problem):
    """The same problem with the backbone inside the losses."""
    losses = [lambda x, y, data, loss=loss: loss(ml.features(x, data), y, data) for loss in (problem.upper, problem.lower)]
    return bp.SeparableProblem(*losses, problem.tasks, problem.upper_data, problem.lower_data)


def test_the_prepared_problem_is_the_plain_one():
    data = tiny()
    problem, x, y = jax.tree.map(
        lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf, (data.problem, data.x0, data.y0)
    )
    algorithm = ml.algorithm(TINY, [0.3, 0.7])
    prepared, unprepared = (bp.solve(p, algorithm, x, y, steps=3) for p in (problem, plain(problem)))
    np.testing.assert_allclose(prepared.history.values, unprepared.history.values, rtol=0, atol=1e-10)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-9), prepared.x, unprepared.x)


def in_loops(jaxpr, inside=False):
    """Convolutions inside the loops of a program, at any depth."""
    count = 0
    for equation in jaxpr.eqns:
        count += inside and equation.primitive.name == "conv_general_dilated"
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda v: hasattr(v, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                count += in_loops(inner, inside or equation.primitive.name in ("scan", "while"))
    return count


@pytest.mark.parametrize("lower_steps", [1, 9])
def test_the_backbone_runs_once_per_level_whatever_the_lower_steps(lower_steps):
    """Per task and level: a forward pass; backward, a product per block for its kernel and, but for the first, its input."""
    data = tiny()
    algorithm = ml.algorithm(dataclasses.replace(TINY, lower_steps=lower_steps))
    found = []
    for problem in (data.problem, plain(data.problem)):
        oracles, state = start(problem, algorithm, data.x0, data.y0)
        found.append(in_loops(eqx.filter_make_jaxpr(algorithm.step)(oracles, state, None)[0].jaxpr))
    assert found[0] == 0
    assert found[1] > 0  # without `prepare`, every lower step meets the backbone
    oracles, state = start(data.problem, algorithm, data.x0, data.y0)
    program = eqx.filter_jit(lambda *args: algorithm.step(*args)).lower(oracles, state, None).compile()
    assert len(re.findall(r"= \S+ convolution\(", program.compiled.as_text())) == TINY.tasks * 2 * (3 * BLOCKS - 1)


def test_accuracy_is_counted_per_task():
    data = tiny()
    rng = np.random.default_rng(1)
    y = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), data.y0)
    expected = []
    for task in range(2):
        h = np.asarray(ml.features(data.x0, (data.test.images[task], None)))
        named = np.argmax(h @ np.asarray(y["weight"][task]) + np.asarray(y["bias"][task]), axis=1)
        expected.append(np.mean(named == data.test.labels[task]))
    np.testing.assert_allclose(ml.accuracy(data.x0, y, data.test), expected, atol=1e-6)


def test_learning_carries_over_to_images_it_never_saw():
    data = tiny()
    run = bp.solve(data.problem, ml.algorithm(TINY), data.x0, data.y0, TINY.steps)
    assert (ml.accuracy(run.x, run.y, data.query) > 0.8).all()
    assert ml.accuracy(run.x, run.y, data.test).mean() > 0.6  # chance: 1/3


def test_real_images(data_folder, monkeypatch):
    monkeypatch.setenv("BIPARETO_DATA", str(data_folder))
    settings = dataclasses.replace(ml.QUICK, channels=(4, 4, 4, 4), tasks=10, steps=2, sizes=(1, 2, 2))
    data = ml.meta_learning(*fc100(), settings)
    assert data.support.images.shape == (10, 5, 32, 32, 3)
    assert 0 <= data.query.images.min() < data.query.images.max() <= 1
    run = bp.solve(data.problem, ml.algorithm(settings, np.full(10, 0.1)), data.x0, data.y0, settings.steps)
    assert run.status is bp.Status.COMPLETED


def test_the_compiled_gradient_of_the_features_is_that_taken_step_by_step():
    """Large enough for the compiler to fuse and compute maps anew, where a pooling that looks for its maximum loses it."""
    x = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), ml.backbone(jax.random.key(0), (64, 64)))
    rng = np.random.default_rng(0)
    images, mix = rng.uniform(size=(25, 16, 16, 3)), rng.normal(size=(25, 1024))
    slope = jax.grad(lambda x: jnp.sum(ml.features(x, (images,)) * mix))
    compiled, plain = jax.jit(slope)(x), slope(x)
    for name, block in plain.items():
        error = np.linalg.norm(compiled[name]["kernel"] - block["kernel"])
        assert error <= 1e-12 * np.linalg.norm(block["kernel"])

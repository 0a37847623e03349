"""Shared preparation: a convolutional backbone is computed once per upper step, whatever the lower level does."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto.solver import chunk_size, start
from cases import quadratic

TASKS, CLASSES = 2, 3


def features(kernel, data):
    layout = ("NHWC", "HWIO", "NHWC")
    maps = jax.lax.conv_general_dilated(data[0], kernel, (1, 1), "SAME", dimension_numbers=layout)
    centred = maps - jnp.mean(maps, axis=(0, 1, 2))  # batch statistics, per task
    return jnp.mean(jnp.tanh(centred), axis=(1, 2)).reshape(len(maps), -1)


def query_loss(features, head, data):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(features @ head), data[1][:, None], axis=1))


def support_loss(features, head, data):
    return query_loss(features, head, data) + 0.1 * jnp.sum(head**2)


def few_shot(prepared=True):
    rng = np.random.default_rng(0)
    draw = lambda n: (rng.normal(size=(TASKS, n, 6, 6, 2)), np.tile(np.arange(n) % CLASSES, (TASKS, 1)))  # noqa: E731
    losses, prepare = (query_loss, support_loss), features
    if not prepared:
        losses = [lambda x, y, data, loss=loss: loss(features(x, data), y, data) for loss in losses]
        prepare = None
    problem = bp.SeparableProblem(*losses, tasks=TASKS, upper_data=draw(9), lower_data=draw(6), prepare=prepare)
    return problem, jnp.array(rng.normal(size=(3, 3, 2, 4))), jnp.zeros((TASKS, 4, CLASSES))


def convolutions(problem, x, y, algorithm):
    oracles, state = start(problem, algorithm, x, y)
    program = eqx.filter_jit(lambda *args: algorithm.step(*args)).lower(oracles, state, None).compile()
    return len(re.findall(r"= \S+ convolution\(", program.compiled.as_text()))


@pytest.mark.parametrize("hypergradient", [bp.Unrolled(), bp.CG(3)], ids=["Unrolled", "CG"])
@pytest.mark.parametrize("lower_steps", [1, 9])
def test_the_backbone_runs_once_per_level_and_upper_step(hypergradient, lower_steps):
    """Forward once and backward once for query and support images of a task, in the whole compiled step."""
    algorithm = bp.mgda(0.1, 0.5, lower_steps, hypergradient)
    assert convolutions(*few_shot(), algorithm) == 4 * TASKS


@pytest.mark.parametrize("prepared", [True, False])
def test_more_lower_steps_do_not_prepare_more_often(prepared):
    """Counted while running: without `prepare` every lower step and every product meets the expensive part again."""
    calls = []

    def expensive(x):
        jax.debug.callback(lambda: calls.append(1))
        return jnp.tanh(x)

    upper = lambda h, y: jnp.stack([jnp.sum((y - h) ** 2), jnp.sum((y + 1) ** 2)])  # noqa: E731
    lower = lambda h, y: jnp.sum((y - 2 * h) ** 2)  # noqa: E731
    if prepared:
        problem = bp.Problem(upper, lower, prepare=expensive)
    else:
        problem = bp.Problem(lambda x, y: upper(expensive(x), y), lambda x, y: lower(expensive(x), y))
    counts = []
    for lower_steps, cg_steps in ((2, 2), (20, 12)):
        calls.clear()
        bp.solve(problem, bp.mgda(0.1, 0.1, lower_steps, bp.CG(cg_steps)), jnp.ones(2), jnp.ones(2), steps=1)
        jax.effects_barrier()
        counts.append(len(calls))
    assert (counts[0] == counts[1]) is prepared


def test_the_run_is_that_of_the_unprepared_problem():
    algorithm = bp.wc_mhgd([0.7, 0.3], 0.5, 0.5, 5, bp.Unrolled())
    a, b = (bp.solve(*few_shot(prepared)[:1], algorithm, *few_shot(prepared)[1:], steps=4) for prepared in (True, False))
    np.testing.assert_allclose(a.x, b.x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(a.history.values, b.history.values, rtol=0, atol=1e-12)
    assert a.oracles == b.oracles


def test_convolutions_are_kept_out_of_compiled_loops_on_the_cpu():
    problem, x, y = few_shot()
    assert chunk_size(*start(problem, bp.mgda(), x, y)) == 1
    case = quadratic()
    assert chunk_size(*start(case.problem, bp.mgda(), case.x, case.y)) > 1

"""Bad input: one clear error (parameter, rule, found, remedy) before any compute."""

import json
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from cases import quadratic
from wrong_calls import WRONG

CASE = quadratic(objectives=2)


@pytest.fixture(scope="module")
def outcomes():
    script = pathlib.Path(__file__).with_name("wrong_calls.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_there_are_many():
    assert len(WRONG) >= 40


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_explained_before_any_compute(name, outcomes):
    kind, text = outcomes[name]
    assert kind in ("ValueError", "TypeError", "FileNotFoundError"), text
    assert WRONG[name][1] in text
    rule, *rest = text.split("; ")
    assert rule.startswith("`")
    assert " must " in rule
    assert any(part.startswith("found ") for part in rest)
    assert len(rest) >= 2
    assert not rest[-1].startswith("found ")


def test_a_failing_user_function_shows_its_own_error():
    def broken(x, y):
        return {}["loss"]

    with pytest.raises(TypeError, match="KeyError: 'loss'") as caught:
        bp.solve(bp.Problem(CASE.problem.upper, broken), bp.mgda(), CASE.x, CASE.y)
    assert isinstance(caught.value.__cause__, KeyError)


def test_good_input_of_unusual_kinds_is_accepted():
    algorithm = bp.wc_mhgd(np.float32([1, 3]), np.float64(0.1), jnp.asarray(0.1), 3)
    solution = bp.solve(CASE.problem, algorithm, np.asarray(CASE.x), np.float32(CASE.y), steps=2)
    assert solution.status is bp.Status.COMPLETED
    np.testing.assert_allclose(bp.wc_mhgd((2, 2)).weighting.preference, [0.5, 0.5])
    jax.vmap(lambda r: bp.WeightedChebyshev(r, u=1.0).preference)(jnp.ones((2, 2)))

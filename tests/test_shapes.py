"""What is remembered by shape: asked once per shape, kind and other leaves; never an array."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto import shapes


class Counted:
    """A function that counts how often it was asked."""

    def __init__(self):
        self.asked = 0
        self.of = shapes.by_shape(self._of)

    def _of(self, *trees):
        self.asked += 1
        return len(trees)


@pytest.mark.parametrize(
    "other",
    [jnp.ones(4), jnp.ones(3, jnp.int32), [jnp.ones(3)], jnp.ones((3, 1)), 1, 1.0, True, "text"],
    ids=["size", "kind", "structure", "axes", "int", "float", "bool", "text"],
)
def test_another_shape_kind_or_leaf_is_asked_anew(other):
    counted = Counted()
    for tree in (jnp.ones(3), jnp.zeros(3), other):
        counted.of(tree)
    assert counted.asked == 2


def test_equal_numbers_of_other_types_are_not_mixed_up():
    counted = Counted()
    for number in (1, 1.0, True, 1):
        counted.of(number)
    assert counted.asked == 3


def test_weak_types_are_told_apart():
    counted = Counted()
    weak = jnp.asarray(1.0)
    counted.of(weak)
    counted.of(jnp.zeros((), weak.dtype))
    assert counted.asked == 2


def test_precision_is_told_apart():
    counted, array = Counted(), jnp.zeros(3, jnp.float32)
    counted.of(array)
    with jax.enable_x64(not jax.config.jax_enable_x64):
        counted.of(array)
        counted.of(array)
    assert counted.asked == 2


def test_what_cannot_be_hashed_is_asked_every_time():
    counted = Counted()
    for _ in range(2):
        counted.of({1, 2})
    assert counted.asked == 2


def test_a_failure_is_not_remembered():
    calls = []

    @shapes.by_shape
    def fails_first(tree):
        calls.append(tree)
        if len(calls) == 1:
            raise ValueError("not yet")
        return tree.shape

    with pytest.raises(ValueError, match="not yet"):
        fails_first(jnp.ones(2))
    assert fails_first(jnp.ones(2)) == (2,)


def test_answers_are_bounded_and_arrays_are_let_go():
    counted = Counted()
    array = jnp.ones(1000)
    held = weakref.ref(array)
    counted.of(array)
    del array
    gc.collect()
    assert held() is None
    for size in range(1, shapes._MOST + 1):
        counted.of(jnp.ones(size))
    asked = counted.asked
    counted.of(jnp.ones(shapes._MOST))
    assert counted.asked == asked  # the newest is known
    counted.of(jnp.ones(1000))
    assert counted.asked == asked + 1  # the oldest was dropped


def test_a_second_hypergradient_does_not_trace_the_losses():
    calls = []

    def upper(x, y):
        calls.append("upper")
        return jnp.stack([jnp.sum((y - 1) ** 2), jnp.sum((y + x) ** 2)])

    def lower(x, y):
        calls.append("lower")
        return jnp.sum((y - x) ** 2)

    problem = bp.Problem(upper, lower)
    first = bp.hypergradient(problem, jnp.ones(2), jnp.ones(2))
    traced = len(calls)
    again = bp.hypergradient(problem, 2 * jnp.ones(2), jnp.zeros(2))
    assert len(calls) == traced
    assert not np.allclose(first[0], again[0])
    bp.hypergradient(problem, jnp.ones(3), jnp.ones(3))
    assert len(calls) > traced

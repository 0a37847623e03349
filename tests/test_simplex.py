"""The simplex solver keeps its promise on every family of problems, judged in extended precision and by other solvers.

The promise: weights on the simplex, and with scale = max(diag gram) + max(linear) − min(linear), a duality gap of at
most 1e-12·scale in float64 (also 1e-6·λ'·gram·λ wherever that is above 1e-8·scale), and 1e-5·scale in float32.
"""

import itertools
import re

import hypothesis
import hypothesis.extra.numpy
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from bipareto import simplex
from bipareto.simplex import duality_gap, simplex_qp

SIZES = {1: 40, 2: 250, 3: 200, 5: 250, 9: 150, 17: 80, 40: 30, 100: 10}
solve = jax.jit(simplex_qp)
# With the code generator that users get; see conftest.py.
solve_each = jax.jit(jax.vmap(simplex_qp), compiler_options={"xla_cpu_use_fusion_emitters": True})


def grams(jacobians):
    return jacobians @ jacobians.swapaxes(-1, -2)


def powers(rng, low, high, *shape):
    return 10.0 ** rng.uniform(low, high, shape)


def centred(rng, jacobians):
    """The jacobians moved so that some convex combination of their rows is zero."""
    weights = rng.dirichlet(np.ones(jacobians.shape[1]), len(jacobians))
    return jacobians - np.einsum("ns,nsp->np", weights, jacobians)[:, None]


def well_conditioned(rng, count, size):
    return grams(rng.normal(size=(count, size, 2 * size + 3))), rng.normal(size=(count, size))


def correlated(rng, count, size):
    rows = rng.normal(size=(count, size, size + 2)) + 2 * rng.normal(size=(count, 1, size + 2))
    return grams(rows), rng.normal(size=(count, size))


def singular(rng, count, size):
    linear = rng.normal(size=(count, size)) * powers(rng, -3, 1, count, 1)
    return grams(rng.normal(size=(count, size, max(1, size // 3)))), linear


def in_the_plane(rng, count, size):
    rows = rng.normal(size=(count, size, 2)) + 3 * rng.normal(size=(count, 1, 2))
    return grams(rows), 0.1 * rng.normal(size=(count, size))


def duplicates(rng, count, size):
    rows = rng.normal(size=(count, size, size + 2)) + rng.normal(size=(count, 1, size + 2))
    which = rng.integers(0, max(1, size // 2), (count, size, 1))
    return np.take_along_axis(rows, which, 1)


def duplicated(rng, count, size):
    linear = np.where(rng.random((count, 1)) < 0.5, 0.0, rng.normal(size=(count, size)))
    return grams(duplicates(rng, count, size)), linear


def nearly_duplicated(rng, count, size):
    rows = duplicates(rng, count, size)
    linear = rng.normal(size=(count, size)) * rng.choice([0, 1e-9, 1e-3], (count, 1))
    return grams(rows + 1e-9 * rng.normal(size=rows.shape)), linear


def scaled_up(rng, count, size):
    gram, linear = correlated(rng, count, size)
    return 1e12 * gram, 1e12 * linear


def scaled_down(rng, count, size):
    gram, linear = correlated(rng, count, size)
    return 1e-12 * gram, 1e-12 * linear


def spread_scales(rng, count, size):
    rows = rng.normal(size=(count, size, size + 1)) * powers(rng, -6, 6, count, size, 1)
    linear = rng.normal(size=(count, size)) * powers(rng, -6, 6, count, size)
    return grams(rows), linear * rng.choice([0, 1], (count, 1))


def spread_and_singular(rng, count, size):
    rows = rng.normal(size=(count, size, max(1, size // 2))) * powers(rng, -6, 6, count, size, 1)
    return grams(rows), rng.normal(size=(count, size)) * powers(rng, -12, -6, count, size)


def zero_gram(rng, count, size):
    return np.zeros((count, size, size)), rng.normal(size=(count, size))


def zero_linear(rng, count, size):
    return grams(rng.normal(size=(count, size, size + 1))), np.zeros((count, size))


def all_zero(rng, count, size):
    return np.zeros((count, size, size)), np.zeros((count, size))


def near_stationary(rng, count, size):
    rows = centred(rng, rng.normal(size=(count, size, size + 2)))
    rows = rows + powers(rng, -9, -3, count, 1, 1) * rng.normal(size=(count, 1, size + 2))
    linear = rng.normal(size=(count, size)) * powers(rng, -12, -3, count, 1)
    return grams(rows), linear * rng.choice([0, 1], (count, 1))


def near_stationary_and_singular(rng, count, size):
    rows = centred(rng, rng.normal(size=(count, size, max(1, size // 2))))
    rows = rows + powers(rng, -9, -3, count, 1, 1) * rng.normal(size=(count, 1, rows.shape[2]))
    return grams(rows), np.zeros((count, size))


def ill_conditioned(rng, count, size, digits=6):
    """Condition numbers up to 1e12, with the whole basis needed."""
    rows = rng.normal(size=(count, size, size + 2)) * np.logspace(0, -digits, size + 2)
    return grams(centred(rng, rows)), np.zeros((count, size))


def numerically_singular(rng, count, size):
    return ill_conditioned(rng, count, size, digits=9)


def huge_linear(rng, count, size):
    gram, linear = well_conditioned(rng, count, size)
    return gram, linear * powers(rng, 3, 12, count, 1)


def tied_linear(rng, count, size):
    linear = rng.integers(0, 3, (count, size)) * powers(rng, 3, 12, count, 1)
    return grams(rng.normal(size=(count, size, size + 1))), linear


def small_linear(rng, count, size):
    gram, linear = well_conditioned(rng, count, size)
    return gram, linear * powers(rng, -15, -3, count, 1)


def offset_linear(rng, count, size):
    gram, linear = well_conditioned(rng, count, size)
    return gram, rng.choice([-1e6, 1e6], (count, 1)) + 1e-2 * linear


def lattice(rng, count, size):
    """Small integers: many ties, many degenerate steps."""
    rows = rng.integers(-1, 2, (count, size, max(1, size // 2))).astype(float)
    return grams(rows), rng.integers(0, 2, (count, size)) * rng.choice([0.0, 1.0], (count, 1))


FAMILIES = [
    well_conditioned,
    correlated,
    singular,
    in_the_plane,
    duplicated,
    nearly_duplicated,
    scaled_up,
    scaled_down,
    spread_scales,
    spread_and_singular,
    zero_gram,
    zero_linear,
    all_zero,
    near_stationary,
    near_stationary_and_singular,
    ill_conditioned,
    numerically_singular,
    huge_linear,
    tied_linear,
    small_linear,
    offset_linear,
    lattice,
]


def judged(gram, linear, weights):
    """Gap, squared norm and scale of each problem of a batch, in extended precision."""
    gram, linear, weights = (np.asarray(array, np.longdouble) for array in (gram, linear, weights))
    linear = linear - linear.max(-1, keepdims=True)
    product = np.einsum("nst,nt->ns", gram, weights)
    gradient = 2 * product - linear
    gap = np.sum(weights * gradient, -1) - gradient.min(-1)
    scale = np.diagonal(gram, axis1=-2, axis2=-1).max(-1) - linear.min(-1)
    return gap, np.sum(weights * product, -1), scale


def check_simplex(weights):
    eps = np.finfo(weights.dtype).eps
    assert np.all(weights >= 0)
    assert np.all(np.abs(weights.astype(np.longdouble).sum(-1) - 1) <= 4 * eps)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_promise_float64(family):
    assert sum(SIZES.values()) >= 1000
    for size, count in SIZES.items():
        gram, linear = family(np.random.default_rng([size, 64]), count, size)
        weights = np.asarray(solve_each(gram, linear))
        assert weights.dtype == np.float64
        check_simplex(weights)
        gap, squared, scale = judged(gram, linear, weights)
        assert np.all(gap <= 1e-12 * scale), (size, np.max(gap / scale))
        matters = squared > 1e-8 * scale
        assert np.all(gap[matters] <= 1e-6 * squared[matters]), (size, np.max(gap[matters] / squared[matters]))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_promise_float32(family):
    for size, count in SIZES.items():
        gram, linear = family(np.random.default_rng([size, 32]), count, size)
        gram, linear = gram.astype(np.float32), linear.astype(np.float32)
        weights = np.asarray(solve_each(gram, linear))
        assert weights.dtype == np.float32
        check_simplex(weights)
        gap, _, scale = judged(gram, linear, weights)
        assert np.all(gap <= 1e-5 * scale), (size, np.max(gap / scale))


@jax.jit
@jax.vmap
def one_round(gram, linear):
    problem = simplex._normalised(gram, linear)
    start = simplex._restarted(problem, simplex._started(problem))
    most = 10 * linear.size + 40
    state = jax.lax.while_loop(lambda s: s.running & (s.steps < most), lambda s: simplex._step(problem, s), start)
    return problem, state


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_round_ends_by_itself(dtype):
    for family in (ill_conditioned, numerically_singular, spread_scales, lattice, near_stationary_and_singular):
        gram, linear = (array.astype(dtype) for array in family(np.random.default_rng(5), SIZES[17], 17))
        _, state = one_round(gram, linear)
        assert not np.any(state.running), family.__name__


def test_pivots_keep_the_inverse_of_the_basis():
    for family in (well_conditioned, correlated, zero_linear, duplicated, lattice):
        (system, _, _), state = one_round(*family(np.random.default_rng(6), SIZES[17], 17))
        inside = state.basis[:, :, None] & state.basis[:, None, :]
        product = np.where(inside, state.inverse @ system, 0)
        np.testing.assert_allclose(product, inside * np.eye(18), rtol=0, atol=1e-10, err_msg=family.__name__)
        assert not np.any(state.point[~state.basis]), family.__name__


def test_the_last_of_a_basis_is_replaced():
    problem = simplex._normalised(jnp.eye(3), jnp.array([-1000.0, 0, 0]))
    point = jnp.array([0.4, 0.3, 0.3, 0])
    state = simplex._started(problem)._replace(point=point, residual=problem.target - problem.system @ point)
    state = simplex._step(problem, simplex._restarted(problem, state))
    np.testing.assert_array_equal(state.basis, [False, True, False, True])
    np.testing.assert_allclose(state.point[:-1], [0, 0.7, 0.3], rtol=0, atol=1e-15)
    inside = np.ix_([1, 3], [1, 3])
    np.testing.assert_allclose(state.inverse[inside] @ problem.system[inside], np.eye(2), rtol=0, atol=1e-15)


@pytest.mark.parametrize("factor", [1, 1e-12])
def test_further_rounds_repair_what_pivots_have_lost(factor):
    gram, linear = ill_conditioned(np.random.default_rng(7), SIZES[100], 100)
    gram = factor * gram
    once, _, scale = judged(gram, linear, one_round(gram, linear)[1].best)
    assert np.max(once / scale) > 3e-14
    gap, _, scale = judged(gram, linear, solve_each(gram, linear))
    assert np.max(gap / scale) <= 2e-14


def value(gram, linear, weights):
    """Up to max(linear), which is the same for all weights, and may drown what differs."""
    weights = np.asarray(weights)
    return weights @ gram @ weights - (linear - linear.max()) @ weights


def scale_of(gram, linear):
    return np.diagonal(gram).max() + np.ptp(linear)


def best_over_supports(gram, linear):
    """The least value over the optima of all faces of the simplex that lie inside them."""
    best = np.inf
    for chosen in itertools.product([False, True], repeat=len(linear)):
        support = np.flatnonzero(chosen)
        if not support.size:
            continue
        system = np.pad(2 * gram[np.ix_(support, support)], (0, 1), constant_values=1.0)
        system[-1, -1] = 0
        solution = np.linalg.lstsq(system, np.append(linear[support], 1), rcond=1e-13)[0][:-1]
        if np.all(solution >= -1e-9):
            solution = np.maximum(solution, 0) / np.maximum(solution, 0).sum()
            weights = np.zeros(len(linear))
            weights[support] = solution
            best = min(best, value(gram, linear, weights))
    return best


@pytest.mark.parametrize("family", [well_conditioned, correlated, singular, in_the_plane, duplicated, lattice, tied_linear])
@pytest.mark.parametrize("size", [2, 4, 6])
def test_value_agrees_with_all_supports(family, size):
    gram, linear = family(np.random.default_rng([size, 1]), 12, size)
    weights = np.asarray(solve_each(gram, linear))
    for one in zip(gram, linear, weights, strict=True):
        assert value(*one) == pytest.approx(best_over_supports(*one[:2]), rel=0, abs=1e-11 * scale_of(*one[:2]))


@pytest.mark.parametrize("linear_scale", [0, 1e-2, 1, 100])
@pytest.mark.parametrize("size", [3, 17, 40])
def test_value_agrees_with_nonnegative_least_squares(size, linear_scale):
    """On the simplex, |Aλ|² − u'λ is |(A − b1')λ|² up to a constant, for A'b = u/2; NNLS finds its shortest point."""
    rng = np.random.default_rng(size)
    for _ in range(10):
        jacobian = rng.normal(size=(size, 2 * size)) + rng.normal(size=2 * size)
        gram, linear = jacobian @ jacobian.T, linear_scale * rng.normal(size=size)
        shift = np.linalg.lstsq(jacobian, linear / 2)[0]
        shifted = np.vstack([(jacobian - shift).T, np.ones(size)])
        reference, _ = scipy.optimize.nnls(shifted, np.append(np.zeros(2 * size), 1), maxiter=100 * size)
        reference = reference / reference.sum()
        weights = solve(jnp.asarray(gram), jnp.asarray(linear))
        expected = value(gram, linear, reference)
        assert value(gram, linear, weights) == pytest.approx(expected, rel=0, abs=1e-12 * scale_of(gram, linear))
        np.testing.assert_allclose(weights, reference, rtol=0, atol=1e-9)


numbers = st.floats(-10, 10, allow_subnormal=False)
common = hypothesis.settings(max_examples=100, deadline=None, derandomize=True)


@st.composite
def problems(draw, sizes=(2, 3, 5)):
    size = draw(st.sampled_from(sizes))
    jacobian = draw(hypothesis.extra.numpy.arrays(float, (size, draw(st.sampled_from([1, 3, 8]))), elements=numbers))
    linear = draw(hypothesis.extra.numpy.arrays(float, size, elements=numbers))
    return jacobian @ jacobian.T, linear


@common
@hypothesis.given(problems(), st.randoms(use_true_random=False))
def test_order_of_objectives_does_not_matter(problem, random):
    gram, linear = problem
    order = np.array(random.sample(range(len(linear)), len(linear)))
    permuted, shuffled = gram[np.ix_(order, order)], linear[order]
    expected = value(gram, linear, solve(gram, linear))
    found = value(permuted, shuffled, solve(permuted, shuffled))
    assert found == pytest.approx(expected, rel=0, abs=1e-12 * scale_of(gram, linear))


@common
@hypothesis.given(problems(), st.floats(1e-9, 1e9))
def test_common_scale_does_not_matter(problem, factor):
    gram, linear = problem
    found = value(gram, linear, solve(factor * gram, factor * linear))
    expected = value(gram, linear, solve(gram, linear))
    assert found == pytest.approx(expected, rel=0, abs=1e-12 * scale_of(gram, linear))


@common
@hypothesis.given(problems(), st.integers(-1000, 1000))
def test_constant_in_linear_does_not_matter(problem, constant):
    gram, linear = problem
    linear = np.round(linear * 1024) / 1024  # So that adding the constant is exact.
    expected = value(gram, linear, solve(gram, linear))
    found = value(gram, linear, solve(gram, linear + constant))
    assert found == pytest.approx(expected, rel=0, abs=1e-12 * scale_of(gram, linear))


@common
@hypothesis.given(problems(sizes=(2,)))
def test_two_objectives_have_a_closed_form(problem):
    gram, linear = problem
    curvature = gram[0, 0] + gram[1, 1] - 2 * gram[0, 1]
    slope = gram[1, 1] - gram[0, 1] + (linear[0] - linear[1]) / 2
    hypothesis.assume(curvature > 1e-3 * scale_of(gram, linear))
    first = np.clip(slope / curvature, 0, 1)
    np.testing.assert_allclose(solve(gram, linear), [first, 1 - first], rtol=0, atol=1e-11)


@common
@hypothesis.given(problems(), hypothesis.extra.numpy.arrays(float, 5, elements=st.floats(0.01, 1)))
def test_gap_bounds_the_distance_from_the_minimum(problem, weights):
    gram, linear = problem
    weights = weights[: len(linear)] / weights[: len(linear)].sum()
    excess = value(gram, linear, weights) - value(gram, linear, solve(gram, linear))
    gap = duality_gap(gram, linear, weights)
    assert excess <= gap + 1e-12 * scale_of(gram, linear)
    expected = judged(gram[None], linear[None], weights[None])[0][0]
    assert float(gap) == pytest.approx(float(expected), rel=1e-12, abs=1e-13 * scale_of(gram, linear))


@pytest.mark.parametrize(
    ("gram", "linear", "expected"),
    [
        ([[3.0]], None, [1.0]),
        ([[3.0]], [-7.0], [1.0]),
        ([[0.0]], None, [1.0]),
        (np.diag([1.0, 2, 3]), None, [6 / 11, 3 / 11, 2 / 11]),
        (np.eye(4), None, [0.25] * 4),
        (np.eye(2), [1.0, 0], [0.75, 0.25]),
        (np.eye(2), [2.0, 0], [1, 0]),
        (np.eye(3), [1.0, 1, -9], [0.5, 0.5, 0]),
        ([[1.0, 2], [2, 4]], None, [1, 0]),
        ([[1.0, -1], [-1, 1]], None, [0.5, 0.5]),
        ([[1.0, -3], [-3, 9]], None, [0.75, 0.25]),
        ([[2.0, 1, 0], [1, 2, 1], [0, 1, 2]], None, [0.5, 0, 0.5]),
        (np.zeros((3, 3)), [0.0, 3, 1], [0, 1, 0]),
    ],
)
def test_pinned(gram, linear, expected):
    weights = simplex_qp(jnp.asarray(gram), None if linear is None else jnp.asarray(linear))
    np.testing.assert_allclose(weights, expected, rtol=0, atol=4e-16)


def test_pinned_gap():
    gram, lam = jnp.diag(jnp.array([1.0, 2.0])), jnp.array([0.5, 0.5])
    assert float(duality_gap(gram, None, lam)) == 0.5  # ∇ = (1, 2), λ'∇ = 1.5
    assert float(duality_gap(gram, jnp.array([0.0, 4.0]), lam)) == 1.5  # ∇ = (1, −2)
    assert float(duality_gap(gram, jnp.array([1e17, 1e17 + 16]), lam)) == 7.5  # ∇ = (1, −14), up to a constant
    assert float(jax.jit(duality_gap)(gram, None, jnp.array([2 / 3, 1 / 3]))) < 1e-15


def test_badly_scaled_objectives_are_solved_at_their_own_scale():
    """The promise is relative to the longest gradient; the weights are right relative to the short ones too."""
    lengths = np.array([1e-5, 2e-5, 1e5])
    weights = np.asarray(solve(jnp.diag(lengths**2), jnp.zeros(3)))
    np.testing.assert_allclose(weights, lengths**-2 / (lengths**-2).sum(), rtol=1e-12)


@pytest.mark.parametrize(("dtype", "factor"), [(np.float32, 1e30), (np.float32, 1e-30), (float, 1e250), (float, 1e-250)])
def test_extreme_scales(dtype, factor):
    gram, linear = (array.astype(dtype) for array in correlated(np.random.default_rng(8), SIZES[5], 5))
    weights = np.asarray(solve_each(gram * dtype(factor), linear * dtype(factor)))
    check_simplex(weights)
    gap, _, scale = judged(gram, linear, weights)
    assert np.all(gap <= 16 * np.finfo(dtype).eps * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["diagonal", "off diagonal", "linear"])
def test_not_finite_gives_nan_and_spoils_no_neighbour(dtype, bad, place):
    gram, linear = (array.astype(dtype) for array in well_conditioned(np.random.default_rng(0), 3, 5))
    expected = np.asarray(solve_each(gram, linear))
    if place == "linear":
        linear[1, 2] = bad
    else:
        row, column = (2, 2) if place == "diagonal" else (2, 3)
        gram[1, row, column] = gram[1, column, row] = bad
    weights = np.asarray(solve_each(gram, linear))
    assert np.all(np.isnan(weights[1]))
    np.testing.assert_array_equal(weights[[0, 2]], expected[[0, 2]])
    assert np.all(np.isnan(solve(gram[1], linear[1])))


def test_indefinite_gram_still_ends_on_the_simplex():
    for size in (2, 5, 17):
        gram = np.random.default_rng(size).normal(size=(SIZES[size], size, size))
        check_simplex(np.asarray(solve_each(gram + gram.swapaxes(1, 2), np.zeros(gram.shape[:2]))))


def test_vmap_over_a_thousand_agrees_with_one_at_a_time():
    gram, linear = correlated(np.random.default_rng(3), 1000, 5)
    together = np.asarray(solve_each(gram, linear))
    alone = np.stack([solve(*one) for one in zip(gram[:50], linear[:50], strict=True)])
    np.testing.assert_allclose(together[:50], alone, rtol=0, atol=1e-12)
    check_simplex(together)


def test_float32_stays_float32_and_on_the_device():
    program = str(jax.make_jaxpr(simplex_qp)(jnp.ones((3, 3), jnp.float32), jnp.ones(3, jnp.float32)))
    assert "while" in program
    assert not re.search(r"f64\[\d", program)  # Python's numbers appear as scalars f64[], and are converted.
    assert "callback" not in program


def test_works_without_x64():
    gram, linear = (array.astype(np.float32) for array in correlated(np.random.default_rng(4), 20, 5))
    with jax.enable_x64(False):
        weights = np.asarray(solve_each(gram, linear))
    assert weights.dtype == np.float32
    check_simplex(weights)
    gap, _, scale = judged(gram, linear, weights)
    assert np.all(gap <= 1e-5 * scale)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            (np.ones((3, 2)),),
            ValueError,
            "`gram` must be a square [S, S] matrix; found shape (3, 2); pass jacobian @ jacobian.T",
        ),
        ((np.ones(3),), ValueError, "`gram` must be a square [S, S] matrix; found shape (3,)"),
        ((np.ones((0, 0)),), ValueError, "found shape (0, 0)"),
        (
            (np.eye(3), np.ones(2)),
            ValueError,
            "`linear` must have shape (3,); found shape (2,); pass one number per row",
        ),
        ((np.eye(3), np.ones((3, 1))), ValueError, "`linear` must have shape (3,); found shape (3, 1)"),
        ((np.eye(3, dtype=int),), TypeError, "`gram` must be real floating point; found dtype int64"),
        ((np.eye(3), np.ones(3, int)), TypeError, "`linear` must be real floating point; found dtype int64"),
        ((np.eye(3, dtype=complex),), TypeError, "`gram` must be real floating point; found dtype complex128"),
    ],
)
@pytest.mark.parametrize("transform", [lambda function: function, jax.jit])
def test_wrong_arguments(arguments, error, text, transform):
    with pytest.raises(error) as caught:
        transform(simplex_qp)(*arguments)
    assert text in str(caught.value)


def test_wrong_weights():
    with pytest.raises(ValueError, match=r"`lam` must have shape \(3,\); found shape \(2,\); pass one weight per row"):
        duality_gap(jnp.eye(3), None, jnp.ones(2))

"""A NaN or Inf ends the run in its step, names the stage and the objective, and leaves the last finite iterate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from cases import quadratic, separable_quadratic

CASE = quadratic()
UPPER, LOWER = CASE.problem.upper, CASE.problem.lower
R3 = [0.5, 0.3, 0.2]
ALGORITHM = bp.wc_mhgd(R3, 0.1, 0.5, 40, bp.CG(10))


@jax.custom_jvp
def no_slope(x):
    return x


no_slope.defjvp(lambda primals, tangents: (primals[0], jnp.nan * tangents[0]))


@jax.custom_jvp
def curved(y):
    return 0.0 * jnp.sum(y)


@curved.defjvp
def _curved(primals, tangents):
    return 0.0 * jnp.sum(primals[0]), jnp.sum(no_slope(0.0 * primals[0]) * tangents[0])


def at_objective(values, index, bad):
    return values.at[index].set(jnp.where(bad, jnp.nan, values[index]))


def failing(x, y, edge):
    """Objective 2 is NaN where objective 0 is at most `edge`."""
    return at_objective(UPPER(x, y), 2, UPPER(x, y)[0] <= edge)


def magnified(x, y, factor):
    return factor * UPPER(x, y)


FAILURES = {
    "lower": (UPPER, lambda x, y: LOWER(x, y) + jnp.nan * y[0], "NON_FINITE_LOWER", None),
    "value": (lambda x, y: UPPER(x, y).at[1].set(jnp.nan), LOWER, "NON_FINITE_VALUE", 1),
    "upper gradient": (lambda x, y: UPPER(x, y).at[2].add(no_slope(y[0] * 0.0)), LOWER, "NON_FINITE_UPPER_GRADIENT", 2),
    "curvature": (UPPER, lambda x, y: LOWER(x, y) + curved(y), "NON_FINITE_DUAL", None),
    "x slope of one objective": (
        lambda x, y: UPPER(x, y).at[1].add(no_slope(x[0] * 0.0)),
        LOWER,
        "NON_FINITE_HYPERGRADIENT",
        1,
    ),
    "x slope of the lower level": (
        UPPER,
        lambda x, y: LOWER(x, y) + no_slope(x[0]) * 0.0 * y[0],
        "NON_FINITE_HYPERGRADIENT",
        None,
    ),
    "indefinite": (UPPER, lambda x, y: LOWER(x, y) - 0.5 * 3.0 * y[0] ** 2 + y[0] ** 4, "NOT_STRONGLY_CONVEX", None),
    "all values": (lambda x, y: UPPER(x, y) * jnp.nan, LOWER, "NON_FINITE_VALUE", None),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_in_the_first_step_is_named(name):
    upper, lower, status, objective = FAILURES[name]
    hypergradient = bp.CG(20) if name != "curvature" else bp.CG(20, warm_start=False)
    y0 = jnp.zeros(6) if name == "indefinite" else CASE.y
    algorithm = bp.wc_mhgd(R3, 0.1, 1e-6 if name == "indefinite" else 0.1, 5, hypergradient)
    solution = bp.solve(bp.Problem(upper, lower), algorithm, CASE.x, y0, 10)
    assert solution.status is bp.Status[status]
    assert solution.status.failed
    assert len(solution.history.gap) == 0
    np.testing.assert_array_equal(solution.x, CASE.x)
    np.testing.assert_array_equal(solution.y, y0)
    assert bp.Status[status].value in solution.message
    assert solution.message.startswith("step 0" + (":" if objective is None else f", objective {objective}:"))
    assert "0 steps" in str(solution)
    with pytest.raises(FloatingPointError, match=status):
        bp.hypergradient(bp.Problem(upper, lower), CASE.x, y0, hypergradient, lower=bp.GradientDescent(1e-6, 2))


def test_a_failure_later_returns_the_last_finite_point():
    """Objective 2 becomes NaN once x has moved far enough; the point returned is the last one before."""
    plain = bp.solve(CASE.problem, ALGORITHM, CASE.x, CASE.y, 12)
    edge = float(plain.history.values[6, 0])
    assert np.argmax(plain.history.values[:, 0] <= edge) == 6
    solution = bp.solve(bp.Problem(failing, LOWER, jnp.asarray(edge)), ALGORITHM, CASE.x, CASE.y, 12)
    assert solution.status is bp.Status.NON_FINITE_VALUE
    assert solution.message.startswith("step 6, objective 2: ")
    assert len(solution.history.gap) == 6
    np.testing.assert_allclose(solution.history.values, plain.history.values[:6], atol=1e-12)
    np.testing.assert_array_equal(solution.values, solution.history.values[-1])
    np.testing.assert_allclose(UPPER(solution.x, solution.y), solution.values, atol=1e-12)
    assert np.isfinite(solution.values).all()


def test_a_failure_at_the_very_end_is_a_failure():
    """The values at x_K are not part of a step; they are checked all the same."""
    plain = bp.solve(CASE.problem, ALGORITHM, CASE.x, CASE.y, 6)
    edge = 0.5 * float(plain.history.values[5, 0] + plain.values[0])
    solution = bp.solve(bp.Problem(failing, LOWER, jnp.asarray(edge)), ALGORITHM, CASE.x, CASE.y, 6)
    assert solution.status is bp.Status.NON_FINITE_VALUE
    assert "objective 2" in solution.message
    np.testing.assert_array_equal(solution.values, solution.history.values[-1])
    np.testing.assert_allclose(UPPER(solution.x, solution.y), solution.values, atol=1e-12)


@pytest.mark.parametrize("lower_step_size", [1.3, 30.0])
def test_an_overshooting_lower_step_is_recognised(lower_step_size):
    """1.3 > 2/L = 1 grows slowly and stays finite in its step; 30 overflows within it."""
    algorithm = bp.wc_mhgd(R3, 0.1, lower_step_size, 40 if lower_step_size < 2 else 300, bp.CG(10))
    solution = bp.solve(CASE.problem, algorithm, CASE.x, CASE.y, 50)
    assert solution.status is bp.Status.LOWER_OVERSHOT
    assert "lower `lower_step_size`" in solution.message


@pytest.mark.parametrize("lower_step_size", [0.2, 0.99])
def test_a_settling_lower_level_is_not_accused(lower_step_size):
    """Just below 2/L, from a far start and long after convergence, where only rounding noise is left."""
    solution = bp.solve(CASE.problem, bp.mgda(0.1, lower_step_size, 40, bp.CG(10)), CASE.x, 1e6 * CASE.y, 400)
    assert solution.status is bp.Status.COMPLETED


@pytest.mark.parametrize("step_size", [1.1, 50.0])
def test_a_diverging_neumann_series_is_reported(step_size):
    algorithm = bp.wc_mhgd(R3, 0.1, 0.5, 40, bp.Neumann(100, step_size))
    solution = bp.solve(CASE.problem, algorithm, CASE.x, CASE.y, 10)
    assert solution.status is bp.Status.NEUMANN_DIVERGED
    assert "lower the `step_size` of `Neumann`" in solution.message


def test_a_failing_preparation_is_named():
    problem = bp.Problem(UPPER, LOWER, prepare=lambda x: jnp.where(jnp.sum(x) > -1e9, jnp.nan, 1.0) * x)
    solution = bp.solve(problem, ALGORITHM, CASE.x, CASE.y, 5)
    assert solution.status is bp.Status.NON_FINITE_PREPARATION


def test_overflowing_weights_are_named():
    problem = bp.Problem(magnified, LOWER, jnp.asarray(1e200))
    solution = bp.solve(problem, ALGORITHM, CASE.x, CASE.y, 5)
    assert solution.status is bp.Status.NON_FINITE_WEIGHTS
    np.testing.assert_array_equal(solution.x, CASE.x)


def test_an_overflowing_step_is_named():
    algorithm = bp.wc_mhgd(R3, 1e308, 0.5, 40, bp.CG(10), u=1.0)
    solution = bp.solve(bp.Problem(magnified, LOWER, jnp.asarray(1e3)), algorithm, CASE.x, CASE.y, 5)
    assert solution.status is bp.Status.NON_FINITE_STEP
    np.testing.assert_array_equal(solution.x, CASE.x)


def test_a_runaway_upper_level_is_said():
    solution = bp.solve(CASE.problem, bp.linear([1.0, 1.0, 1.0], 2.0, 0.5, 40, bp.CG(10)), CASE.x, CASE.y, 20)
    assert solution.status is bp.Status.UPPER_OVERSHOT
    assert np.isfinite(solution.values).all()


def test_the_failing_task_of_a_separable_problem_is_named():
    case = separable_quadratic()
    upper = lambda x, y, data: jnp.where(data[1] == 3, jnp.nan, 1.0) * case.problem.upper(x, y, data[0])  # noqa: E731
    problem = bp.SeparableProblem(
        upper, case.problem.lower, 5, (case.problem.upper_data, jnp.arange(5)), case.problem.lower_data, 0, (0, 0, None)
    )
    for algorithm in (bp.mgda(0.1, 1.0, 10), bp.linear(np.ones(5), 0.1, 1.0, 10)):
        solution = bp.solve(problem, algorithm, case.x, case.y, 5)
        assert solution.status is bp.Status.NON_FINITE_VALUE
        assert "objective 3" in solution.message

"""Every estimator on every problem with a known answer; every option away from its default."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import bipareto as bp
from cases import CASES, NAMES, as_joint, logistic, network, quadratic, separable_quadratic

ESTIMATORS = {
    "CG": lambda case: (bp.CG(steps=40), None),
    "CG cold": lambda case: (bp.CG(steps=40, warm_start=False), None),
    "CG tolerance": lambda case: (bp.CG(steps=400, tolerance=1e-13), None),
    "CG after lower steps": lambda case: (bp.CG(steps=40), case.lower),
    "Neumann": lambda case: (bp.Neumann(case.lower.steps, step_size=1 / case.smoothness), None),
    "Neumann after lower steps": lambda case: (
        bp.Neumann(case.lower.steps, step_size=0.9 / case.smoothness),
        case.lower,
    ),
}


def rows(tree):
    """A tree with a leading axis S as a matrix [S, p]."""
    return np.asarray(jax.vmap(lambda t: ravel_pytree(t)[0])(tree))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_converged_estimators_equal_the_closed_form(case, estimator):
    method, lower = ESTIMATORS[estimator](case)
    y = case.y if lower else case.solution(case.x)
    values, jacobian = bp.hypergradient(case.problem, case.x, y, method, lower=lower)
    np.testing.assert_allclose(values, case.values(case.x), rtol=0, atol=1e-10)
    np.testing.assert_allclose(rows(jacobian), case.jacobian(case.x), rtol=0, atol=1e-10)


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_unrolled_equals_the_closed_form_when_converged(case, checkpoint):
    _, jacobian = bp.hypergradient(case.problem, case.x, case.y, bp.Unrolled(checkpoint), lower=case.lower)
    np.testing.assert_allclose(rows(jacobian), case.jacobian(case.x), rtol=0, atol=1e-10)


def loop_jacobian(problem, x, y, step, steps):
    """Autodiff of a hand-written loop of gradient steps on the joint problem, y^0 held constant."""
    data = () if problem.lower_data is None else (problem.lower_data,)
    upper_data = () if problem.upper_data is None else (problem.upper_data,)
    flat, unravel = ravel_pytree(x)

    def end(flat):
        x, last = unravel(flat), y
        for _ in range(steps):
            slope = jax.grad(problem.lower, argnums=1)(x, last, *data)
            last = jax.tree.map(lambda leaf, g: leaf - step * g, last, slope)
        return problem.upper(x, last, *upper_data)

    return np.asarray(jax.jit(jax.jacrev(end))(flat))


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_unrolled_equals_autodiff_of_the_loop(case, checkpoint):
    """Away from convergence, where only the exact formula of erratum E1 agrees."""
    joint = as_joint(case.problem) if isinstance(case.problem, bp.SeparableProblem) else case.problem
    expected = loop_jacobian(joint, case.x, case.y, 0.5 / case.smoothness, 5)
    lower = bp.GradientDescent(0.5 / case.smoothness, 5)
    _, jacobian = bp.hypergradient(case.problem, case.x, case.y, bp.Unrolled(checkpoint), lower=lower)
    np.testing.assert_allclose(rows(jacobian), expected, rtol=0, atol=1e-12)


def test_unrolled_equals_the_papers_formula_as_corrected():
    """grad_x f - alpha sum_{t=0}^{D-1} J(y^t) prod_{j=t+1}^{D-1} (I - alpha H(y^j)) grad_y f(y^D), with dense matrices."""
    case, alpha, steps = logistic(), 0.3, 6
    lower = lambda x, y: case.problem.lower(x, y, case.problem.lower_data)  # noqa: E731
    upper = lambda x, y: case.problem.upper(x, y, case.problem.upper_data)  # noqa: E731
    path = [case.y]
    for _ in range(steps):
        path.append(path[-1] - alpha * jax.grad(lower, 1)(case.x, path[-1]))
    total = np.zeros((len(case.x), 2))
    b = np.asarray(jax.jacobian(upper, 1)(case.x, path[-1])).T
    for t in range(steps):
        product = np.eye(len(case.y))
        for j in range(t + 1, steps):
            product = product @ (np.eye(len(case.y)) - alpha * np.asarray(jax.hessian(lower, 1)(case.x, path[j])))
        cross = np.asarray(jax.jacobian(jax.grad(lower, 1), 0)(case.x, path[t])).T
        total += cross @ product @ b
    expected = np.asarray(jax.jacobian(upper, 0)(case.x, path[-1])) - alpha * total.T
    _, found = bp.hypergradient(case.problem, case.x, case.y, bp.Unrolled(), lower=bp.GradientDescent(alpha, steps))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_unrolled_differentiates_through_an_optax_optimiser():
    import optax

    case, momentum = quadratic(), optax.sgd(0.2, momentum=0.7)

    def end(x):
        y, state = case.y, momentum.init(case.y)
        for _ in range(4):
            update, state = momentum.update(jax.grad(case.problem.lower, 1)(x, y), state)
            y = y + update
        return case.problem.upper(x, y)

    _, found = bp.hypergradient(case.problem, case.x, case.y, bp.Unrolled(), lower=bp.GradientDescent(momentum, 4))
    np.testing.assert_allclose(found, jax.jacobian(end)(case.x), rtol=0, atol=1e-12)


def test_a_scheduled_lower_step_is_that_schedule():
    case = quadratic()
    schedule = lambda count: 0.4 / (count + 1.0)  # noqa: E731

    def end(x):
        y = case.y
        for t in range(3):
            y = y - 0.4 / (t + 1) * jax.grad(case.problem.lower, 1)(x, y)
        return case.problem.upper(x, y)

    _, found = bp.hypergradient(case.problem, case.x, case.y, bp.Unrolled(), lower=bp.GradientDescent(schedule, 3))
    np.testing.assert_allclose(found, jax.jacobian(end)(case.x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_few_cg_steps_equal_textbook_cg_per_objective(steps):
    """Truncated, from zero: a wrong recurrence or mixed-up rows cannot hide behind convergence."""
    case = quadratic()
    y = case.solution(case.x)
    hessian = np.asarray(jax.hessian(case.problem.lower, 1)(case.x, y))
    cross = np.asarray(jax.jacobian(jax.grad(case.problem.lower, 1), 0)(case.x, y)).T
    expected = np.array(jax.jacobian(case.problem.upper, 0)(case.x, y))
    for s, b in enumerate(np.asarray(jax.jacobian(case.problem.upper, 1)(case.x, y))):
        krylov = np.stack([np.linalg.matrix_power(hessian, i) @ b for i in range(steps)], axis=1)
        dual = krylov @ np.linalg.solve(krylov.T @ hessian @ krylov, krylov.T @ b)  # CG minimises over this space
        expected[s] -= cross @ dual
    _, found = bp.hypergradient(case.problem, case.x, y, bp.CG(steps=steps))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("terms", [1, 3, 10])
def test_truncated_neumann_equals_the_dense_series(terms):
    case, eta = quadratic(), 0.37
    y = case.solution(case.x)
    hessian = np.asarray(jax.hessian(case.problem.lower, 1)(case.x, y))
    cross = np.asarray(jax.jacobian(jax.grad(case.problem.lower, 1), 0)(case.x, y)).T
    b = np.asarray(jax.jacobian(case.problem.upper, 1)(case.x, y)).T
    series = eta * sum(np.linalg.matrix_power(np.eye(len(y)) - eta * hessian, i) for i in range(terms + 1))
    expected = np.asarray(jax.jacobian(case.problem.upper, 0)(case.x, y)) - (cross @ series @ b).T
    _, found = bp.hypergradient(case.problem, case.x, y, bp.Neumann(terms, step_size=eta))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", [bp.CG(3), bp.Neumann(5, 0.3), bp.Unrolled()], ids=["CG", "Neumann", "Unrolled"])
@pytest.mark.parametrize("case", [separable_quadratic(), network(), network(prepared=True)], ids=lambda case: case.name)
def test_separable_equals_the_same_joint_problem(case, method):
    """Off convergence too. For truncated CG each block has its own scalars, so the joint run sees one block at a time."""
    lower = bp.GradientDescent(0.7 / case.smoothness, 4)
    values, jacobian = bp.hypergradient(case.problem, case.x, case.y, method, lower=lower)
    joint_values, joint = bp.hypergradient(as_joint(case.problem), case.x, case.y, method, lower=lower)
    np.testing.assert_allclose(values, joint_values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rows(jacobian), rows(joint), rtol=0, atol=1e-12)


def test_prepared_equals_unprepared():
    lower = bp.GradientDescent(0.2, 7)
    plain, prepared = network(), network(prepared=True)
    for method in (bp.CG(4), bp.Unrolled(), bp.Neumann(3, 0.1)):
        a = bp.hypergradient(plain.problem, plain.x, plain.y, method, lower=lower)
        b = bp.hypergradient(prepared.problem, prepared.x, prepared.y, method, lower=lower)
        np.testing.assert_allclose(a[0], b[0], rtol=0, atol=1e-13)
        np.testing.assert_allclose(rows(a[1]), rows(b[1]), rtol=0, atol=1e-13)


def test_preparation_without_data_serves_both_levels():
    case = quadratic()
    upper, lower = case.problem.upper, case.problem.lower
    problem = bp.Problem(
        lambda h, y: upper(h["x"] - 1, y), lambda h, y: lower(h["x"] - 1, y), prepare=lambda x: {"x": x + 1}
    )
    _, found = bp.hypergradient(problem, case.x, case.solution(case.x), bp.CG(20))
    np.testing.assert_allclose(found, case.jacobian(case.x), rtol=0, atol=1e-10)


def test_cg_stops_at_its_tolerance():
    """||error|| <= ||J|| tolerance ||b|| / mu for every objective, and a loose tolerance really stops early."""
    case = quadratic(q=40)
    y = case.solution(case.x)
    exact = case.jacobian(case.x)
    cross = np.asarray(jax.jacobian(jax.grad(case.problem.lower, 1), 0)(case.x, y))
    b = np.linalg.norm(jax.jacobian(case.problem.upper, 1)(case.x, y), axis=1)
    for tolerance in (1e-1, 1e-4, 1e-10):
        _, found = bp.hypergradient(case.problem, case.x, y, bp.CG(steps=200, tolerance=tolerance))
        error = np.linalg.norm(np.asarray(found) - exact, axis=1)
        bound = np.linalg.norm(cross, 2) * tolerance * b / case.convexity
        assert (error <= bound).all()
        assert (error.max() > 1e-4 * bound.max()) or tolerance < 1e-9


def test_trees_keep_their_shape_and_dtype():
    case = network()
    _, jacobian = bp.hypergradient(case.problem, case.x, case.y, bp.CG(5))
    assert jax.tree.structure(jacobian) == jax.tree.structure(case.x)
    assert jax.tree.map(lambda leaf: leaf.shape, jacobian) == jax.tree.map(lambda leaf: (3, *leaf.shape), case.x)
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), case.x)
    _, jacobian = bp.hypergradient(case.problem, single, case.y, bp.CG(5))
    assert {leaf.dtype for leaf in jax.tree.leaves(jacobian)} == {np.dtype(np.float32)}

"""Certificates: the true gap is inside the interval, and the conduct of a run is what its history says."""

import dataclasses
import json
import pathlib
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
import quadratics
from bipareto.theory import Constants, certify
from bipareto.theory.certificate import gap_interval, measure
from cases import logistic, quadratic, separable_quadratic

MANY = quadratics.draw()
CONSTANTS = MANY.constants()
CASE = quadratic()


@pytest.mark.parametrize("cg_steps", [1, 2, 20])
def test_the_true_gap_is_inside_the_interval(cg_steps):
    """200 problems, lower level off by 0 to 1, duals solved badly to fully: 2,400 intervals."""

    @eqx.filter_jit
    def look(many, away, key):
        def one(problem, key):
            y, _, _, jacobian = quadratics.exact(problem, problem.x)
            shift = jax.random.normal(key, y.shape)
            y = y + away * shift / jnp.linalg.norm(shift)
            found = measure(quadratics.oracles(problem), problem.x, y, bp.CG(cg_steps, warm_start=False))
            return found, bp.stationarity_gap(jacobian @ jacobian.T)

        return jax.vmap(one)(many, jax.random.split(key, len(many.x)))

    for away in (0.0, 1e-9, 1e-3, 1.0):
        found, true = jax.tree.map(np.asarray, look(MANY, jnp.asarray(away), jax.random.key(1)))
        bounds = [
            gap_interval(CONSTANTS[i], jax.tree.map(lambda leaf, i=i: leaf[i], found)) for i in range(quadratics.COUNT)
        ]
        low, high, _ = np.transpose(bounds)
        assert (low <= true).all()
        assert (true <= high).all()
        if cg_steps == 20 and away == 0:
            assert (high - low <= 1e-8 * np.maximum(true, 1)).all()  # and it says something


@pytest.mark.parametrize("case", [separable_quadratic(), logistic()], ids=lambda case: case.name)
def test_certificate_of_a_run(case):
    """A few coarse lower steps per upper step: the run's own gap is off, the certificate's is not."""
    objectives = len(case.values(case.x))
    algorithm = bp.wc_mhgd(np.arange(1, objectives + 1), 0.1, 0.2 / case.smoothness, 3, bp.CG(1))
    solution = bp.solve(case.problem, algorithm, case.x, case.y, 10)
    found = certify(case.problem, algorithm, solution)
    assert solution.certify().to_dict() == found.to_dict()
    with pytest.raises(ValueError, match="know its problem"):
        dataclasses.replace(solution, made=None).certify()
    jacobian = case.jacobian(solution.x)
    true = float(bp.stationarity_gap(jnp.asarray(jacobian @ jacobian.T)))
    assert found.gap_low <= true <= found.gap_high
    assert found.gap_high - found.gap_low < 1e-8
    assert abs(solution.history.gap[-1] - true) > 1e-4 * true
    np.testing.assert_allclose(found.values, case.values(solution.x), atol=1e-12)
    assert not found.certain
    assert "constants estimated" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["gap"] == found.gap


def test_single_precision_widens_the_interval():
    case = quadratic()
    double = bp.solve(case.problem, bp.mgda(0.05, 0.5, 20), case.x, case.y, 20)
    single = lambda function: lambda x, y: function(x, y).astype(x.dtype)  # noqa: E731
    problem = bp.Problem(single(case.problem.upper), single(case.problem.lower))
    x, y = (jnp.asarray(leaf, jnp.float32) for leaf in (double.x, double.y))
    constants = Constants(0.5, 4.2)
    solution = bp.solve(problem, bp.mgda(0.05, 0.5, 20), x, y, 5)
    found = certify(problem, bp.mgda(0.05, 0.5, 20), solution, constants)
    jacobian = case.jacobian(jnp.asarray(solution.x, float))
    assert found.gap_low <= bp.stationarity_gap(jnp.asarray(jacobian @ jacobian.T)) <= found.gap_high
    assert 1e-9 < found.error < 1e-2
    assert found.certain


R = np.array([0.5, 0.3, 0.2])


def conduct(u, steps=200, step_size=0.05):
    case = CASE
    algorithm = bp.wc_mhgd(R, step_size, 0.5, 30, u=u)
    solution = bp.solve(case.problem, algorithm, case.x, case.y, steps)
    return certify(case.problem, algorithm, solution, Constants(0.5, 4.2)), solution


def test_conduct_of_a_certified_run():
    found, _ = conduct("certified")
    assert found.conduct.lemma == 1
    assert found.conduct.descent == 1
    assert found.conduct.u_inside is None


def test_conduct_of_the_prox_value():
    found, solution = conduct("prox")
    assert found.conduct.chebyshev_rises == 0
    assert "never rose" in str(found)
    assert found.conduct.chebyshev_end == pytest.approx(np.max(R * solution.values))
    assert found.conduct.lemma < 1
    assert found.conduct.margin == solution.history.margin.min()


def test_conduct_of_a_huge_u_is_plain_descent_on_the_worst_objective():
    found, _ = conduct(1e4)
    assert found.conduct.vertex == 1
    assert found.conduct.chebyshev_rises > 0
    assert f"rose {found.conduct.chebyshev_rises} times" in str(found)
    assert found.conduct.u_inside == 0


def test_u_inside_the_lemma_implies_the_lemma():
    """Small u, checked step by step against the maximum over the vertices of the simplex."""
    u = 0.5
    found, solution = conduct(u, steps=60)
    lam, heights = solution.history.weights / R, R * solution.history.values
    worst = np.max([u * np.sum((lam - e) * heights, axis=1) for e in np.eye(3)], axis=0)
    inside = worst <= solution.history.direction
    assert 0 < np.mean(inside) < 1
    assert found.conduct.u_inside == np.mean(inside)
    assert (solution.history.margin[inside] >= 0).all()


def test_conduct_without_a_preference_and_of_weights_without_a_gram_matrix():
    case = CASE
    constants = Constants(0.5, 4.2)
    for algorithm, expected in ((bp.mgda(0.05, 0.5, 30), 1.0), (bp.linear(R, 0.05, 0.5, 30), None)):
        solution = bp.solve(case.problem, algorithm, case.x, case.y, 20)
        found = certify(case.problem, algorithm, solution, constants).conduct
        assert found.lemma == found.descent == found.u_inside == expected
        assert found.chebyshev_rises is None
        assert [name for name, _ in found.rows()] == [n for n, _ in found.rows() if "r_s" not in n]


def test_the_page_on_theory_runs(capsys):
    page = (pathlib.Path(__file__).parents[1] / "docs" / "theory.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "theory.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "true gap" in printed
    assert "too conservative" in printed

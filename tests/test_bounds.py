"""Bounds against what is measured: on 200 random quadratics nothing exceeds its bound."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
import quadratics
from bipareto import theory
from bipareto.theory import Setting
from quadratics import COUNT, S, with_slope

MANY = quadratics.draw()
CONSTANTS = MANY.constants()
ROOM = 1 + 1e-9  # rounding only


def setting(i, M, lower_steps, r_max=1.0, preference=True):
    """The theorems' own step sizes for problem i."""
    constants = with_slope(CONSTANTS[i], M)
    smooth = constants.L_phi
    sizes = (1 / (2 * (1 + smooth) * r_max), 1 / (3 * smooth)) if preference else (3 / (2 * (1 + smooth)), 1 / smooth)
    return Setting(constants, min(sizes), 1 / constants.L, lower_steps, r_max, preference)


@eqx.filter_jit
def measured_errors(method, lower_steps):
    """Errors [n, S] of one hypergradient from the problems' starts, with distances before and after the lower steps, M."""

    def one(problem, L):
        descent = bp.GradientDescent(1 / L, lower_steps)
        found, errors = quadratics.hypergradients(problem, problem.x, problem.y, method, descent)
        y, duals, _, _ = quadratics.exact(problem, problem.x)
        M = jnp.maximum(*(quadratics.slope_norms(problem, problem.x, at) for at in (y, found.y)))
        distances = jnp.linalg.norm(problem.y - y), jnp.linalg.norm(found.y - y), jnp.max(jnp.linalg.norm(duals, axis=1))
        return errors, *distances, M

    return jax.vmap(one)(MANY, jnp.asarray(MANY.L))


@pytest.mark.parametrize("lower_steps", [1, 4, 30])
def test_unrolled_errors_stay_below_lemma_3(lower_steps):
    errors, start, _, _, M = measured_errors(bp.Unrolled(), lower_steps)
    bounds = [theory.unrolled_error(setting(i, M[i], lower_steps), start[i]) for i in range(COUNT)]
    assert (np.max(errors, axis=1) <= np.array(bounds) * ROOM).all()


@pytest.mark.parametrize(("lower_steps", "cg_steps"), [(1, 1), (4, 2), (30, 1), (30, 3)])
def test_cg_errors_stay_below_their_bound(lower_steps, cg_steps):
    errors, start, _, dual, M = measured_errors(bp.CG(cg_steps), lower_steps)
    settings = [setting(i, M[i], lower_steps) for i in range(COUNT)]
    bounds = [theory.cg_error(settings[i], cg_steps, start[i], dual[i]) for i in range(COUNT)]
    assert (np.max(errors, axis=1) <= np.array(bounds) * ROOM).all()


@pytest.mark.parametrize("terms", [1, 5, 40])
def test_neumann_errors_stay_below_their_bound(terms):
    """The step size of the series differs from problem to problem, so it is the estimate of one common 1/max L."""
    eta = float(1 / MANY.L.max())
    errors, _, end, _, M = measured_errors(bp.Neumann(terms, eta), 3)
    bounds = [theory.neumann_error(with_slope(CONSTANTS[i], M[i]), eta, terms, end[i]) for i in range(COUNT)]
    assert (np.max(errors, axis=1) <= np.array(bounds) * ROOM).all()


@functools.cache
def traced(kind, steps=40):
    """Runs with the theorems' step sizes; M is what the runs met, r random."""
    rng = np.random.default_rng(1)
    preferences = rng.dirichlet(np.ones(S), COUNT).clip(0.02)
    preferences /= preferences.sum(axis=1, keepdims=True)
    algorithms, sizes = [], []
    for i in range(COUNT):
        r_max = float(preferences[i].max()) if kind != "no preference" else 1.0
        made = setting(i, 1.0, LOWER[kind], r_max, kind != "no preference")
        options = {"lower_step_size": made.lower_step_size, "lower_steps": made.lower_steps, "hypergradient": METHOD[kind]}
        if kind == "no preference":
            algorithms.append(bp.mgda(made.step_size, **options))
        else:
            algorithms.append(bp.wc_mhgd(preferences[i], made.step_size, u="certified", **options))
        sizes.append(r_max)
    trace = quadratics.runs(MANY, quadratics.stacked(algorithms), steps)
    return jax.tree.map(np.asarray, trace), np.array(sizes)


LOWER = {"CG": 800, "coarse CG": 5, "NS": 8, "no preference": 8}
METHOD = {"CG": bp.CG(40), "coarse CG": bp.CG(2), "NS": bp.Unrolled(), "no preference": bp.Unrolled()}
KINDS = list(LOWER)


def means(trace):
    """[n, K]: the mean over the first k + 1 steps, and min_s of what the objectives lost by then."""
    counts = np.arange(1, trace.gap.shape[1])
    mean = np.cumsum(trace.true_direction, axis=1)[:, :-1] / counts
    drop = np.min(trace.values[:, :1] - trace.values[:, 1:], axis=2)
    return counts, mean, drop


@pytest.mark.parametrize("kind", ["NS", "no preference"])
def test_theorem_1_with_unrolling_and_the_no_preference_theorem(kind):
    """At every K, on every problem, for the objective that lost least; and with the a priori sup of the distances."""
    trace, sizes = traced(kind)
    counts, mean, drop = means(trace)
    for i in range(COUNT):
        made = setting(i, trace.M[i].max(), LOWER[kind], sizes[i], kind != "no preference")
        assert (trace.error[i] <= theory.unrolled_error(made, trace.distance[i]) * ROOM).all()
        reach = theory.unrolled_distance(made, trace.distance[i, 0])
        assert trace.distance[i].max() <= reach * ROOM
        for distance in (trace.distance[i].max(), reach):
            assert (mean[i] <= theory.unrolled_bound(made, counts, drop[i], distance) * ROOM).all()


def test_theorem_1_with_conjugate_gradients():
    trace, sizes = traced("CG")
    counts, mean, drop = means(trace)
    for i in range(COUNT):
        made = setting(i, trace.M[i].max(), LOWER["CG"], sizes[i])
        start = float(trace.distance[i, 0]), float(trace.dual_distance[i, 0])
        errors, distances = theory.cg_errors_along(made, 40, *start, np.sqrt(trace.direction[i]))
        assert (trace.error[i] <= errors * ROOM + 1e-12).all()
        assert (trace.distance[i] <= distances * ROOM + 1e-12).all()
        assert theory.cg_contraction(made, 40) <= 0.5
        assert (mean[i] <= theory.cg_bound(made, 40, counts, drop[i], *start) * ROOM).all()


def test_errors_of_warm_started_cg_along_a_run():
    """Few lower and CG steps: errors are large, carried from step to step, and bounded all the way."""
    trace, sizes = traced("coarse CG")
    assert np.median(trace.error[:, -1]) > 1e-5
    for i in range(COUNT):
        made = setting(i, trace.M[i].max(), LOWER["coarse CG"], sizes[i])
        start = float(trace.distance[i, 0]), float(trace.dual_distance[i, 0])
        errors, distances = theory.cg_errors_along(made, 2, *start, np.sqrt(trace.direction[i]))
        assert (trace.error[i] <= errors * ROOM).all()
        assert (trace.distance[i] <= distances * ROOM).all()


def test_certified_directions_make_the_theorems_apply():
    """Lemma 2 at every step, and the divisor of erratum E5: ||d||^2/(sum of weights)^2 is never below the exact gap."""
    for kind in KINDS:
        trace, _ = traced(kind)
        assert (trace.margin >= -1e-9 * np.maximum(trace.direction, 1e-9)).all()
        assert (trace.gap <= trace.true_direction / trace.weight**2 * ROOM).all()

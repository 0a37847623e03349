"""Errata of the paper that change a bound: the printed form fails where the corrected one holds."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto import theory
from bipareto.theory import Constants, Setting
from bipareto.weighting import _largest_certified

SAMPLE = Constants(0.5, 2.0, 3.0, 0.7, 0.2)


def made(constants=SAMPLE, r_max=0.6, lower_steps=40, preference=True):
    smooth = constants.L_phi
    sizes = (1 / (2 * (1 + smooth) * r_max), 1 / (3 * smooth)) if preference else (3 / (2 * (1 + smooth)), 1 / smooth)
    return Setting(constants, min(sizes), 1 / constants.L, lower_steps, r_max, preference)


def in_units(constants, objective, length):
    """The same problem with f and g measured in 1/objective and x, y in 1/length."""
    c, a = constants, length
    f = objective
    return Constants(f * c.mu / a**2, f * c.L / a**2, f * c.M / a, f * c.tau / a**3, f * c.rho / a**3)


@pytest.mark.parametrize(("objective", "length"), [(10.0, 1.0), (1.0, 10.0), (0.1, 3.0)])
def test_bounds_do_not_depend_on_units(objective, length):
    """E14 (tau M, not tau M^2), E18 (L^2/mu, not L/mu) and Omega (rho M/mu^2, not L M/mu^2) are errors of units."""
    other = in_units(SAMPLE, objective, length)
    gradient = objective / length
    assert math.isclose(other.L_phi, SAMPLE.L_phi * objective / length**2)
    here, there = made(), dataclasses.replace(made(), constants=other, step_size=1e-9, lower_step_size=1 / other.L)
    here = dataclasses.replace(here, step_size=1e-9)  # Omega/beta^2 has no unit
    assert math.isclose(there.drift, here.drift)
    assert math.isclose(theory.unrolled_error(there, length), theory.unrolled_error(here, 1.0) * gradient)
    assert math.isclose(theory.cg_error(there, 3, length, 2 * length), theory.cg_error(here, 3, 1.0, 2.0) * gradient)
    eta = 1 / SAMPLE.L, 1 / other.L
    squares = [
        theory.stochastic_error(c, e, 5, (7, 8, 9), s**2) for c, e, s in ((SAMPLE, eta[0], 1.0), (other, eta[1], length))
    ]
    assert math.isclose(squares[1], squares[0] * gradient**2)

    def printed_smoothness(c):  # E14
        return c.L_phi + (c.M - 1) * c.tau * c.M / c.mu

    def printed_nu(c):  # E18
        return (c.L + c.L / c.mu + c.M * c.tau / c.mu + c.L * c.M * c.rho / c.mu**2) ** 2

    def printed_omega(c):  # over 4 beta^2
        return (c.kappa**2 + c.M * c.L / c.mu**2 * (1 + c.kappa)) ** 2

    assert not math.isclose(printed_smoothness(other), printed_smoothness(SAMPLE) * objective / length**2)
    assert not math.isclose(printed_nu(other), printed_nu(SAMPLE) * (objective / length**2) ** 2)
    assert length == 1 or not math.isclose(printed_omega(other), printed_omega(SAMPLE))


def ns_terms(c, lower_steps, alpha):
    """The three terms of Lemma 3 for ||y^0 - y*|| = 1."""
    q = 1 - alpha * c.mu
    second = 2 * c.M * (c.tau * c.mu + c.L * c.rho) / c.mu**2 * q ** ((lower_steps - 1) / 2)
    return c.L * (c.L + c.mu) / c.mu * q ** (lower_steps / 2), second, c.L * c.M / c.mu * q**lower_steps


def test_e15_the_printed_bracket_does_not_bound_half_the_squared_lemma():
    c = Constants(1.0, 1.01, 2.1, 0.2, 0.9)
    first, second, third = ns_terms(c, 1, 0.1)
    lemma = (first + second + third) ** 2 / 2
    assert math.isclose(math.sqrt(2 * lemma), theory.unrolled_error(Setting(c, 1e-9, 0.1, 1), 1.0))
    assert 2 * first**2 + second**2 + third**2 < lemma
    assert 2 * first**2 + 2 * second**2 + third**2 >= lemma
    setting = Setting(c, 1e-9, 0.1, 1)
    bracket = theory.unrolled_bound(setting, 1, 0.0, 1.0) / (12 + setting.leading)
    assert math.isclose(bracket, 2 * first**2 + 2 * second**2 + third**2)


def test_e16_the_printed_cg_theorem_is_below_the_papers_own_chain():
    """mean ||true d||^2 <= 2 mean ||d||^2 + 6 max error^2, with the paper's bounds of both put in."""
    setting = made(Constants(0.5, 2.0), lower_steps=200)
    c, r, drop, chi, steps = setting.constants, setting.largest_preference, 3.0, 2.0, 50
    smooth = r * c.L_phi
    delta = theory.bounds._delta(setting, 30)
    mixed = c.M**2 * delta * setting.drift * (c.kappa**2 + 1)
    mean_d = 12 * smooth * (drop + delta * chi) / steps + 24 * smooth * mixed
    chain = 2 * mean_d + 6 * delta * chi + 24 * mixed
    printed = 12 * smooth * (drop + delta * chi) / steps + 24 * (smooth + 1) * mixed + 6 * delta * chi
    assert printed < 0.6 * chain
    assert math.isclose(theory.cg_bound(setting, 30, steps, drop, 1.0, 1.0), chain)


def test_e17_kappa_squared_plus_one_is_not_below_root_omega():
    c, beta = Constants(0.5, 2.0), made().step_size
    omega = 4 * beta**2 * (c.kappa**2 + c.M * c.L / c.mu**2 * (1 + c.kappa)) ** 2
    assert c.kappa**2 + 1 > 20 * math.sqrt(omega)


def test_e19_printed_lemma_6_contracts_faster_than_the_lower_level_does():
    """One objective at rest (beta -> 0): gamma -> 0 while D steps shrink the squared distance by theta/2 only."""
    mu, L, steps = 1.0, 3.0, 2
    curvature, alpha = np.array([mu, L]), 2 / (L + mu)
    y = np.array([1.0, 1.0])
    after = y * (1 - alpha * curvature) ** steps
    square = np.sum(after**2) / np.sum(y**2)
    theta = 2 * ((L - mu) / (L + mu)) ** (2 * steps)
    gamma = 8 * theta * 1e-6**2 * (L / mu) ** 2 * (L + L**2 / mu) ** 2
    assert square > 1e6 * gamma
    assert square <= theta + gamma / 4


def test_e20_the_displacement_carries_chi_through_the_whole_series():
    """sum_j g^j gamma chi/(4 nu) is gamma chi/(4 nu (1 - g)), which the printed (4 + gamma) chi/8 leaves undivided."""
    c = Constants(0.5, 2.0)
    setting = dataclasses.replace(made(c, 0.6, 12), lower_step_size=2 / (c.L + c.mu))
    eta, terms, batches = 0.5, 60, (1e30, 10.0, 10.0, 10.0)
    chi = float(theory.stochastic_error(c, eta, terms, batches[1:], 0.0))
    bound = theory.stochastic_bound(setting, (eta, terms), batches, 3, 0.0, 1e30, 0.0, 0.0)
    theta = 2 * ((c.L - c.mu) / (c.L + c.mu)) ** 24
    nu = 2 * (c.L + c.L**2 / c.mu) ** 2
    rise = 8 * theta * (setting.step_size * c.kappa * 0.6) ** 2
    slope = 2 * c.M**2 * (1 + c.kappa**2)
    error, square = chi, 0.0
    for _ in range(2000):  # the recursion itself, to its limit
        square = theta * square + rise * (slope + error)
        error = chi + nu * square
    assert bound >= (setting.leading / 2 + 2 * 3 * 0.36) * error * (1 - 1e-12)
    assert math.isclose(bound, (setting.leading / 2 + 2 * 3 * 0.36) * error)


def test_e21_the_printed_number_of_lower_steps_misses_half_of_epsilon():
    """Second part of the NS bound <= epsilon/2 needs 24 + 48 r_max L_phi in the logarithm, not 24 + 16 r_max L_phi."""
    c, r, epsilon = Constants(0.5, 2.0), 0.9, 1e-3
    q = 1 - c.mu / c.L

    def second_part(factor):
        inside = factor * (2 * (c.kappa * (c.L + c.mu)) ** 2 + (c.M * c.kappa) ** 2 * q) / epsilon
        setting = made(c, r, math.log(inside) / math.log(1 / q))  # D not rounded up, which would hide the factor
        return theory.unrolled_bound(setting, 1, 0.0, 1.0)

    assert second_part(24 + 16 * r * c.L_phi) > epsilon / 2
    assert second_part(24 + 48 * r * c.L_phi) <= epsilon / 2


def test_e22_the_printed_factor_needs_a_rough_objective():
    """L_phi = 0.4: beta is 1/(2 (1 + L_phi) r_max), and 8 r_max/beta exceeds the printed 24 r_max L_phi."""
    setting = made(Constants(0.1, 0.1), r_max=0.9)
    assert setting.leading > 24 * 0.9 * setting.constants.L_phi
    beta, smooth, r = setting.step_size, setting.constants.L_phi, 0.9
    needed = 2 / (beta * (1 / (2 * r) - beta / 2 - smooth * beta / 2))
    assert setting.leading >= needed * (1 - 1e-12)
    assert 24 * r * smooth < needed
    rough = made(Constants(1.0, 2.0), r_max=0.9)
    assert math.isclose(rough.leading, 24 * 0.9 * rough.constants.L_phi)


def test_e11_without_a_preference_the_step_size_has_no_r_max():
    setting = made(r_max=1.0, preference=False)
    beta, smooth = setting.step_size, setting.constants.L_phi
    assert 2 / (beta * (1 - beta / 2 - smooth * beta / 2)) <= setting.leading
    assert setting.step_size == 1 / smooth


def random_programs(count, seed=0, objectives=4, size=3):
    """Hypergradients [n, S, p], values [n, S], preferences [n, S] and u, and the weights lam that the program gives."""
    rng = np.random.default_rng(seed)
    jacobian, values = rng.normal(size=(count, objectives, size)), rng.uniform(0.1, 2, (count, objectives))
    r = rng.dirichlet(np.ones(objectives), count).clip(0.02)
    r, u = r / r.sum(axis=1, keepdims=True), 10 ** rng.uniform(-4, 1, count)
    scaled = r[:, :, None] * jacobian
    lam = jax.jit(jax.vmap(bp.simplex_qp))(
        jnp.asarray(scaled @ np.swapaxes(scaled, 1, 2)), jnp.asarray(u[:, None] * r * values)
    )
    return jacobian, values, r, u, np.asarray(lam)


def test_e8_only_the_corrected_sign_makes_lemma_2_hold():
    jacobian, values, r, u, lam = random_programs(2000)
    d = np.einsum("ns,nsp->np", r * lam, jacobian)
    square, heights = np.sum(d**2, axis=1), r * values
    level = np.sum(lam * heights, axis=1)
    along = np.einsum("np,nsp->ns", d, jacobian).min(axis=1)
    lemma = square <= 2 * r.max(axis=1) * along + 1e-9 * square
    printed = u * (heights.max(axis=1) - level) <= square
    corrected = u * (level - heights.min(axis=1)) <= square
    assert np.sum(printed & ~lemma) > 100
    assert not np.any(corrected & ~lemma)
    assert np.sum(corrected) > 100


def test_e9_u_must_be_judged_by_the_direction_it_gives():
    """The largest u of the printed condition, at the d of another u (here 0), breaks Lemma 2; solved for, it does not."""
    jacobian, values, r, _, _ = random_programs(1000)
    scaled, heights = r[:, :, None] * jacobian, r * values
    gram = jnp.asarray(scaled @ np.swapaxes(scaled, 1, 2))
    solve = jax.jit(jax.vmap(bp.simplex_qp))

    def holds(lam):
        d = np.einsum("ns,nsp->np", r * lam, jacobian)
        along = np.einsum("np,nsp->ns", d, jacobian).min(axis=1)
        return np.sum(d**2, axis=1) <= 2 * r.max(axis=1) * along * (1 + 1e-9) + 1e-12

    before = np.asarray(solve(gram, jnp.zeros_like(jnp.asarray(heights))))
    square = np.einsum("ns,nst,nt->n", before, gram, before)
    u = square / np.maximum(np.sum(before * heights, axis=1) - heights.min(axis=1), 1e-12)
    assert holds(before).all()
    assert np.sum(~holds(np.asarray(solve(gram, jnp.asarray(u[:, None] * heights))))) > 50
    allowed, _ = jax.jit(jax.vmap(_largest_certified))(jnp.asarray(u), gram, jnp.asarray(heights), jnp.asarray(r))
    assert holds(np.asarray(solve(gram, allowed[:, None] * heights))).all()
    assert np.median(np.asarray(allowed)[u > 1e-6] / u[u > 1e-6]) > 1e-3  # and it is no trivial u


def test_lemma_2_bounds_the_direction_by_four_r_max_squared():
    """||d||^2 <= 4 r_max^2 ||grad phi_s||^2 wherever Lemma 2 holds, never above the paper's r_max/(1 - r_max)."""
    jacobian, _, r, _, lam = random_programs(2000)
    d = np.einsum("ns,nsp->np", r * lam, jacobian)
    square, top = np.sum(d**2, axis=1), r.max(axis=1)
    lemma = square <= 2 * top * np.einsum("np,nsp->ns", d, jacobian).min(axis=1)
    least = np.min(np.sum(jacobian**2, axis=2), axis=1)
    assert (square <= 4 * top**2 * least)[lemma].all()
    share = np.linspace(0.01, 0.99, 99)
    assert (4 * share**2 <= share / (1 - share) + 1e-15).all()


def test_e5_a_small_direction_is_no_stationarity():
    """r = (.96, .01 x 4): ||d||^2 is thousands of times below the gap of Definition 3; over (r'lam)^2 it is never below."""
    r = np.array([0.96, 0.01, 0.01, 0.01, 0.01])
    jacobian = np.random.default_rng(0).normal(size=(5, 20))
    scaled = r[:, None] * jacobian
    lam = np.asarray(bp.simplex_qp(jnp.asarray(scaled @ scaled.T)))
    square = float(lam @ scaled @ scaled.T @ lam)
    gap = float(bp.stationarity_gap(jnp.asarray(jacobian @ jacobian.T)))
    assert gap > 1000 * square
    assert gap <= square / (r @ lam) ** 2


def test_e23_errors_of_the_direction_are_at_most_r_max_squared_times_the_largest():
    rng = np.random.default_rng(0)
    errors, lam, r = rng.normal(size=(500, 4, 3)), rng.dirichlet(np.ones(4), 500), rng.dirichlet(np.ones(4), 500)
    off = np.sum(np.einsum("ns,nsp->np", r * lam, errors) ** 2, axis=1)
    assert (off <= r.max(axis=1) ** 2 * np.max(np.sum(errors**2, axis=2), axis=1)).all()


def test_lemma_5_fails_without_the_factor_two():
    """Full data (no noise), one dimension: displacement and truncation add up, (a + b)^2 > a^2 + 16 b^2 for b = a/15.

    g = mu y^2/2 - L x y, f = L (y - M/L)^2/2, at x = 0 and y^D = e.
    """
    mu, L, M, e, eta = 0.01, 1.0, 1.0, 1e-3, 1.0
    terms = round(math.log(e * L / M / 15) / math.log(1 - eta * mu))
    problem = bp.Problem(lambda x, y: 0.5 * L * (y - M / L) ** 2, lambda x, y: 0.5 * mu * y @ y - L * x @ y)
    found = bp.hypergradient(problem, jnp.zeros(1), jnp.full(1, e), bp.Neumann(terms, eta))[1]
    error = float(found[0, 0] + L / mu * M) ** 2  # y* = 0, f'(y*) = -M
    c = Constants(mu, L, M)
    corrected = float(theory.stochastic_error(c, eta, terms, (np.inf,) * 3, e**2))
    printed = corrected - (L + L**2 / mu) ** 2 * e**2
    assert error > 1.005 * printed
    assert error <= corrected
    assert math.sqrt(error) <= theory.neumann_error(c, eta, terms, e)


def test_conjugate_gradients_contract_by_twice_the_printed_factor():
    """H = diag(1, 2), one step from the error (1, 1/2): 1/3 of it is left, sqrt(kappa) c = 0.24."""
    h, start = np.array([1.0, 2.0]), np.array([1.0, 0.5])
    residual = h * start
    left = np.linalg.norm(start - residual @ residual / (residual @ (h * residual)) * residual) / np.linalg.norm(start)
    factor = math.sqrt(2) * (math.sqrt(2) - 1) / (math.sqrt(2) + 1)
    assert math.isclose(left, 1 / 3)
    assert factor < left <= 2 * factor


def test_the_expectation_of_a_maximum_exceeds_the_maximum_of_expectations():
    """Why Theorem 2 pays a factor S: S errors with E ||e_s||^2 = 1, and weights that may follow the largest."""
    rng = np.random.default_rng(0)
    squares = np.sum(rng.normal(size=(4000, 5, 1)) ** 2, axis=2)
    assert np.mean(squares.max(axis=1)) > 2 * np.max(squares.mean(axis=0))
    assert np.mean(squares.max(axis=1)) <= np.sum(squares.mean(axis=0))

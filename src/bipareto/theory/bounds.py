"""Right-hand sides of the paper's lemmas and theorems, with its errata (ALGORITHMS.md, section 7) applied.

Numbers in, numbers out; counts (K, D, N, Q) and distances may be arrays that broadcast. With q = 1 - alpha mu and
c = (sqrt(kappa) - 1)/(sqrt(kappa) + 1). Further corrections, derived in the docstrings of the functions they concern:

- conjugate gradients contract by 2 sqrt(kappa) c^N, not sqrt(kappa) c^N (`cg_error`);
- Omega has rho M/mu^2 where the paper prints L M/mu^2, which has no consistent unit (`Setting.drift`);
- Lemma 5 (stochastic hypergradients) needs 2 nu (`stochastic_error`);
- E max_s is not max_s E: Theorem 2 pays a factor S for it (`stochastic_bound`);
- ||d||^2 <= 4 r_max^2 ||grad phi_s||^2 follows from Lemma 2 and is never above the paper's r_max/(1 - r_max), which is
  infinite for one objective.
"""

import dataclasses
from typing import Any

import numpy as np

from bipareto.errors import message, positive_number
from bipareto.theory.constants import Constants


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the theorems are about: constants, beta, alpha, D and r_max (1 without a preference)."""

    constants: Constants
    step_size: float
    lower_step_size: float
    lower_steps: Any
    largest_preference: float = 1.0
    preference: bool = True

    def __post_init__(self):
        c = self.constants
        for name in ("step_size", "lower_step_size", "largest_preference"):
            positive_number(name, getattr(self, name), "see theory.advise")
        if self.lower_step_size > 2 / (c.L + c.mu) * (1 + 1e-12):
            rule = f"be at most 2/(L + mu) = {2 / (c.L + c.mu):.4g}"
            raise ValueError(message("lower_step_size", rule, self.lower_step_size, "lower it"))
        if self.step_size > self.largest_step * (1 + 1e-12):
            rule = f"be at most {self.largest_step:.4g} for the theorems to hold"
            raise ValueError(message("step_size", rule, self.step_size, "lower it, or take a run's certificate instead"))

    @property
    def largest_step(self) -> float:
        """1/(2 (1 + L_phi) r_max), and 3/(2 (1 + L_phi)) without a preference."""
        times = 1 / (2 * self.largest_preference) if self.preference else 1.5
        return times / (1 + self.constants.L_phi)

    @property
    def rate(self) -> Any:
        """q^D, by which D lower steps shrink a distance."""
        return (1 - self.lower_step_size * self.constants.mu) ** np.asarray(self.lower_steps, float)

    @property
    def slower_rate(self) -> Any:
        """q^(D-1)."""
        return (1 - self.lower_step_size * self.constants.mu) ** (np.asarray(self.lower_steps, float) - 1)

    @property
    def leading(self) -> float:
        """8 r_max/beta, what the decrease of phi is multiplied by: 24 r_max L_phi at beta = 1/(3 L_phi) (E22)."""
        return 8 * self.largest_preference / self.step_size

    @property
    def drift(self) -> float:
        """Omega = 16 r_max^2 beta^2 (kappa^2 + (1 + kappa)^2 (kappa + rho M/mu^2)^2): how far y* and v* move in a step.

        ||y*(x') - y*(x)|| <= kappa ||x' - x||, ||v*(x') - v*(x)|| <= (1 + kappa)(kappa + rho M/mu^2) ||x' - x||, and
        ||x' - x||^2 = beta^2 ||d||^2 <= 4 r_max^2 beta^2 ||g_s||^2 by Lemma 2 for estimated gradients g_s; times 2 twice.
        """
        c = self.constants
        moved = c.kappa**2 + (1 + c.kappa) ** 2 * (c.kappa + c.rho * c.M / c.mu**2) ** 2
        return 16 * (self.largest_preference * self.step_size) ** 2 * moved


def unrolled_error(setting: Setting, distance: Any) -> Any:
    """||estimate - grad phi_s|| of `Unrolled`, ||y^0 - y*|| = distance (Lemma 3):

    (L (L + mu)/mu q^(D/2) + 2 M (tau mu + L rho)/mu^2 q^((D-1)/2)) distance + L M/mu q^D.
    """
    c = setting.constants
    first = c.L * (c.L + c.mu) / c.mu * np.sqrt(setting.rate)
    second = 2 * c.M * (c.tau * c.mu + c.L * c.rho) / c.mu**2 * np.sqrt(setting.slower_rate)
    return (first + second) * np.asarray(distance) + c.L * c.M / c.mu * setting.rate


def cg_error(setting: Setting, cg_steps: Any, distance: Any, dual_distance: Any) -> Any:
    """||estimate - grad phi_s|| of `CG` from ||y^0 - y*|| = distance and ||v^0 - v*|| = dual_distance:

    (L + tau M/mu) e + L w,  e = q^D distance,  w = 2 sqrt(kappa) c^N dual_distance + (1 + 2 sqrt(kappa) c^N) a e,
    a = kappa + rho M/mu^2. From H v = b at y^D: ||v^ - v*|| <= a e, and N steps of conjugate gradients shrink ||v^0 - v^||
    by 2 sqrt(kappa) c^N (the energy norm by 2 c^N). Sharper than delta_{D,N} of Lemma 4.
    """
    c = setting.constants
    e = setting.rate * np.asarray(distance)
    return (c.L + c.tau * c.M / c.mu) * e + c.L * cg_dual_error(setting, cg_steps, distance, dual_distance)


def cg_dual_error(setting: Setting, cg_steps: Any, distance: Any, dual_distance: Any) -> Any:
    """||v^N - v*||: the w of `cg_error`."""
    c = setting.constants
    shrunk = _cg_factor(c, cg_steps)
    moved = (c.kappa + c.rho * c.M / c.mu**2) * setting.rate * np.asarray(distance)
    return shrunk * np.asarray(dual_distance) + (1 + shrunk) * moved


def cg_errors_along(
    setting: Setting, cg_steps: int, distance: float, dual_distance: float, directions: Any
) -> tuple[np.ndarray, np.ndarray]:
    """`cg_error` at every step of a warm-started run with those ||d_k||, and ||y_k^0 - y*(x_k)|| there.

    distance_{k+1} = q^D distance_k + kappa beta ||d_k||, dual_distance_{k+1} = w_k + (1 + kappa) a beta ||d_k||.
    """
    c, a, w = setting.constants, float(distance), float(dual_distance)
    rise = (1 + c.kappa) * (c.kappa + c.rho * c.M / c.mu**2)
    errors, distances = [], []
    for length in np.asarray(directions, float):
        errors.append(float(cg_error(setting, cg_steps, a, w)))
        distances.append(a)
        moved = setting.step_size * length
        w = float(cg_dual_error(setting, cg_steps, a, w)) + rise * moved
        a = float(setting.rate) * a + c.kappa * moved
    return np.array(errors), np.array(distances)


def neumann_error(constants: Constants, neumann_step_size: float, terms: Any, distance: Any) -> Any:
    """||estimate - grad phi_s|| of `Neumann` on full data, ||y^D - y*|| = distance:

    (L + L^2/mu + M tau/mu + L M rho/mu^2) distance + L M/mu (1 - eta mu)^(N+1).
    """
    c = constants
    tail = (1 - neumann_step_size * c.mu) ** (np.asarray(terms, float) + 1)
    return _sensitivity(c) * np.asarray(distance) + c.L * c.M / c.mu * tail


def stochastic_error(
    constants: Constants, neumann_step_size: float, terms: int, batches: tuple[Any, Any, Any], square: Any
) -> Any:
    """E ||estimate - grad phi_s||^2 <= chi + nu square of `StochasticNeumann`, E ||y^D - y*||^2 = square (Lemma 5):

    chi = 4 L^2 M^2/(mu^2 D_g) + (8 L^2/mu^2 + 2) M^2/D_f + 16 eta^2 L^4 M^2/(B mu^2) + 16 L^2 M^2/mu^2 (1 - eta mu)^(2Q),
    nu = 2 (L + L^2/mu + M tau/mu + L M rho/mu^2)^2; batches = (D_f, D_g, B).

    L^2/mu: E18. The 2: the error is noise and truncation (a) and displacement (b), ||a + b||^2 <= 2 ||a||^2 + 2 ||b||^2; chi
    holds the first 2 already. Without the second the lemma fails even on full data.
    """
    c, (upper, cross, hessian) = constants, batches
    k, square_m = c.kappa**2, c.M**2
    noise = 4 * k * square_m / cross + (8 * k + 2) * square_m / upper
    series = 16 * (neumann_step_size * c.L) ** 2 * k * square_m / hessian
    tail = 16 * k * square_m * (1 - neumann_step_size * c.mu) ** (2 * terms)
    return noise + series + tail + 2 * _sensitivity(c) ** 2 * np.asarray(square)


def unrolled_bound(setting: Setting, steps: Any, drop: Any, distance: Any) -> Any:
    """Theorem 1, NS, and the no-preference theorem: mean over K steps of ||sum_s r_s lam_s grad phi_s||^2 is at most

    8 r_max/beta (phi_s(x_0) - phi_s(x_K))/K + (12 + 8 r_max/beta) [(2 L^2 (L + mu)^2/mu^2 q^D
    + 8 M^2 (tau mu + L rho)^2/mu^4 q^(D-1)) chi + L^2 M^2/mu^2 q^(2D)]   (E11, E12, E15, E22)

    for every s, where Lemma 2 holds at every step; `drop` = phi_s(x_0) - phi_s(x_K), chi = distance^2, a bound of all
    ||y_k^0 - y*(x_k)||^2. The bracket bounds half the squared `unrolled_error`.
    """
    c, decay = setting.constants, setting.rate
    second = 8 * (c.M * (c.tau * c.mu + c.L * c.rho)) ** 2 / c.mu**4 * setting.slower_rate
    start = (2 * (c.L * (c.L + c.mu)) ** 2 / c.mu**2 * decay + second) * np.asarray(distance) ** 2
    bracket = start + (c.L * c.M / c.mu * decay) ** 2
    return setting.leading * np.asarray(drop) / np.asarray(steps) + (12 + setting.leading) * bracket


def unrolled_distance(setting: Setting, distance: float) -> float:
    """sup_k ||y_k^0 - y*(x_k)|| of an unrolled run that starts at `distance`.

    distance_{k+1} <= q^D distance_k + kappa beta ||d_k|| with ||d_k|| <= r_max (1 + kappa) M.
    """
    c, decay = setting.constants, float(setting.rate)
    moved = c.kappa * setting.step_size * setting.largest_preference * (1 + c.kappa) * c.M
    return max(distance, decay * distance + moved / (1 - decay))


def cg_bound(setting: Setting, cg_steps: int, steps: Any, drop: Any, distance: float, dual_distance: float) -> Any:
    """Theorem 1, CG: mean over K steps of ||sum_s r_s lam_s grad phi_s||^2 is at most (E16, E17, E22; l = 8 r_max/beta)

    l (phi_s(x_0) - phi_s(x_K) + delta chi_0)/K + (2 l + 24) M^2 delta Omega (kappa^2 + 1) + 6 delta chi_0,
    delta = Gamma q^D + 6 L^2 kappa c^(2N),
    Gamma = 3 L^2 + 3 tau^2 M^2/mu^2 + 6 L^2 (1 + sqrt(kappa))^2 (kappa + rho M/mu^2)^2,
    chi_0 = distance^2 + dual_distance^2, Omega as in `Setting.drift`; D and N must be so large that `cg_contraction` <= 1/2.
    """
    shrink = float(cg_contraction(setting, cg_steps))
    if shrink > 0.5:
        rule = "be so large, with `lower_steps`, that theory.cg_contraction is at most 1/2"
        raise ValueError(message("cg_steps", rule, f"{cg_steps}, and {shrink:.3g}", "take more CG and lower steps"))
    c, delta, chi = setting.constants, _delta(setting, cg_steps), distance**2 + dual_distance**2
    drifting = (2 * setting.leading + 24) * c.M**2 * delta * setting.drift * (c.kappa**2 + 1)
    return setting.leading * (np.asarray(drop) + delta * chi) / np.asarray(steps) + drifting + 6 * delta * chi


def cg_contraction(setting: Setting, cg_steps: Any) -> Any:
    """The factor of distance^2 + dual_distance^2 from one upper step to the next, Omega ||grad phi_s||^2 apart:

    2 (q^(2D) (1 + (1 + t)^2 a^2) + t^2) + Omega delta,  t = 2 sqrt(kappa) c^N,  a = kappa + rho M/mu^2.
    """
    c, shrunk = setting.constants, _cg_factor(setting.constants, cg_steps)
    a = c.kappa + c.rho * c.M / c.mu**2
    own = 2 * (setting.rate**2 * (1 + (1 + shrunk) ** 2 * a**2) + shrunk**2)
    return own + setting.drift * _delta(setting, cg_steps)


def stochastic_bound(
    setting: Setting,
    neumann: tuple[Any, int],
    batches: tuple[Any, Any, Any, Any],
    objectives: int,
    noise: float,
    steps: Any,
    drop: Any,
    distance: float,
) -> Any:
    """Theorem 2 with all factors: mean over K steps of E ||sum_s r_s lam_s grad phi_s||^2 is at most

    l (drop/K + E/2) + 2 S r_max^2 E,  l = 8 r_max/beta,  E = chi + nu e,  G = 2 M^2 (1 + kappa^2) >= ||grad phi_s||^2,
    e = [theta/2 distance^2/K + R (G + chi) + sigma^2/(L mu T)]/(1 - g),  R = 8 theta beta^2 kappa^2 r_max^2,
    g = theta + R nu,  theta = 2 ((L - mu)/(L + mu))^(2D)   (E18, E19, E20; g is the paper's theta + gamma/4)

    for alpha = 2/(L + mu). neumann = (eta, Q), batches = (T, D_f, D_g, B), noise = sigma. S stands where the paper takes the
    maximum over s out of the expectation, which bounds nothing: sum_s lam_s ||e_s||^2 <= sum_s ||e_s||^2 does.
    """
    c, (eta, terms), (lower, *others) = setting.constants, neumann, batches
    upper, cross, hessian = others
    chi = float(stochastic_error(c, eta, terms, (upper, cross, hessian), 0.0))
    nu = 2 * _sensitivity(c) ** 2
    theta = 2 * ((c.L - c.mu) / (c.L + c.mu)) ** (2 * setting.lower_steps)
    rise = 8 * theta * (setting.step_size * c.kappa * setting.largest_preference) ** 2
    shrink = theta + rise * nu
    if shrink >= 1:
        rule = "be so large that theta + gamma/4 is below 1"
        raise ValueError(message("lower_steps", rule, f"{setting.lower_steps}, and {shrink:.3g}", "take more lower steps"))
    slope = 2 * c.M**2 * (1 + c.kappa**2)
    start = theta / 2 * distance**2 / np.asarray(steps)
    square = (start + rise * (slope + chi) + noise**2 / (c.L * c.mu * lower)) / (1 - shrink)
    error = chi + nu * square
    mean = setting.leading * (np.asarray(drop) / np.asarray(steps) + error / 2)
    return mean + 2 * objectives * setting.largest_preference**2 * error


def _sensitivity(c: Constants) -> float:
    """How fast grad_x f - J H^-1 grad_y f changes with y."""
    return c.L + c.L**2 / c.mu + c.M * c.tau / c.mu + c.L * c.M * c.rho / c.mu**2


def _cg_factor(c: Constants, cg_steps: Any) -> Any:
    root = np.sqrt(c.kappa)
    return 2 * root * ((root - 1) / (root + 1)) ** np.asarray(cg_steps, float)


def _delta(setting: Setting, cg_steps: Any) -> Any:
    """delta_{D,N}: error^2 <= delta chi_0 where 1 + 2 sqrt(kappa) c^N <= sqrt(2) (1 + sqrt(kappa)), as in `cg_bound`."""
    c, shrunk = setting.constants, _cg_factor(setting.constants, cg_steps)
    a = c.kappa + c.rho * c.M / c.mu**2
    gamma = 3 * c.L**2 + 3 * (c.tau * c.M / c.mu) ** 2 + 6 * (c.L * (1 + np.sqrt(c.kappa)) * a) ** 2
    return gamma * setting.rate + 1.5 * c.L**2 * shrunk**2

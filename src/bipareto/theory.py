"""The paper's guarantees as numbers: constants of a problem, and settings that reach an accuracy.

The orders are those of the paper's theorems with all hidden factors set to 1; L_phi carries erratum E14.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import PyTree

from bipareto.errors import message, positive_number, whole_number
from bipareto.hypergradient import StochasticNeumann
from bipareto.oracles import OracleCounts, bind
from bipareto.problem import Problem, SeparableProblem
from bipareto.sampling import Batches
from bipareto.spectrum import extreme_eigenvalues


@dataclasses.dataclass(frozen=True)
class Constants:
    """Assumptions 1 and 2: g is mu-strongly convex in y; f_s is M-Lipschitz; gradients of f_s and g are L-Lipschitz; the
    second derivatives grad_xy g and grad_yy g are tau- and rho-Lipschitz (0 for a quadratic g)."""

    mu: float
    L: float
    M: float = 1.0
    tau: float = 0.0
    rho: float = 0.0

    def __post_init__(self):
        for name in ("mu", "L", "M", "tau", "rho"):
            remedy = "see theory.estimate_constants for estimates"
            positive_number(name, getattr(self, name), remedy, zero=name in ("tau", "rho"))
        if self.mu > self.L:
            raise ValueError(message("mu", f"be at most L = {self.L}", self.mu, "exchange them"))

    @property
    def kappa(self) -> float:
        return self.L / self.mu

    @property
    def L_phi(self) -> float:
        """Smoothness of the objectives phi_s: L + (2L^2 + tau M)/mu + (rho L M + L^3 + tau L M)/mu^2 + rho L^2 M/mu^3."""
        mu, L, M, tau, rho = self.mu, self.L, self.M, self.tau, self.rho
        return L + (2 * L**2 + tau * M) / mu + (rho * L * M + L**3 + tau * L * M) / mu**2 + rho * L**2 * M / mu**3


def estimate_constants(problem: Problem | SeparableProblem, x: PyTree, y: PyTree) -> Constants:
    """mu and L of the lower level by Lanczos and M = max_s ||grad f_s||, all at (x, y) only: estimates, not bounds.

    tau and rho are left at 0, as for a quadratic lower level.
    """
    oracles = bind(problem, x, y)
    flat_x, flat_y = oracles.x_layout.flatten(x), oracles.y_layout.flatten(y)
    mu, L = (float(value) for value in extreme_eigenvalues(oracles, flat_x, flat_y))
    if mu <= 0:
        remedy = "add a ridge term in y to `lower`"
        raise ValueError(message("lower", "be strongly convex in y", f"a smallest curvature of {mu:.3g}", remedy))
    prepared = oracles.prepare(flat_x)
    slopes, b = oracles.upper(prepared.upper, flat_y)[1](None)
    nothing = oracles.cross(prepared.lower, flat_y, oracles.zero_dual(combined=False))  # J v for v = 0
    in_x = oracles.pull_back(flat_x, slopes, nothing, combined=False)
    norms = np.sqrt(np.sum(np.asarray(in_x) ** 2, axis=1) + np.sum(np.asarray(b) ** 2, axis=1))
    return Constants(mu, L, max(float(norms.max()), np.finfo(float).tiny))


@dataclasses.dataclass(frozen=True)
class Advice:
    """Settings of stochastic WC-MHGD for an accuracy, and what they cost in samples (see `OracleCounts`)."""

    step_size: float
    lower_step_size: float
    neumann_step_size: float
    steps: int
    lower_steps: int
    neumann_terms: int
    lower_batch: int
    upper_batch: int
    cross_batch: int
    hessian_batch: int
    mu: float
    samples: OracleCounts

    def settings(self) -> dict[str, Any]:
        """The keyword arguments of `wc_mhgd` and `mgda`; `steps` goes to `solve`."""
        series = StochasticNeumann(self.neumann_terms, self.neumann_step_size, self.hessian_batch, self.mu)
        batches = Batches(self.lower_batch, self.upper_batch, self.cross_batch)
        steps = {"step_size": self.step_size, "lower_step_size": self.lower_step_size, "lower_steps": self.lower_steps}
        return {**steps, "hypergradient": series, "batches": batches}

    def __str__(self) -> str:
        rows = [f"{field.name:<18} {getattr(self, field.name):.4g}" for field in dataclasses.fields(self)[:-1]]
        costs = [f"samples, {name:<11} {count:.3g}" for name, count in self.samples._asdict().items()]
        return "\n".join(rows + costs)


def advise(constants: Constants, epsilon: float, objectives: int, largest_preference: float = 1.0) -> Advice:
    """Settings for a mean stationarity of `epsilon` (Theorem 2).

    alpha = 2/(L + mu), eta = 1/L, beta = min{1/(2(1 + L_phi) r_max), 1/(3 L_phi)}, K = kappa^3/eps, D = kappa log(1/eps),
    Q = kappa log(kappa^2/eps), T = kappa^8/eps, D_f = D_g = B = kappa^5/eps. Safe, and often far more than practice needs.
    """
    epsilon = float(positive_number("epsilon", epsilon, "pass an accuracy below 1"))
    if epsilon >= 1:
        raise ValueError(message("epsilon", "be below 1", epsilon, "pass an accuracy such as 1e-2"))
    r_max = float(positive_number("largest_preference", largest_preference, "pass max(preference)"))
    whole_number("objectives", objectives, "pass S")
    kappa, smoothness = constants.kappa, constants.L_phi
    steps, lower_steps = _up(kappa**3 / epsilon), _up(kappa * math.log(1 / epsilon))
    terms = _up(kappa * math.log(kappa**2 / epsilon))
    lower_batch, batch = _up(kappa**8 / epsilon), _up(kappa**5 / epsilon)
    factors = [max(1, _up(batch * terms * (1 - 1 / kappa) ** j)) for j in range(terms)]
    samples = OracleCounts(
        2 * steps * batch * objectives,
        steps * lower_steps * lower_batch,
        steps * batch * objectives,
        steps * sum(factors) * objectives,
    )
    return Advice(
        min(1 / (2 * (1 + smoothness) * r_max), 1 / (3 * smoothness)),
        2 / (constants.L + constants.mu),
        1 / constants.L,
        steps,
        lower_steps,
        terms,
        lower_batch,
        batch,
        batch,
        batch,
        constants.mu,
        samples,
    )


def _up(value: float) -> int:
    return max(1, math.ceil(value - 1e-9))

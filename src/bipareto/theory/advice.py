"""Settings that reach an accuracy, and what they cost.

The orders are those of the paper's theorems with all hidden factors set to 1.
"""

import dataclasses
import math
from typing import Any

from bipareto.errors import message, positive_number, whole_number
from bipareto.hypergradient import StochasticNeumann
from bipareto.oracles import OracleCounts
from bipareto.sampling import Batches
from bipareto.theory.constants import Constants


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

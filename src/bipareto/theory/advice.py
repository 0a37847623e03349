"""Settings that reach an accuracy, what they cost, and how far they are from what a run needed.

The orders are those of the paper's theorems with all hidden factors set to 1.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from bipareto.algorithms import HypergradientDescent
from bipareto.errors import message, one_of, positive_number, whole_number
from bipareto.hypergradient import CG, StochasticNeumann, Unrolled
from bipareto.lower import PlainStep
from bipareto.oracles import OracleCounts
from bipareto.sampling import Batches
from bipareto.solver import Solution
from bipareto.theory.constants import Constants

METHODS = ("stochastic", "cg", "unrolled", "no preference")


@dataclasses.dataclass(frozen=True)
class Advice:
    """Settings of WC-MHGD for an accuracy, and what they cost: evaluations, or samples for the stochastic method (see
    `OracleCounts`). What a method does not have is None."""

    step_size: float
    lower_step_size: float
    neumann_step_size: float | None
    steps: int
    lower_steps: int
    neumann_terms: int | None
    lower_batch: int | None
    upper_batch: int | None
    cross_batch: int | None
    hessian_batch: int | None
    mu: float
    samples: OracleCounts
    cg_steps: int | None = None
    method: str = "stochastic"
    epsilon: float = 0.0

    def settings(self) -> dict[str, Any]:
        """The keyword arguments of `wc_mhgd` and `mgda` (without a preference: of `mgda`); `steps` goes to `solve`."""
        steps = {"step_size": self.step_size, "lower_step_size": self.lower_step_size, "lower_steps": self.lower_steps}
        if self.neumann_terms is None:
            return {**steps, "hypergradient": Unrolled() if self.cg_steps is None else CG(self.cg_steps)}
        series = StochasticNeumann(self.neumann_terms, self.neumann_step_size, self.hessian_batch, self.mu)  # pyright: ignore[reportArgumentType]
        batches = Batches(self.lower_batch, self.upper_batch, self.cross_batch)
        return {**steps, "hypergradient": series, "batches": batches}

    def compare(self, algorithm: HypergradientDescent, solution: Solution) -> "Comparison":
        """This advice against a run, up to the first step whose stationarity gap is at most epsilon."""
        met = np.flatnonzero(np.asarray(solution.history.gap) <= self.epsilon)
        steps = int(met[0]) + 1 if len(met) else len(solution.history.gap)
        used: list[tuple[str, Any, Any]] = [
            ("steps", self.steps, steps),
            ("lower_steps", self.lower_steps, algorithm.lower.steps),
        ]
        for name, step in (("step_size", algorithm.upper), ("lower_step_size", algorithm.lower.optimizer)):
            if isinstance(step, PlainStep):
                used.append((name, getattr(self, name), float(step.size)))
        for name, count in solution.history.counts._asdict().items():
            used.append((name, getattr(self.samples, name), int(np.sum(np.asarray(count)[:steps], dtype=np.int64))))
        return Comparison(self.epsilon, steps if len(met) else None, tuple(used))

    def __str__(self) -> str:
        fields = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self) if field.name != "samples")
        shown = [(name, value if isinstance(value, str) else f"{value:.4g}") for name, value in fields if value is not None]
        unit = "samples" if self.method == "stochastic" else "count"
        costs = [f"{f'{unit}, {name}':<20} {count:.3g}" for name, count in self.samples._asdict().items()]
        return "\n".join([f"{name:<20} {text}" for name, text in shown] + costs)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`rows` of (name, advised, used); `reached`: the steps until the run's gap was at most `epsilon`, None if never."""

    epsilon: float
    reached: int | None
    rows: tuple[tuple[str, Any, Any], ...]

    @property
    def too_conservative(self) -> tuple[str, ...]:
        """What the advice makes 100 times dearer (for step sizes: smaller) than a run needed that did reach epsilon."""
        if self.reached is None:
            return ()
        factor = lambda name, advised, used: used / advised if "size" in name else advised / max(used, 1)  # noqa: E731
        return tuple(name for name, advised, used in self.rows if factor(name, advised, used) >= 100)

    def __str__(self) -> str:
        when = "never" if self.reached is None else f"after {self.reached} steps"
        lines = [f"gap <= {self.epsilon:g}: {when}", f"{'':<16} {'theory':>10} {'the run':>10}"]
        for name, advised, used in self.rows:
            note = "  too conservative" if name in self.too_conservative else ""
            lines.append(f"{name:<16} {advised:>10.3g} {used:>10.3g}{note}")
        return "\n".join(lines)


def advise(
    constants: Constants,
    epsilon: float,
    objectives: int,
    largest_preference: float = 1.0,
    method: str = "stochastic",
    separable: bool = False,
) -> Advice:
    """Settings for a mean stationarity of `epsilon` (Theorems 1, 2 and the one without a preference).

    beta = min{1/(2(1 + L_phi) r_max), 1/(3 L_phi)}, without a preference min{3/(2(1 + L_phi)), 1/L_phi}; K = kappa^3/eps,
    D = kappa log(1/eps). "cg" and "unrolled" (and "no preference", which unrolls): alpha = 1/L, N = sqrt(kappa) log(1/eps).
    "stochastic": alpha = 2/(L + mu), eta = 1/L, Q = kappa log(kappa^2/eps), T = kappa^8/eps, D_f = D_g = B = kappa^5/eps.
    Safe, and often far more than practice needs: see `Advice.compare`. `separable`: a product serves all objectives at once.
    """
    epsilon = float(positive_number("epsilon", epsilon, "pass an accuracy below 1"))
    if epsilon >= 1:
        raise ValueError(message("epsilon", "be below 1", epsilon, "pass an accuracy such as 1e-2"))
    r_max = float(positive_number("largest_preference", largest_preference, "pass max(preference)"))
    whole_number("objectives", objectives, "pass S")
    one_of("method", method, METHODS)
    kappa, smoothness, width = constants.kappa, constants.L_phi, 1 if separable else objectives
    steps, lower_steps = _up(kappa**3 / epsilon), _up(kappa * math.log(1 / epsilon))
    size = min(1 / (2 * (1 + smoothness) * r_max), 1 / (3 * smoothness))
    if method == "stochastic":
        return _stochastic(constants, epsilon, objectives, width, size, steps, lower_steps)
    if method == "no preference":
        size = min(1.5 / (1 + smoothness), 1 / smoothness)
    cg_steps = _up(math.sqrt(kappa) * math.log(1 / epsilon)) if method == "cg" else None
    jvp, hvp = (lower_steps, lower_steps) if cg_steps is None else (1, cg_steps + 1)
    counts = OracleCounts(2 * steps * objectives, steps * lower_steps, steps * jvp * width, steps * hvp * width)
    settings = size, 1 / constants.L, None, steps, lower_steps, None
    return Advice(*settings, None, None, None, None, constants.mu, counts, cg_steps, method, epsilon)


def _stochastic(
    c: Constants, epsilon: float, objectives: int, width: int, size: float, steps: int, lower_steps: int
) -> Advice:
    kappa = c.kappa
    terms = _up(kappa * math.log(kappa**2 / epsilon))
    lower_batch, batch = _up(kappa**8 / epsilon), _up(kappa**5 / epsilon)
    factors = [max(1, _up(batch * terms * (1 - 1 / kappa) ** j)) for j in range(terms)]
    samples = OracleCounts(
        2 * steps * batch * objectives,
        steps * lower_steps * lower_batch,
        steps * batch * width,
        steps * sum(factors) * width,
    )
    settings = size, 2 / (c.L + c.mu), 1 / c.L, steps, lower_steps, terms
    batches = lower_batch, batch, batch, batch
    return Advice(*settings, *batches, c.mu, samples, None, "stochastic", epsilon)


def _up(value: float) -> int:
    return max(1, math.ceil(value - 1e-9))

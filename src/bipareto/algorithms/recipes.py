"""Named methods as choices of parts.

| method  | weighting                 | reduces for S = 1 to             |
|---------|---------------------------|----------------------------------|
| wc_mhgd | WeightedChebyshev         | AID (with CG), ITD (with Unrolled) |
| mgda    | MinNorm                   | the same                         |
| linear  | Linear                    | the same                         |
| stocbio | Linear, StochasticNeumann | stocBiO                          |
"""

from typing import Any

from bipareto.algorithms.descent import HypergradientDescent
from bipareto.hypergradient import CG, Hypergradient, StochasticNeumann
from bipareto.lower import GradientDescent
from bipareto.sampling import Batches
from bipareto.weighting import Linear, MinNorm, WeightedChebyshev


def wc_mhgd(
    preference: Any,
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: Hypergradient | None = None,
    u: Any = "prox",
    reference: Any = 0.0,
    batches: Batches | None = None,
    average: float = 0.0,
) -> HypergradientDescent:
    """WC-MHGD (Algorithm 1, with `batches` Algorithm 2): x <- x - beta sum_s r_s lam_s grad phi_s with lam from

    min over the simplex of lam' diag(r) M diag(r) lam - u lam'(r o (Phi - z)), M the Gram matrix of the hypergradients.

    `preference` r > 0 is scaled to sum 1; a larger r_s asks for a smaller phi_s (r o Phi becomes equal where active).
    `u` and the `reference` point z: see `WeightedChebyshev`. Step sizes: floats, optax schedules or optax transformations.
    `batches` make it stochastic (the paper pairs them with `StochasticNeumann`); the program then sees an exponential
    average of the values that keeps the share `average` of the past.
    """
    weighting = WeightedChebyshev(preference, u, step_size, reference)
    return _descent(weighting, step_size, lower_step_size, lower_steps, hypergradient, batches, average)


def mgda(
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: Hypergradient | None = None,
    batches: Batches | None = None,
) -> HypergradientDescent:
    """No preference: x <- x - beta d with d the minimum-norm point of the convex hull of the hypergradients."""
    return _descent(MinNorm(), step_size, lower_step_size, lower_steps, hypergradient, batches)


def linear(
    weights: Any,
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: Hypergradient | None = None,
    batches: Batches | None = None,
) -> HypergradientDescent:
    """Linear scalarisation: descent on sum_s w_s phi_s, one linear solve per step whatever S is."""
    return _descent(Linear(weights), step_size, lower_step_size, lower_steps, hypergradient, batches)


def stocbio(
    weights: Any = (1.0,),
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: StochasticNeumann | None = None,
    batches: Batches | None = None,
) -> HypergradientDescent:
    """stocBiO (Ji, Yang and Liang 2021): stochastic Neumann hypergradients of one objective, or of sum_s w_s phi_s."""
    series = StochasticNeumann() if hypergradient is None else hypergradient
    return linear(weights, step_size, lower_step_size, lower_steps, series, batches)


def _descent(weighting, step_size, lower_step_size, lower_steps, hypergradient, batches, average=0.0):
    lower = GradientDescent(lower_step_size, lower_steps)
    method = CG() if hypergradient is None else hypergradient
    return HypergradientDescent(lower, method, weighting, step_size, batches, average)

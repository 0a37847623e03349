from bipareto.hypergradient.estimate import (
    Estimate,
    check_below,
    check_convergence,
    check_sampling,
    draws_batches,
    estimate,
    hypergradient,
)
from bipareto.hypergradient.methods import CG, AdjointDescent, Hypergradient, Neumann, StochasticNeumann, Unrolled

__all__ = [
    "CG",
    "AdjointDescent",
    "Estimate",
    "Hypergradient",
    "Neumann",
    "StochasticNeumann",
    "Unrolled",
    "check_below",
    "check_convergence",
    "check_sampling",
    "draws_batches",
    "estimate",
    "hypergradient",
]

from bipareto.hypergradient.estimate import (
    Estimate,
    check_convergence,
    check_sampling,
    draws_batches,
    estimate,
    hypergradient,
)
from bipareto.hypergradient.methods import CG, Hypergradient, Neumann, StochasticNeumann, Unrolled

__all__ = [
    "CG",
    "Estimate",
    "Hypergradient",
    "Neumann",
    "StochasticNeumann",
    "Unrolled",
    "check_convergence",
    "check_sampling",
    "draws_batches",
    "estimate",
    "hypergradient",
]

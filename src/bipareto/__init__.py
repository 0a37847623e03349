"""Multi-objective bilevel learning: several upper objectives over one lower-level training problem."""

from bipareto import distributed, metrics, preferences, theory
from bipareto.algorithms import HypergradientDescent, linear, mgda, stocbio, wc_mhgd
from bipareto.front import Front, explore
from bipareto.hypergradient import CG, Neumann, StochasticNeumann, Unrolled, hypergradient
from bipareto.lower import GradientDescent
from bipareto.problem import Problem, SeparableProblem
from bipareto.sampling import Batches
from bipareto.simplex import duality_gap, simplex_qp
from bipareto.solver import Solution, solve
from bipareto.status import Status
from bipareto.store import CorruptFile, NotSaved
from bipareto.weighting import Linear, MinNorm, SmoothChebyshev, WeightedChebyshev, stationarity_gap

__version__ = "0.1.0"

__all__ = [
    "CG",
    "Batches",
    "CorruptFile",
    "Front",
    "GradientDescent",
    "HypergradientDescent",
    "Linear",
    "MinNorm",
    "Neumann",
    "NotSaved",
    "Problem",
    "SeparableProblem",
    "SmoothChebyshev",
    "Solution",
    "Status",
    "StochasticNeumann",
    "Unrolled",
    "WeightedChebyshev",
    "distributed",
    "duality_gap",
    "explore",
    "hypergradient",
    "linear",
    "metrics",
    "mgda",
    "preferences",
    "simplex_qp",
    "solve",
    "stationarity_gap",
    "stocbio",
    "theory",
    "wc_mhgd",
]

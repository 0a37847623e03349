"""Multi-objective bilevel learning: several upper objectives over one lower-level training problem."""

from bipareto import distributed, metrics, preferences, theory
from bipareto.algorithms import (
    HypergradientDescent,
    aid,
    amigo,
    forum,
    gmoba,
    itd,
    linear,
    mgda,
    moco,
    moml,
    soba,
    stable,
    stocbio,
    wc_mhgd,
)
from bipareto.comparison import Comparison, compare
from bipareto.front import Front, evolutionary, explore
from bipareto.hypergradient import CG, AdjointDescent, Neumann, StochasticNeumann, Unrolled, hypergradient
from bipareto.lower import Decaying, GradientDescent
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
    "AdjointDescent",
    "Batches",
    "Comparison",
    "CorruptFile",
    "Decaying",
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
    "aid",
    "amigo",
    "compare",
    "distributed",
    "duality_gap",
    "evolutionary",
    "explore",
    "forum",
    "gmoba",
    "hypergradient",
    "itd",
    "linear",
    "metrics",
    "mgda",
    "moco",
    "moml",
    "preferences",
    "simplex_qp",
    "soba",
    "solve",
    "stable",
    "stationarity_gap",
    "stocbio",
    "theory",
    "wc_mhgd",
]

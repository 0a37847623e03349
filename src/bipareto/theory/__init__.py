"""The paper's guarantees, corrected, as numbers: constants of a problem, settings for an accuracy, bounds,
certificates of runs."""

from bipareto.theory.advice import Advice, Comparison, advise
from bipareto.theory.bounds import (
    Setting,
    cg_bound,
    cg_contraction,
    cg_error,
    cg_errors_along,
    neumann_error,
    stochastic_bound,
    stochastic_error,
    unrolled_bound,
    unrolled_distance,
    unrolled_error,
)
from bipareto.theory.certificate import Certificate, certify
from bipareto.theory.conduct import Conduct
from bipareto.theory.constants import Constants, estimate_constants, lower_spectrum

__all__ = [
    "Advice",
    "Certificate",
    "Comparison",
    "Conduct",
    "Constants",
    "Setting",
    "advise",
    "certify",
    "cg_bound",
    "cg_contraction",
    "cg_error",
    "cg_errors_along",
    "estimate_constants",
    "lower_spectrum",
    "neumann_error",
    "stochastic_bound",
    "stochastic_error",
    "unrolled_bound",
    "unrolled_distance",
    "unrolled_error",
]

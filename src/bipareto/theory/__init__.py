"""The paper's guarantees, corrected, as numbers: constants of a problem, settings for an accuracy."""

from bipareto.theory.advice import Advice, advise
from bipareto.theory.constants import Constants, estimate_constants, lower_spectrum

__all__ = ["Advice", "Constants", "advise", "estimate_constants", "lower_spectrum"]

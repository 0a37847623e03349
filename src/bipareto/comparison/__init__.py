from bipareto.comparison.compare import compare
from bipareto.comparison.result import Comparison

__all__ = ["Comparison", "compare"]

from bipareto.algorithms.descent import HypergradientDescent
from bipareto.algorithms.recipes import linear, mgda, wc_mhgd

__all__ = ["HypergradientDescent", "linear", "mgda", "wc_mhgd"]

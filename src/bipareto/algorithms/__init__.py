from bipareto.algorithms.descent import HypergradientDescent
from bipareto.algorithms.recipes import linear, mgda, stocbio, wc_mhgd

__all__ = ["HypergradientDescent", "linear", "mgda", "stocbio", "wc_mhgd"]

from bipareto.algorithms.descent import HypergradientDescent
from bipareto.algorithms.forum import forum
from bipareto.algorithms.moco import moco
from bipareto.algorithms.recipes import aid, amigo, gmoba, itd, linear, mgda, moml, stocbio, wc_mhgd
from bipareto.algorithms.soba import soba
from bipareto.algorithms.stable import stable

__all__ = [
    "HypergradientDescent",
    "aid",
    "amigo",
    "forum",
    "gmoba",
    "itd",
    "linear",
    "mgda",
    "moco",
    "moml",
    "soba",
    "stable",
    "stocbio",
    "wc_mhgd",
]

from bipareto.oracles.binding import bind, curvature
from bipareto.oracles.interface import OracleCounts, Oracles, Prepared, convolves, zero_values
from bipareto.oracles.joint import JointOracles
from bipareto.oracles.separable import SeparableOracles

__all__ = [
    "JointOracles",
    "OracleCounts",
    "Oracles",
    "Prepared",
    "SeparableOracles",
    "bind",
    "convolves",
    "curvature",
    "zero_values",
]

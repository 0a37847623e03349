"""The same judge for every method: true values and the exact stationarity gap, at the solved lower level."""

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array

from bipareto.distributed import fetch
from bipareto.errors import message
from bipareto.hypergradient import CG, estimate
from bipareto.lower import GradientDescent
from bipareto.oracles import Oracles
from bipareto.sampling import Batches, Draws
from bipareto.weighting import stationarity_gap


class Judged(NamedTuple):
    """phi_s(x) [S], the gap min over the simplex of ||sum_s lam_s grad phi_s||^2, and ||grad_y g|| at their y."""

    values: np.ndarray
    gap: float
    residual: float
    y: Array

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.values).all() and np.isfinite(self.gap))


class Judge(eqx.Module):
    """Solves the lower level with all data from the method's own y, then every adjoint by conjugate gradients.

    Methods know their hypergradients through estimates of different kinds, or not at all, so that the gaps they report are
    not comparable. What the judge evaluates is not counted.
    """

    lower: GradientDescent
    hypergradient: CG

    def __init__(self, lower: Any, cg_steps: int = 100):
        if not isinstance(lower, GradientDescent):
            remedy = "pass bp.GradientDescent(step_size, steps) with steps enough to converge"
            raise TypeError(message("judge", "be a GradientDescent", repr(lower), remedy))
        self.lower = lower
        self.hypergradient = CG(cg_steps)

    def __call__(self, oracles: Oracles, x: Array, y: Array) -> Judged:
        *told, solved = _judged(self, oracles, x, y)
        values, gap, residual = fetch(told)
        return Judged(np.asarray(values, float), float(gap), float(residual), solved)


@eqx.filter_jit
def _judged(judge: Judge, oracles: Oracles, x: Array, y: Array):
    start = oracles.zero_dual(combined=False)
    found = estimate(Draws(oracles, Batches(), None), judge.hypergradient, judge.lower, x, y, start)
    return found.values, stationarity_gap(found.jacobian @ found.jacobian.T), found.lower_residual, found.y

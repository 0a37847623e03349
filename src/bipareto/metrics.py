"""How good a set of points is. Values are minimised; rows are points [n, S]."""

from typing import Any, NamedTuple

import numpy as np

from bipareto.errors import message, positive_vector

# Exact hypervolume stays fast for (objectives, points) up to these; beyond, moocore's approximation is used.
_EXACT_POINTS = {6: 500, 7: 200, 8: 100}


class Hypervolume(NamedTuple):
    """The volume dominated by a front below `reference`, and whether it is exact."""

    value: float
    reference: np.ndarray
    exact: bool


def nondominated(values: Any) -> np.ndarray:
    """[n]: which points no other point dominates (not worse anywhere, better somewhere). Points with NaN never count."""
    points = _points("values", values)
    finite = np.all(np.isfinite(points), axis=1)
    shown = np.where(finite[:, None], points, np.inf)
    worse = np.all(shown[None] <= shown[:, None], axis=2) & np.any(shown[None] < shown[:, None], axis=2)
    return finite & ~np.any(worse, axis=1)


def hypervolume(values: Any, reference: Any = None) -> Hypervolume:
    """Dominated volume, exact for S <= 5 or few points, else approximated; `reference`: by default the worst values."""
    moocore = _moocore()
    points = _points("values", values)
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        raise ValueError(message("values", "hold a finite point", "none", "look at the status of the runs"))
    corner = points.max(axis=0) if reference is None else np.asarray(reference, float)
    if corner.shape != points.shape[1:] or not np.isfinite(corner).all():
        rule = f"be {points.shape[1]} finite numbers"
        raise ValueError(message("reference", rule, corner, "pass one bound per objective, worse than what matters"))
    objectives = points.shape[1]
    exact = objectives <= 5 or len(points) <= _EXACT_POINTS.get(objectives, 30)
    value = moocore.hypervolume(points, ref=corner) if exact else moocore.hv_approx(points, ref=corner, seed=0)
    return Hypervolume(float(value), corner, exact)


def igd_plus(values: Any, front: Any) -> float:
    """IGD+: mean distance from the points of `front` to what `values` fall short of them; 0 if all are reached."""
    return float(_moocore().igd_plus(_points("values", values), ref=_points("front", front)))


def chebyshev(values: Any, preference: Any, reference: Any = 0.0) -> np.ndarray:
    """[n]: max_s r_s (phi_s - z_s), what WC-MHGD minimises for its preference."""
    r = positive_vector("preference", preference, "pass a positive vector, one entry per objective")
    return np.max(r * (_points("values", values) - reference), axis=1)


def nonuniformity(values: Any, preference: Any, reference: Any = 0.0) -> np.ndarray:
    """[n]: sum_s p_s log(S p_s) with p = r o (Phi - z) scaled to sum 1: 0 where the point lies on the preferred ray."""
    r = positive_vector("preference", preference, "pass a positive vector, one entry per objective")
    heights = r * (_points("values", values) - reference)
    share = heights / heights.sum(axis=1, keepdims=True)
    return np.sum(np.where(share > 0, share * np.log(np.maximum(share * share.shape[1], 1e-300)), 0), axis=1)


def _points(name: str, values: Any) -> np.ndarray:
    points = np.asarray(values, float)
    if points.ndim != 2 or not points.size:
        raise ValueError(message(name, "be points [n, S]", f"shape {points.shape}", "pass one row per point"))
    return points


def _moocore() -> Any:
    try:
        import moocore
    except ImportError:
        text = message("moocore", "be installed for hypervolume and IGD+", "no such package", "pip install moocore")
        raise ModuleNotFoundError(text) from None
    return moocore

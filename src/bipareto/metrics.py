"""How good a set of points is. Values are minimised; rows are points [n, S]."""

from typing import Any, NamedTuple

import numpy as np

from bipareto.errors import message, positive_vector, reference_point

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
    points, others = _pair(values, "front", front)
    return float(_moocore().igd_plus(points, ref=others))


def coverage(values: Any, other: Any) -> float:
    """C(values, other): the share of the points of `other` that some point of `values` weakly dominates (Zitzler).

    Not worse anywhere is enough, so a point covers itself. C(A, B) and C(B, A) are two numbers: they need not sum to 1.
    Points with NaN or Inf are left out of both sets.
    """
    points, others = (rows[np.isfinite(rows).all(axis=1)] for rows in _pair(values, "other", other))
    if not len(others):
        raise ValueError(message("other", "hold a finite point", "none", "look at the status of the runs"))
    return float(np.mean([np.all(points <= point, axis=1).any() for point in others]))


def chebyshev(values: Any, preference: Any, reference: Any = 0.0) -> np.ndarray:
    """[n]: max_s r_s (phi_s - z_s), what WC-MHGD minimises for its preference."""
    r, above = _aimed(values, preference, reference)
    return np.max(r * above, axis=1)


def nonuniformity(values: Any, preference: Any, reference: Any = 0.0) -> np.ndarray:
    """[n]: sum_s p_s log(S p_s) with p = r o (Phi - z) scaled to sum 1: 0 where the point lies on the preferred ray."""
    r, above = _aimed(values, preference, reference)
    heights = r * above
    share = heights / heights.sum(axis=1, keepdims=True)
    return np.sum(np.where(share > 0, share * np.log(np.maximum(share * share.shape[1], 1e-300)), 0), axis=1)


def angle(values: Any, preference: Any, reference: Any = 0.0) -> np.ndarray:
    """[n]: degrees between Phi - z and the preferred ray 1/r, on which r o (Phi - z) is equal; NaN at Phi = z."""
    r, above = _aimed(values, preference, reference)
    with np.errstate(invalid="ignore"):  # no direction at Phi = z
        unit = above / np.linalg.norm(above, axis=1, keepdims=True)
    ray = (1 / r) / np.linalg.norm(1 / r)
    # Kahan's form: the arc cosine of <unit, ray> would lose half the digits of a small angle.
    return np.degrees(2 * np.arctan2(np.linalg.norm(unit - ray, axis=1), np.linalg.norm(unit + ray, axis=1)))


def _aimed(values: Any, preference: Any, reference: Any) -> tuple[np.ndarray, np.ndarray]:
    """r and Phi - z, where they fit each other."""
    r = positive_vector("preference", preference, "pass a positive vector, one entry per objective")
    points = _points("values", values)
    if len(r) != points.shape[1]:
        found = f"{len(r)} entries for {points.shape[1]} objectives"
        raise ValueError(message("preference", "have one entry per objective", found, "add or remove entries"))
    return r, points - reference_point(reference, points.shape[1])


def _pair(values: Any, name: str, other: Any) -> tuple[np.ndarray, np.ndarray]:
    points, others = _points("values", values), _points(name, other)
    if points.shape[1] != others.shape[1]:
        rule = f"have the {points.shape[1]} objectives of `values`"
        raise ValueError(message(name, rule, others.shape[1], "compare fronts of one problem"))
    return points, others


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

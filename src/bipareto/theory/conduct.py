"""How the steps of a run went, read off its history: Lemma 2, common descent, vertices, the Chebyshev value."""

from typing import Any, NamedTuple

import numpy as np

from bipareto.algorithms import HypergradientDescent
from bipareto.metrics import chebyshev
from bipareto.solver import Solution
from bipareto.weighting import MinNorm, WeightedChebyshev


class Conduct(NamedTuple):
    """Shares are of the steps; None where the weighting gives no meaning to a number.

    `lemma`: Lemma 2 held, ||d||^2 <= 2 r_max <d, grad phi_s> for all s; `margin`: the least of the difference.
    `descent`: <d, grad phi_s> > 0 for all s. `vertex`: all weight on one objective. `u_inside`: u was small enough for the
    lemma's proof, u (lam_k - lam)'(r o (Phi - z)) <= ||d_k||^2 for all lam (E8). `chebyshev`: max_s r_s (phi_s - z_s) at the
    start and the end, and how many steps raised it. Gradients and values are those the run saw, batches and all.
    """

    steps: int
    lemma: float | None
    margin: float | None
    descent: float | None
    vertex: float | None
    u_inside: float | None
    chebyshev_start: float | None
    chebyshev_end: float | None
    chebyshev_rises: int | None

    def rows(self) -> list[tuple[str, str]]:
        """For the table of a certificate; what has no meaning is left out."""
        share = lambda value: f"{100 * value:.4g} % of {self.steps} steps"  # noqa: E731
        rows = [
            ("Lemma 2 held", self.lemma, share),
            ("least margin of Lemma 2", self.margin, lambda value: f"{value:.2e}"),
            ("u inside Lemma 2", self.u_inside, share),
            ("common descent", self.descent, share),
            ("one objective only", self.vertex, share),
        ]
        shown = [(name, show(value)) for name, value, show in rows if value is not None]
        if self.chebyshev_rises is not None:
            ends = f"{self.chebyshev_start:.6g} -> {self.chebyshev_end:.6g}"
            manner = "never rose" if self.chebyshev_rises == 0 else f"rose {self.chebyshev_rises} times"
            shown.append(("max_s r_s (phi_s - z_s)", f"{ends}, {manner}"))
        return shown


def conduct_of(algorithm: HypergradientDescent, solution: Solution) -> Conduct:
    """The conduct of a run of `algorithm`."""
    history, weighting = solution.history, algorithm.weighting
    weights, steps = np.asarray(history.weights, float), len(history.gap)
    lemma = margin = descent = vertex = None
    eps = np.finfo(history.values.dtype).eps
    if not weighting.values_only:
        r = np.asarray(weighting.preference_of(weights.shape[1]), float)
        along = np.einsum("kst,kt->ks", np.asarray(history.gram, float), weights)
        # What rounding in the run's own precision can take from a margin of 0.
        noise = 16 * eps * (np.max(np.abs(along), axis=1) + history.direction)
        margin = float(np.min(history.margin))
        lemma = float(np.mean(history.margin >= -noise))
        descent = float(np.mean(np.min(along, axis=1) > 0))
        vertex = float(np.mean(np.max(weights / r, axis=1) >= 1 - 1e-6))
    heights = None
    if algorithm.takes_preference:
        values = np.concatenate([np.asarray(history.values, float), np.asarray(solution.values, float)[None]])
        heights = chebyshev(values, weighting.preference, weighting.reference)  # pyright: ignore[reportAttributeAccessIssue]
    rises = None if heights is None else int(np.sum(np.diff(heights) > 8 * eps * np.abs(heights[:-1])))
    ends = (None, None) if heights is None else (float(heights[0]), float(heights[-1]))
    return Conduct(steps, lemma, margin, descent, vertex, _inside(algorithm, history), *ends, rises)


def _inside(algorithm: HypergradientDescent, history: Any) -> float | None:
    """Share of steps with u max_lam (lam_k - lam)'h <= ||d_k||^2, h = r o (Phi - z); the maximum is lam_k'h - min_s h_s."""
    weighting = algorithm.weighting
    if isinstance(weighting, MinNorm):
        return 1.0  # u = 0
    if not isinstance(weighting, WeightedChebyshev) or weighting.certified or float(algorithm.average):
        return None  # the u of a certified step, and averaged values, are not recorded; `lemma` tells
    r, z = np.asarray(weighting.preference, float), np.asarray(weighting.reference, float)
    heights = r * (np.asarray(history.values, float) - z)
    reach = np.sum(np.asarray(history.weights, float) / r * heights, axis=1) - heights.min(axis=1)
    u = np.array([weighting.u(k) for k in range(len(reach))] if callable(weighting.u) else weighting.u, float)
    return float(np.mean(u * reach <= history.direction * (1 + 1e-9)))

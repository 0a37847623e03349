"""Named methods as choices of parts.

| method  | hypergradient                   | weighting         | lower steps |
|---------|---------------------------------|-------------------|-------------|
| wc_mhgd | any (CG)                        | WeightedChebyshev | D           |
| mgda    | any (CG)                        | MinNorm           | D           |
| linear  | any (CG)                        | Linear            | D           |
| aid     | CG                              | Linear            | D           |
| itd     | Unrolled                        | Linear            | D           |
| stocbio | StochasticNeumann               | Linear            | D           |
| amigo   | AdjointDescent                  | Linear            | D           |
| moml    | Unrolled                        | MinNorm           | D           |
| gmoba   | AdjointDescent of one step      | MinNorm           | 1           |

For S = 1 all weightings are the same. Methods whose mathematics differs have files of their own: `soba`, `stable`, `moco`,
`forum`.
"""

from typing import Any

from bipareto.algorithms.descent import HypergradientDescent
from bipareto.errors import message
from bipareto.hypergradient import CG, AdjointDescent, Hypergradient, StochasticNeumann, Unrolled
from bipareto.lower import GradientDescent
from bipareto.sampling import Batches
from bipareto.weighting import Linear, MinNorm, WeightedChebyshev


def wc_mhgd(
    preference: Any,
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: Hypergradient | None = None,
    u: Any = "prox",
    reference: Any = 0.0,
    batches: Batches | None = None,
    average: float = 0.0,
) -> HypergradientDescent:
    """WC-MHGD (Algorithm 1, with `batches` Algorithm 2): x <- x - beta sum_s r_s lam_s grad phi_s with lam from

    min over the simplex of lam' diag(r) M diag(r) lam - u lam'(r o (Phi - z)), M the Gram matrix of the hypergradients.

    `preference` r > 0 is scaled to sum 1; a larger r_s asks for a smaller phi_s (r o Phi becomes equal where active).
    `u` and the `reference` point z: see `WeightedChebyshev`. Step sizes: floats, optax schedules or optax transformations.
    `batches` make it stochastic (the paper pairs them with `StochasticNeumann`); the program then sees an exponential
    average of the values that keeps the share `average` of the past.
    """
    weighting = WeightedChebyshev(preference, u, step_size, reference)
    return _descent(weighting, step_size, lower_step_size, lower_steps, hypergradient, batches, average)


def mgda(
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: Hypergradient | None = None,
    batches: Batches | None = None,
) -> HypergradientDescent:
    """No preference: x <- x - beta d with d the minimum-norm point of the convex hull of the hypergradients."""
    return _descent(MinNorm(), step_size, lower_step_size, lower_steps, hypergradient, batches)


def linear(
    weights: Any,
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: Hypergradient | None = None,
    batches: Batches | None = None,
) -> HypergradientDescent:
    """Linear scalarisation: descent on sum_s w_s phi_s, one linear solve per step whatever S is."""
    return _descent(Linear(weights), step_size, lower_step_size, lower_steps, hypergradient, batches)


def aid(
    weights: Any = (1.0,),
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: CG | None = None,
    batches: Batches | None = None,
) -> HypergradientDescent:
    """AID-BiO (Ji, Yang and Liang, "Bilevel optimization: convergence analysis and enhanced design", ICML 2021, Alg. 1):

    x <- x - beta (grad_x f - J v), v from N steps of conjugate gradients on H v = grad_y f, y and v warm-started.

    From the paper: S = 1. Our choice: for S > 1 the scalarisation sum_s w_s phi_s with fixed `weights`.
    """
    method = _of_kind(CG, hypergradient, "bp.CG(steps=10)")
    return linear(weights, step_size, lower_step_size, lower_steps, method, batches)


def itd(
    weights: Any = (1.0,),
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: Unrolled | None = None,
) -> HypergradientDescent:
    """ITD-BiO (Ji, Yang and Liang 2021, Alg. 1): x <- x - beta d f(x, y^D(x)) / dx, through the D lower steps, y^0 held.

    From the paper: S = 1, y warm-started. Our choice: for S > 1 the scalarisation sum_s w_s phi_s with fixed `weights`.
    """
    method = _of_kind(Unrolled, hypergradient, "bp.Unrolled()")
    return linear(weights, step_size, lower_step_size, lower_steps, method)


def stocbio(
    weights: Any = (1.0,),
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: StochasticNeumann | None = None,
    batches: Batches | None = None,
) -> HypergradientDescent:
    """stocBiO (Ji, Yang and Liang 2021, Alg. 2): stochastic Neumann hypergradients of one objective, or of sum_s w_s phi_s.

    The formula is the paper's; its published script drops the first term of the series and misplaces eta.
    """
    method = _of_kind(StochasticNeumann, hypergradient, "bp.StochasticNeumann(terms, step_size)")
    return linear(weights, step_size, lower_step_size, lower_steps, method, batches)


def amigo(
    weights: Any = (1.0,),
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 10,
    hypergradient: AdjointDescent | None = None,
    batches: Batches | None = None,
) -> HypergradientDescent:
    """AmIGO (Arbel and Mairal, "Amortized implicit differentiation for stochastic bilevel optimization", ICLR 2022):

    T steps on y, then N steps v <- v - eta (H(x, y; D_n) v - grad_y f(x, y; D_f)), both warm-started, and
    x <- x - beta (grad_x f - J v).

    From the paper: S = 1, T = N = 10, steps of 0.1 (its v has the opposite sign). Our choice: for S > 1 one adjoint of the
    scalarisation sum_s w_s phi_s with fixed `weights` (v is linear in grad_y f).
    """
    method = _of_kind(AdjointDescent, hypergradient, "bp.AdjointDescent(steps, step_size)")
    return linear(weights, step_size, lower_step_size, lower_steps, method, batches)


def moml(
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    lower_steps: int = 32,
    hypergradient: Unrolled | None = None,
) -> HypergradientDescent:
    """MOML (Ye et al., "Multi-objective meta learning", NeurIPS 2021): hypergradients through the D lower steps (as `itd`),

    x <- x - beta d with d the minimum-norm point of their convex hull. From the paper: both parts. Our choice: y is
    warm-started, as for every method here.
    """
    return mgda(step_size, lower_step_size, lower_steps, _of_kind(Unrolled, hypergradient, "bp.Unrolled()"))


def gmoba(
    step_size: Any = 0.1,
    lower_step_size: Any = 0.1,
    adjoint_step_size: float = 0.1,
    batches: Batches | None = None,
) -> HypergradientDescent:
    """gMOBA (Yang, Yao, Yin, Zeng and Zhang, "Gradient-based algorithms for multi-objective bi-level optimization", 2024):

    single loop: y <- y - b grad_y g(x, y); v_s <- v_s - e (H v_s - grad_y f_s); then the minimum-norm point of the hull of
    grad_x f_s - J v_s is the direction of x.

    Written from memory of the paper, not checked against it; ours is certainly: everything after the y-step is taken at
    the new y, and batches are offered. The paper adds a convex G_s to every objective by a proximal step. One G for all
    objectives can be had here: pass as `step_size` an optax transformation with the update prox_{beta G}(x - beta d) - x.
    """
    size = batches.cross if isinstance(batches, Batches) else None
    return mgda(step_size, lower_step_size, 1, AdjointDescent(1, adjoint_step_size, size), batches)


def _of_kind(kind: type, method: Any, example: str) -> Any:
    """The hypergradient that makes a method what its name says."""
    if method is None:
        return kind()
    if not isinstance(method, kind):
        rule = f"be {kind.__name__} in this method"
        raise TypeError(message("hypergradient", rule, repr(method), f"pass {example}, or use bp.linear and bp.mgda"))
    return method


def _descent(weighting, step_size, lower_step_size, lower_steps, hypergradient, batches, average=0.0):
    lower = GradientDescent(lower_step_size, lower_steps)
    method = CG() if hypergradient is None else hypergradient
    return HypergradientDescent(lower, method, weighting, step_size, batches, average)

"""What a finished run proves: an interval for the exact stationarity gap where it ended, and how its steps went."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bipareto.algorithms import HypergradientDescent
from bipareto.errors import message
from bipareto.hypergradient import CG, estimate
from bipareto.oracles import Oracles, bind
from bipareto.precision import full_precision, product
from bipareto.problem import Problem, SeparableProblem
from bipareto.sampling import Batches, Draws
from bipareto.simplex import duality_gap, simplex_qp
from bipareto.solver import Solution
from bipareto.theory.conduct import Conduct, conduct_of
from bipareto.theory.constants import Constants, estimate_constants


@dataclasses.dataclass(frozen=True)
class Certificate:
    """Stationarity of the returned x, with lower level and duals solved anew to rounding, and the run's conduct.

    `gap`: min over the simplex of ||sum_s lam_s grad phi_s||^2 of the gradients found; the true one lies in [`gap_low`,
    `gap_high`], for sure where `constants` are bounds, and as far as estimates are right otherwise. `error` bounds
    ||found - grad phi_s|| for every s; `lower_residual` = ||grad_y g||, `dual_residual` = max_s ||grad_y f_s - H v_s||.
    """

    gap: float
    gap_low: float
    gap_high: float
    error: float
    lower_residual: float
    dual_residual: float
    values: np.ndarray
    constants: Constants
    conduct: Conduct

    @property
    def certain(self) -> bool:
        """Whether the interval rests on bounds only, not on estimates."""
        return set(self.constants.kinds) == {"bound"}

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        own = {
            name: getattr(self, name) for name in ("gap", "gap_low", "gap_high", "error", "lower_residual", "dual_residual")
        }
        constants = {name: getattr(self.constants, name) for name in ("mu", "L", "M", "tau", "rho")}
        rest = {"certain": self.certain, "values": self.values.tolist(), "constants": constants}
        return {**own, **rest, **self.conduct._asdict()}

    def __str__(self) -> str:
        source = "constants given" if self.certain else "constants estimated"
        rows = [
            ("stationarity gap", f"{self.gap:.6e}"),
            ("true gap", f"between {self.gap_low:.6e} and {self.gap_high:.6e} ({source})"),
            ("hypergradient error", f"<= {self.error:.2e}"),
            ("lower residual", f"{self.lower_residual:.2e}"),
            ("dual residual", f"{self.dual_residual:.2e}"),
            *self.conduct.rows(),
        ]
        return "\n".join(f"{name:<24} {text}" for name, text in rows)


@full_precision
def certify(
    problem: Problem | SeparableProblem,
    algorithm: HypergradientDescent,
    solution: Solution,
    constants: Constants | None = None,
) -> Certificate:
    """The certificate of `solution`, that `algorithm` found on `problem`.

    With r = ||grad_y g(x, y)||, t_s = ||grad_y f_s - H v_s|| and e = r/mu >= ||y - y*(x)||, the gradients found are off
    by at most  L e + tau e ||v_s|| + L (rho e ||v_s|| + L e + t_s)/mu,  and the root of the gap by the largest of these.
    `constants`: bounds, where they are known; by default they are estimated at the returned point (mu lowered and the rest
    raised by 1 %, the accuracy of Lanczos). Full data is used, whatever batches the run drew.
    """
    _check(problem, algorithm, solution)
    oracles = bind(problem, solution.x, solution.y)
    x, y = oracles.x_layout.flatten(solution.x), oracles.y_layout.flatten(solution.y)
    y = _solve_lower(oracles, x, y)
    if constants is None:
        seen = estimate_constants(problem, solution.x, oracles.y_layout.unflatten(y))
        scaled = (0.99 * seen.mu, *(1.01 * value for value in (seen.L, seen.M, seen.tau, seen.rho)))
        constants = Constants(*scaled, kinds=seen.kinds)
    size = oracles.y_layout.size
    solver = CG(min(2 * size + 10, 1000), tolerance=float(jnp.finfo(y.dtype).eps), warm_start=False)
    found = jax.tree.map(np.asarray, measure(oracles, x, y, solver))
    residuals = float(found.lower_residual), float(np.max(found.dual_residuals))
    interval = gap_interval(constants, found)
    return Certificate(float(found.gap), *interval, *residuals, found.values, constants, conduct_of(algorithm, solution))


class Measured(NamedTuple):
    """Residuals and gap at a point, with ||v_s||. `slack`: how far the gap may be above its minimum; `rounding`: what 20
    roundings do to y, to the duals and to the gradients found."""

    values: Any
    gap: Any
    slack: Any
    lower_residual: Any
    dual_residuals: Any
    duals: Any
    rounding: Any


def gap_interval(constants: Constants, found: Measured) -> tuple[float, float, float]:
    """The interval of the true gap, and the largest error of a gradient: roots of gaps differ by at most that."""
    error = float(np.max(error_bound(constants, found)))
    root, least = (np.sqrt(max(float(value), 0.0)) for value in (found.gap, found.gap - found.slack))
    return float(max(least - error, 0.0) ** 2), float((root + error) ** 2), error


def error_bound(constants: Constants, found: Measured) -> np.ndarray:
    """[S]: L e + tau e ||v_s|| + L (rho e ||v_s|| + L e + t_s)/mu, e = ||grad_y g||/mu; residuals count rounding too."""
    c = constants
    e = (found.lower_residual + c.L * found.rounding[0]) / c.mu
    dual = (c.rho * e * found.duals + c.L * e + found.dual_residuals + c.L * found.rounding[1]) / c.mu
    return c.L * e + c.tau * e * found.duals + c.L * dual + found.rounding[2]


@eqx.filter_jit
def measure(oracles: Oracles, x: Array, y: Array, solver: CG) -> Measured:
    """Gap and residuals at (x, y), the duals by `solver`."""
    draws = Draws(oracles, Batches(), None)
    zero = oracles.zero_dual(combined=False)
    first = estimate(draws, solver, None, x, y, zero)
    # The residual that conjugate gradients carry along drifts from the true one: it is taken anew.
    prepared = oracles.prepare(x)
    b = oracles.upper(prepared.upper, y)[1](None)[1]
    residuals = _norms(b - oracles.hessian(prepared.lower, y)(first.dual))
    gram = product(first.jacobian, first.jacobian.T)
    lam = simplex_qp(gram)
    eps, duals = 20 * jnp.finfo(y.dtype).eps, _norms(first.dual)
    rounding = eps * jnp.sqrt(jnp.sum(y**2)), eps * duals, eps * _norms(first.jacobian)
    slack = jnp.maximum(duality_gap(gram, jnp.zeros_like(lam), lam), 0)
    return Measured(first.values, product(product(lam, gram), lam), slack, first.lower_residual, residuals, duals, rounding)


@eqx.filter_jit
def _solve_lower(oracles: Oracles, x: Array, y: Array) -> Array:
    """Newton's method on g(x, .) with conjugate gradients, each step the best of y - t p, t = 1, 1/2 ... 1/64 or none.

    Ends where ||grad_y g|| no longer halves: at rounding.
    """
    h, size = oracles.prepare(x).lower, oracles.y_layout.size
    lengths = jnp.append(2.0 ** -jnp.arange(7), 0).astype(y.dtype)

    def residual(y):
        return jnp.sqrt(jnp.sum(oracles.lower_gradient(h, y) ** 2))

    def step(carry):
        count, y, last, _ = carry
        slope = oracles.lower_gradient(h, y).reshape(-1, size)
        newton, _ = jax.scipy.sparse.linalg.cg(oracles.hessian(h, y), slope, tol=1e-6, maxiter=min(2 * size + 10, 1000))
        tried = jax.lax.map(lambda t: residual(y - t * newton.reshape(y.shape)), lengths)
        best = jnp.argmin(jnp.where(jnp.isfinite(tried), tried, jnp.inf))
        return count + 1, y - lengths[best] * newton.reshape(y.shape), tried[best], last

    def going(carry):
        count, _, last, before = carry
        return (count < 50) & (last < 0.5 * before)

    start = residual(y)
    return jax.lax.while_loop(going, step, (jnp.int32(0), y, start, jnp.full_like(start, jnp.inf)))[1]


def _norms(rows: Float[Array, "B q"]) -> Float[Array, " B"]:
    return jnp.sqrt(jnp.sum(rows**2, axis=1))


def _check(problem: Any, algorithm: Any, solution: Any) -> None:
    rules = (
        (
            "problem",
            problem,
            (Problem, SeparableProblem),
            "be a Problem or SeparableProblem",
            "pass the one that was solved",
        ),
        ("algorithm", algorithm, HypergradientDescent, "be a HypergradientDescent", "pass the one that solved it"),
        ("solution", solution, Solution, "be a Solution", "pass what bp.solve(...) returned"),
    )
    for name, value, kind, rule, remedy in rules:
        if not isinstance(value, kind):
            raise TypeError(message(name, rule, repr(value), remedy))
    if not len(solution.history.gap):
        raise ValueError(message("solution", "have a history", "0 steps", "solve with steps >= 1"))

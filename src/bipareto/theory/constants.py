"""The constants of Assumptions 1 and 2, given or estimated on a problem from products with second derivatives."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from bipareto.errors import message, positive_number, whole_number
from bipareto.oracles import Oracles, bind, curvature
from bipareto.problem import Problem, SeparableProblem
from bipareto.spectrum import hessian_extremes, lanczos

NAMES = ("mu", "L", "M", "tau", "rho")


@dataclasses.dataclass(frozen=True)
class Constants:
    """Assumptions 1 and 2: g is mu-strongly convex in y; f_s is M-Lipschitz; gradients of f_s and g are L-Lipschitz; the
    second derivatives grad_xy g and grad_yy g are tau- and rho-Lipschitz (0 for a quadratic g).

    `kinds` says of each where it comes from: "bound" (given by someone who knows it) or "estimate" (seen at some points).
    """

    mu: float
    L: float
    M: float = 1.0
    tau: float = 0.0
    rho: float = 0.0
    kinds: tuple[str, ...] = dataclasses.field(default=("bound",) * 5, compare=False)

    def __post_init__(self):
        for name in NAMES:
            remedy = "see theory.estimate_constants for estimates"
            positive_number(name, getattr(self, name), remedy, zero=name in ("tau", "rho"))
        if self.mu > self.L:
            raise ValueError(message("mu", f"be at most L = {self.L}", self.mu, "exchange them"))

    @property
    def kappa(self) -> float:
        return self.L / self.mu

    @property
    def L_phi(self) -> float:
        """Smoothness of the objectives phi_s: L + (2L^2 + tau M)/mu + (rho L M + L^3 + tau L M)/mu^2 + rho L^2 M/mu^3."""
        mu, L, M, tau, rho = self.mu, self.L, self.M, self.tau, self.rho
        return L + (2 * L**2 + tau * M) / mu + (rho * L * M + L**3 + tau * L * M) / mu**2 + rho * L**2 * M / mu**3

    def joined(self, other: "Constants") -> "Constants":
        """The worse of both, as for the union of two sets of points."""
        worst = [min(self.mu, other.mu), *(max(getattr(self, n), getattr(other, n)) for n in NAMES[1:])]
        kinds = ["estimate" if "estimate" in pair else "bound" for pair in zip(self.kinds, other.kinds, strict=True)]
        return Constants(*worst, kinds=tuple(kinds))

    def __str__(self) -> str:
        rows = [f"{name:<6} {getattr(self, name):<10.4g} {kind}" for name, kind in zip(NAMES, self.kinds, strict=True)]
        return "\n".join([*rows, f"kappa  {self.kappa:<10.4g}", f"L_phi  {self.L_phi:<10.4g}"])


def estimate_constants(
    problem: Problem | SeparableProblem, x: PyTree, y: PyTree, *, samples: int = 2, spread: float = 0.1, seed: int = 0
) -> Constants:
    """Constants seen at z = (x, y) and at `samples` random points at a distance of `spread` (1 + ||z||) from it.

    mu: the smallest curvature of g in y. L: the largest of ||d grad_y g|| and ||d grad f_s||, in x and y together; grad_x g
    enters no proof. M = max_s ||grad f_s||. tau, rho: how fast grad_xy g and grad_yy g change between the points.
    All by Lanczos, from some dozens of products per point; more where the smallest curvature needs them. All are estimates:
    mu from above, the others from below. 0 samples: only (x, y), tau = rho = 0.
    """
    whole_number("samples", samples, "pass a number of points, 0 for (x, y) alone", least=0)
    spread = float(positive_number("spread", spread, "pass a relative distance such as 0.1"))
    oracles = bind(problem, x, y)
    base = oracles.x_layout.flatten(x), oracles.y_layout.flatten(y)
    mu, L, M = _at_point(oracles, *base)
    tau = rho = 0.0
    for key in jax.random.split(jax.random.key(seed), samples):
        near, distance = _nearby(key, base, spread)
        there = _at_point(oracles, *near)
        change = _changes(oracles, base, near)
        mu, L, M = min(mu, there[0]), max(L, there[1]), max(M, there[2])
        tau, rho = max(tau, float(change[0]) / distance), max(rho, float(change[1]) / distance)
    if mu <= 0:
        remedy = "add a ridge term in y to `lower`"
        raise ValueError(message("lower", "be strongly convex in y", f"a smallest curvature of {mu:.3g}", remedy))
    noise = 100 * float(jnp.finfo(base[1].dtype).eps) * L / spread
    tau, rho = (0.0 if value < noise else value for value in (tau, rho))
    return Constants(mu, L, max(M, np.finfo(float).tiny), tau, rho, ("estimate",) * 5)


def lower_spectrum(problem: Problem | SeparableProblem, x: PyTree, y: PyTree) -> tuple[float, float]:
    """Smallest and largest eigenvalue of grad_yy g at (x, y): step sizes of the lower level go by the latter."""
    oracles = bind(problem, x, y)
    return _spectrum(oracles, oracles.x_layout.flatten(x), oracles.y_layout.flatten(y))


def _spectrum(oracles: Oracles, x: Array, y: Array) -> tuple[float, float]:
    """Lanczos with more steps until both residuals are below 1 % of their values."""
    size = oracles.y_layout.size
    for steps in (32, 128, 512):
        found = _extremes(oracles, x, y, min(steps, size))
        settled = found.low_residual <= 0.01 * abs(found.low) and found.high_residual <= 0.01 * abs(found.high)
        if settled or steps >= size or 4 * steps * y.size > 2e8:  # the basis must fit in memory
            break
    return float(found.low), float(found.high)


def _at_point(oracles: Oracles, x: Array, y: Array) -> tuple[float, float, float]:
    """mu, L and M at one point."""
    low, high = _spectrum(oracles, x, y)
    L, M = _smoothness(oracles, x, y)
    return low, max(float(L), high), float(M)


@eqx.filter_jit
def _extremes(oracles, x, y, steps):
    return hessian_extremes(oracles, x, y, steps)


@eqx.filter_jit
def _smoothness(oracles: Oracles, x: Array, y: Array) -> tuple[Array, Array]:
    """max(||d grad_y g||, ||d grad f_s||) and max_s ||grad f_s||."""
    rows = jnp.eye(oracles.objectives + 1, dtype=y.dtype)
    upper = jax.lax.map(lambda mix: _norm(_joined(curvature(oracles, x, y, mix), x, y), x.size + y.size, y), rows[:-1])
    both = curvature(oracles, x, y, rows[-1])
    square = lambda v: both(*both(jnp.zeros_like(x), v.reshape(y.shape)))[1].ravel()  # noqa: E731  B B', B = d grad_y g
    prepared = oracles.prepare(x)
    slopes, b = oracles.upper(prepared.upper, y)[1](None)
    nothing = oracles.cross(prepared.lower, y, oracles.zero_dual(combined=False))  # J v for v = 0
    in_x = oracles.pull_back(x, slopes, nothing, combined=False)
    M = jnp.sqrt(jnp.max(jnp.sum(in_x**2, axis=1) + jnp.sum(b**2, axis=1)))
    return jnp.maximum(jnp.max(upper), jnp.sqrt(_norm(square, y.size, y))), M


@eqx.filter_jit
def _changes(oracles: Oracles, base: tuple[Array, Array], near: tuple[Array, Array]) -> tuple[Array, Array]:
    """||J - J'|| and ||H - H'|| between two points."""
    (x, y), mix = base, jnp.zeros(oracles.objectives + 1, base[1].dtype).at[-1].set(1)
    here, there = (curvature(oracles, *point, mix) for point in (base, near))
    change = lambda *along: jax.tree.map(jnp.subtract, here(*along), there(*along))  # noqa: E731

    def cross(v):  # (J - J')' (J - J') v
        back = change(jnp.zeros_like(x), v.reshape(y.shape))[0]
        return change(back, jnp.zeros_like(y))[1].ravel()

    hessian = lambda v: change(jnp.zeros_like(x), v.reshape(y.shape))[1].ravel()  # noqa: E731
    return jnp.sqrt(_norm(cross, y.size, y)), _norm(hessian, y.size, y)


def _joined(product: Any, x: Array, y: Array) -> Any:
    """A product on pairs (dx, dy) as one on vectors."""

    def flat(v):
        dx, dy = product(v[: x.size].astype(x.dtype), v[x.size :].reshape(y.shape))
        return jnp.concatenate([dx.astype(v.dtype), dy.ravel()])

    return flat


def _norm(product: Any, size: int, y: Array, steps: int = 25) -> Float[Array, ""]:
    """Largest absolute eigenvalue of a symmetric product on vectors, from below."""
    found = lanczos(lambda rows: product(rows[0])[None], jnp.zeros((1, size), y.dtype), steps)
    return jnp.maximum(jnp.abs(found.low), jnp.abs(found.high))


def _nearby(key: Array, base: tuple[Array, Array], spread: float) -> tuple[tuple[Array, Array], float]:
    """A random point at that relative distance from `base`, and the distance."""
    steps = [jax.random.normal(k, part.shape, part.dtype) for k, part in zip(jax.random.split(key), base, strict=True)]
    norm = lambda parts: jnp.sqrt(sum(jnp.sum(part**2) for part in parts))  # noqa: E731
    distance = spread * (1 + norm(base))
    near = [part + (distance / norm(steps)).astype(part.dtype) * step for part, step in zip(base, steps, strict=True)]
    return (near[0], near[1]), float(distance)

"""The part of grad phi_s = grad_x f_s - J v_s, H v_s = grad_y f_s, that comes through y, for all objectives at once.

`CG` solves the linear system at y^D, `Neumann` truncates its series at y^D, `StochasticNeumann` does so with a fresh batch
per factor, `AdjointDescent` takes gradient steps on the system, `Unrolled` differentiates through the lower steps (the
paper's "Neumann series" option).
"""

import abc
import itertools
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from bipareto.errors import flag, message, positive_number, whole_number
from bipareto.oracles import Oracles
from bipareto.sampling import Draws
from bipareto.status import Status


class Here(NamedTuple):
    """The point (x, y^D) at which to differentiate, and the ways to do so.

    `oracles` see the batches drawn for this point (all data without batches) and h is what they prepared for the lower
    level; `draws` brings further batches; `pull` is the pull-back through the lower path where there is one.
    """

    oracles: Oracles
    draws: Draws
    x: Array
    h: PyTree
    y: Array
    pull: Callable | None


class Adjoint(eqx.Module):
    """How the objectives react to x through y: slopes in h (one per row), and what their computation met."""

    slopes: PyTree
    dual: Float[Array, "B q"]
    residual: Float[Array, " B"]
    broken: Bool[Array, " B"]
    jvp: Int[Array, ""]
    hvp: Int[Array, ""]


class Hypergradient(eqx.Module):
    """Given b = grad_y f at the end of the lower path, the part of the hypergradient that comes through y."""

    broken_means: eqx.AbstractClassVar[Status]

    @abc.abstractmethod
    def __call__(self, here: Here, b: Float[Array, "B q"], dual: Float[Array, "B q"]) -> Adjoint:
        """The adjoint of right-hand sides b, from the dual of the last upper step."""


class CG(Hypergradient):
    """N steps of conjugate gradients on H(x, y^D) v_s = b_s, all right-hand sides together (Option 1).

    `tolerance`: stop before `steps` once every ||b - H v|| <= tolerance ||b||. `warm_start`: begin at the dual of the last
    upper step, for one product more.
    """

    steps: int = eqx.field(static=True)
    tolerance: float | None = eqx.field(static=True)
    warm_start: bool = eqx.field(static=True)
    broken_means: ClassVar[Status] = Status.NOT_STRONGLY_CONVEX

    def __init__(self, steps: int = 10, tolerance: float | None = None, warm_start: bool = True):
        self.steps = whole_number("steps of CG", steps, "10 to 20 suit most problems")
        self.warm_start = flag("warm_start", warm_start)
        remedy = "pass a relative residual such as 1e-6, or None for a fixed number of steps"
        self.tolerance = None if tolerance is None else float(positive_number("tolerance of CG", tolerance, remedy))

    def __call__(self, here, b, dual):
        product = here.oracles.hessian(here.h, here.y)
        dual = dual if self.warm_start else jnp.zeros_like(b)
        residual = b - product(dual) if self.warm_start else b
        square = _dots(residual, residual)
        # Below rounding nothing can be gained, and 0/0 looms.
        floor = (jnp.finfo(b.dtype).eps * jnp.sqrt(jnp.maximum(_dots(b, b), square))) ** 2
        target = floor if self.tolerance is None else jnp.maximum(floor, self.tolerance**2 * _dots(b, b))

        def step(carry):
            count, v, r, p, rr, broken = carry
            hp = product(p)
            curvature = _dots(p, hp)
            active = (rr > target) & ~broken
            broken = broken | (active & (curvature <= 0))
            active = active & ~broken
            length = jnp.where(active, rr / jnp.where(active, curvature, 1), 0)
            v, r = v + length[:, None] * p, r - length[:, None] * hp
            rr_next = jnp.where(active, _dots(r, r), rr)
            p = jnp.where(active[:, None], r + (rr_next / jnp.where(active, rr, 1))[:, None] * p, p)
            return count + 1, v, r, p, rr_next, broken

        start = (jnp.int32(0), dual, residual, residual, square, jnp.zeros(len(b), bool))
        if self.tolerance is None:
            end = jax.lax.fori_loop(0, self.steps, lambda _, carry: step(carry), start)
        else:
            going = lambda c: (c[0] < self.steps) & jnp.any((c[4] > target) & ~c[5])  # noqa: E731
            end = jax.lax.while_loop(going, step, start)
        count, v, _r, _, rr, broken = end
        products = jnp.int32(products_for(here.oracles, b))
        return Adjoint(_through(here, v), v, jnp.sqrt(rr), broken, products, products * (count + int(self.warm_start)))


class Neumann(Hypergradient):
    """v_s = eta sum_{i=0}^{N} (I - eta H(x, y^D))^i b_s; converges to H^-1 b_s for eta < 2/L."""

    terms: int = eqx.field(static=True)
    step_size: Any
    broken_means: ClassVar[Status] = Status.NEUMANN_DIVERGED

    def __init__(self, terms: int = 20, step_size: float = 0.1):
        self.terms = whole_number("terms of Neumann", terms, "the series needs at least one term after the first")
        self.step_size = positive_number("step_size of Neumann", step_size, "pass a number below 2/L")

    def __call__(self, here, b, dual):
        product = here.oracles.hessian(here.h, here.y)
        eta = jnp.asarray(self.step_size, b.dtype)

        def add(_, carry):
            term, total = carry
            term = term - eta * product(term)
            return term, total + term

        last, total = jax.lax.fori_loop(0, self.terms, add, (b, b))
        v = eta * total
        # For 0 < eta < 2/L the factor contracts, so a last term longer than the first proves that eta is too large.
        length = jnp.sqrt(_dots(last, last))
        broken = ~(length <= 1.01 * jnp.sqrt(_dots(b, b)))
        products = jnp.int32(products_for(here.oracles, b))
        return Adjoint(_through(here, v), v, length, broken, products, products * self.terms)


class StochasticNeumann(Hypergradient):
    """v_s = eta sum_{i=0}^{Q} nu^i with nu^Q = b_s and nu^{i-1} = nu^i - eta H(x, y^D; B_i) nu^i (Algorithm 3; E3, E4).

    Each of the Q factors has a batch of its own, shared by the objectives. `batch` B with `convexity` mu: the j-th factor
    used draws ceil(B Q (1 - eta mu)^(j-1)) samples, the first one most. `batch` alone: B samples each. None: all data.
    Every distinct size is compiled by itself: for hundreds of factors constant sizes compile faster.
    """

    terms: int = eqx.field(static=True)
    step_size: Any
    sizes: tuple[int | None, ...] = eqx.field(static=True)
    broken_means: ClassVar[Status] = Status.NEUMANN_DIVERGED

    def __init__(self, terms: int = 3, step_size: float = 0.5, batch: int | None = None, convexity: float | None = None):
        self.terms = whole_number(
            "terms of StochasticNeumann", terms, "the series needs at least one factor (3 in the paper)"
        )
        self.step_size = positive_number("step_size of StochasticNeumann", step_size, "pass a number below 2/L")
        self.sizes = (None,) * self.terms
        if batch is not None:
            batch = whole_number("batch of StochasticNeumann", batch, "pass a number of samples, or None for all data")
            self.sizes = (batch,) * self.terms
        if convexity is not None:
            self.sizes = _shrinking(batch, self.terms, self.step_size, convexity)

    def __call__(self, here, b, dual):
        eta = jnp.asarray(self.step_size, b.dtype)
        term, total, used, start = b, b, 0, 0
        for size, group in itertools.groupby(self.sizes):  # one loop per batch size: shapes are static
            stop = start + len(list(group))

            def add(j, carry, size=size):
                term, total = carry
                sampled = here.draws.hessian(j, size)
                term = term - eta * sampled.hessian(sampled.prepare(here.x).lower, here.y)(term)
                return term, total + term

            term, total = jax.lax.fori_loop(start, stop, add, (term, total))
            used, start = used + (stop - start) * here.draws.samples("lower", size), stop
        v = eta * total
        length = jnp.sqrt(_dots(term, term))
        products = jnp.int32(products_for(here.oracles, b))
        return Adjoint(_through(here, v), v, length, ~jnp.isfinite(length), products, products * used)


def _shrinking(batch: int | None, terms: int, step_size: Any, convexity: float) -> tuple[int, ...]:
    """ceil(B Q (1 - eta mu)^(j-1)) for j = 1 ... Q."""
    mu = float(positive_number("convexity", convexity, "pass mu, a lower bound of the curvature of `lower` in y"))
    rate = 1 - float(step_size) * mu
    if batch is None:
        raise ValueError(message("batch", "be given with `convexity`", None, "pass the base size B of the batches"))
    if not 0 <= rate < 1:
        rule = "be at most 1/step_size (eta mu <= 1)"
        raise ValueError(message("convexity", rule, mu, "lower `step_size`: eta is at most 1/L, and mu at most L"))
    return tuple(max(1, math.ceil(batch * terms * rate**j - 1e-9)) for j in range(terms))


class AdjointDescent(Hypergradient):
    """N steps v_s <- v_s - eta (H(x, y^D; B_n) v_s - b_s) from the v_s of the last upper step (AmIGO; one step: gMOBA).

    Converges to H^-1 b_s for eta < 2/L, over the upper steps even where N is small. `batch`: samples of each step's H, a
    fresh draw shared by the objectives; None: all data.
    """

    steps: int = eqx.field(static=True)
    step_size: Any
    batch: int | None = eqx.field(static=True)
    broken_means: ClassVar[Status] = Status.ADJOINT_DIVERGED

    def __init__(self, steps: int = 10, step_size: float = 0.1, batch: int | None = None):
        self.steps = whole_number("steps of AdjointDescent", steps, "take at least one adjoint step per upper step")
        self.step_size = positive_number("step_size of AdjointDescent", step_size, "pass a number below 2/L")
        remedy = "pass a number of samples, or None for all data"
        self.batch = None if batch is None else whole_number("batch of AdjointDescent", batch, remedy)

    @property
    def sizes(self) -> tuple[int | None, ...]:
        return (self.batch,)

    def __call__(self, here, b, dual):
        eta = jnp.asarray(self.step_size, b.dtype)

        def step(n, carry):
            v, _ = carry
            sampled = here.draws.hessian(n, self.batch)
            residual = b - sampled.hessian(sampled.prepare(here.x).lower, here.y)(v)
            return v + eta * residual, jnp.sqrt(_dots(residual, residual))

        v, length = jax.lax.fori_loop(0, self.steps, step, (dual, jnp.zeros(len(b), b.dtype)))
        products = jnp.int32(products_for(here.oracles, b))
        used = self.steps * here.draws.samples("lower", self.batch)
        return Adjoint(_through(here, v), v, length, ~jnp.isfinite(length), products, products * used)


class Unrolled(Hypergradient):
    """Differentiate y^D(x) through its D lower steps, y^0 held constant (Option 2, the paper's NS; errata E1, E2).

    Memory grows with D; `checkpoint` keeps the iterates only and recomputes the rest on the way back.
    """

    checkpoint: bool = eqx.field(static=True)
    broken_means: ClassVar[Status] = Status.NON_FINITE_DUAL

    def __init__(self, checkpoint: bool = False):
        self.checkpoint = flag("checkpoint", checkpoint)

    def __call__(self, here, b, dual):
        assert here.pull is not None
        zero = jnp.zeros(len(b), b.dtype)
        none = jnp.int32(0)
        return Adjoint(here.pull(b), dual, zero, zero > 0, none, none)


def _dots(a: Float[Array, "B q"], b: Float[Array, "B q"]) -> Float[Array, " B"]:
    return jnp.sum(a * b, axis=1)


def _through(here: Here, v: Float[Array, "B q"]) -> PyTree:
    """-J v, as slopes in h."""
    return jax.tree.map(jnp.negative, here.oracles.cross(here.h, here.y, v))


def products_for(oracles: Oracles, b: Array) -> int:
    """Products with H or J needed to serve all rows of b once."""
    return min(oracles.products, len(b))

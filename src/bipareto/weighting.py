"""Weightings: (values [S], gram [S, S], memory) -> weights [S]; the direction is then d = sum_s weights_s grad phi_s.

Weightings see the values and the Gram matrix of the hypergradients, never the problem. Those that need the values only say
so (`values_only`) and are called with `gram=None`; the solver then makes one linear solve instead of S.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bipareto.errors import message, positive_number, positive_vector, reference_point
from bipareto.lower import PlainStep, ScheduledStep, as_step
from bipareto.precision import full_precision
from bipareto.simplex import simplex_qp

PREFERENCE_REMEDY = "use bp.preferences.focused(S, peak=0.8)[s] or a vector of positive numbers"


class Weighting(eqx.Module):
    """A rule that turns values and Gram matrix into weights."""

    values_only: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def init(self) -> Any:
        """The memory before the first step."""

    @abc.abstractmethod
    def __call__(self, values: Float[Array, " S"], gram: Any, memory: Any) -> tuple[Array, Any]:
        """Weights [S] and the new memory; `gram` is [S, S], or None where `values_only`."""

    @abc.abstractmethod
    def preference_of(self, objectives: int) -> Float[Array, " S"] | np.ndarray:
        """r in Lemma 2; raises where the weighting does not fit that number of objectives."""


class WeightedChebyshev(Weighting):
    """lam = argmin over the simplex of lam' diag(r) M diag(r) lam - u lam'(r o (Phi - z)), weights r o lam (eq. 6).

    `u`: "prox" (= 2/step_size), the dual of the proximal step on max_s r_s (phi_s - z_s): that maximum falls at every step
    and r o Phi becomes equal on the active set. "certified": the largest u up to the prox value for which Lemma 2,
    ||d||^2 <= 2 r_max <d, grad phi_s> for all s, holds, so that every step is a common descent direction. A number: the
    paper's u (for u far above 2/step_size the solution is a vertex: plain descent on the worst objective).

    `reference` z: the values to measure from (a number or [S]); the Chebyshev reading needs Phi >= z.
    """

    preference: Any
    u: Any
    reference: Any
    certified: bool = eqx.field(static=True)
    values_only: ClassVar[bool] = False

    def __init__(self, preference: Any, u: Any = "prox", step_size: Any = None, reference: Any = 0.0):
        self.preference = positive_vector("preference", preference, PREFERENCE_REMEDY)
        self.certified = isinstance(u, str) and u == "certified"
        self.u = _resolved(u, step_size)
        self.reference = reference_point(reference, len(self.preference))

    def init(self):
        return jnp.int32(0)

    def __call__(self, values, gram, memory):
        r, u, scaled, linear = self.program(values, gram, memory)
        lam = _largest_certified(u, scaled, linear, r)[1] if self.certified else simplex_qp(scaled, u * linear)
        return r * lam, memory + 1

    def program(self, values: Array, gram: Array, memory: Any) -> tuple[Array, Array, Array, Array]:
        """r, u (its largest where certified), diag(r) M diag(r) and r o (Phi - z)."""
        r = jnp.asarray(self.preference, values.dtype)
        u = jnp.asarray(self.u(memory) if callable(self.u) else self.u, values.dtype)
        scaled = r[:, None] * gram * r
        linear = r * (values - jnp.asarray(self.reference, values.dtype))
        return r, u, scaled, linear

    def preference_of(self, objectives):
        return _matching("preference", self.preference, objectives)


class MinNorm(Weighting):
    """lam = argmin over the simplex of ||sum_s lam_s grad phi_s||^2 (MGDA; the no-preference method: r = 1, u = 0)."""

    values_only: ClassVar[bool] = False

    def init(self):
        return ()

    def __call__(self, values, gram, memory):
        return simplex_qp(gram), memory

    def preference_of(self, objectives):
        return np.ones(objectives)


class Linear(Weighting):
    """Fixed weights: descent on sum_s w_s phi_s (finds the convex part of the front only)."""

    weights: Any
    values_only: ClassVar[bool] = True

    def __init__(self, weights: Any):
        remedy = "pass one weight >= 0 per objective"
        self.weights = positive_vector("weights", weights, remedy, zero=True, normalise=False)

    def init(self):
        return ()

    def __call__(self, values, gram, memory):
        return jnp.asarray(self.weights, values.dtype), memory

    def preference_of(self, objectives):
        return _matching("weights", self.weights, objectives)


class SmoothChebyshev(Weighting):
    """Descent on t log sum_s exp(r_s (phi_s - z_s) / t), a smooth bound of max_s r_s (phi_s - z_s) within t log S."""

    preference: Any
    temperature: Any
    reference: Any
    values_only: ClassVar[bool] = True

    def __init__(self, preference: Any, temperature: float = 0.01, reference: Any = 0.0):
        self.preference = positive_vector("preference", preference, PREFERENCE_REMEDY)
        self.temperature = positive_number("temperature", temperature, "a hundredth of typical r_s phi_s is a good start")
        self.reference = reference_point(reference, len(self.preference))

    def init(self):
        return ()

    def __call__(self, values, gram, memory):
        r = jnp.asarray(self.preference, values.dtype)
        height = r * (values - jnp.asarray(self.reference, values.dtype))
        return r * jax.nn.softmax(height / jnp.asarray(self.temperature, values.dtype)), memory

    def preference_of(self, objectives):
        return _matching("preference", self.preference, objectives)


@full_precision
def weighed(
    weighting: Weighting, values: Float[Array, " S"], gram: Float[Array, "R R"], memory: Any
) -> tuple[Float[Array, " S"], Any, Float[Array, ""]]:
    """Weights, new memory and the stationarity gap; for one combined hypergradient the bound ||d||^2 / (sum of weights)^2.

    The gap is a program of its own, solved beside that of the weights: on a GPU two take the time of one.
    """
    if weighting.values_only:
        weights, memory = weighting(values, None, memory)
        return weights, memory, gram[0, 0] / jnp.sum(weights) ** 2
    if not isinstance(weighting, WeightedChebyshev) or weighting.certified:
        weights, memory = weighting(values, gram, memory)
        shortest = isinstance(weighting, MinNorm)  # its direction is the shortest already
        return weights, memory, jnp.maximum(weights @ gram @ weights, 0) if shortest else stationarity_gap(gram)
    r, u, scaled, linear = weighting.program(values, gram, memory)
    lam, own = jax.vmap(simplex_qp)(jnp.stack([scaled, gram]), jnp.stack([u * linear, jnp.zeros_like(linear)]))
    return r * lam, memory + 1, jnp.maximum(own @ gram @ own, 0)


@full_precision
def stationarity_gap(gram: Float[Array, "S S"]) -> Float[Array, ""]:
    """min over the simplex of ||sum_s lam_s grad phi_s||^2: zero exactly at Pareto stationary points (Definition 3)."""
    lam = simplex_qp(gram)
    return jnp.maximum(lam @ gram @ lam, 0)


@full_precision
def descent_margin(
    gram: Float[Array, "S S"], weights: Float[Array, " S"], preference: Float[Array, " S"]
) -> Float[Array, ""]:
    """min_s 2 r_max <d, grad phi_s> - ||d||^2: Lemma 2 holds where this is >= 0."""
    along = gram @ weights
    return 2 * jnp.max(preference) * jnp.min(along) - weights @ along


@full_precision
def _largest_certified(largest: Array, scaled: Array, linear: Array, r: Array) -> tuple[Array, Array]:
    """The largest u <= `largest` at which Lemma 2 holds, to a relative 1e-4, and its lam; u = 0 below 1e-12 of `largest`."""

    def attempt(i, carry):
        low, high, best, weights = carry
        exponent = jnp.where(i == 1, high, (low + high) / 2)
        u = jnp.where(i == 0, 0, largest * 2.0**exponent)
        lam = simplex_qp(scaled, u * linear)
        along = scaled @ lam
        good = (i == 0) | (2 * jnp.max(r) * jnp.min(along / r) >= lam @ along)  # at u = 0 it always holds
        low, high = jnp.where(good & (i > 0), exponent, low), jnp.where(good, high, exponent)
        return low, high, jnp.where(good, u, best), jnp.where(good, lam, weights)

    # All in one loop, u = 0 and u = `largest` included: the compiler makes a copy of the program for every mention of it.
    start = jnp.full_like(largest, -40), jnp.zeros_like(largest), jnp.zeros_like(largest), jnp.zeros_like(linear)
    return jax.lax.fori_loop(0, 20, attempt, start)[2:]


class _ScheduledProx(eqx.Module):
    size: Callable

    def __call__(self, count):
        return 2 / self.size(count)


def _resolved(u: Any, step_size: Any) -> Any:
    """u as a number or as a function of the step count."""
    remedy = 'pass "prox", "certified" or a number > 0 (10 in the paper)'
    if isinstance(u, str) and u not in ("prox", "certified"):
        raise ValueError(message("u", 'be "prox", "certified" or a number', repr(u), remedy))
    if not isinstance(u, str):
        return positive_number("u", u, remedy, zero=True)
    if step_size is None:
        raise ValueError(message("step_size", f'be given for u = "{u}"', None, "pass the step size of the upper level"))
    step = as_step("step_size", step_size)
    if isinstance(step, PlainStep):
        return 2 / step.size
    if isinstance(step, ScheduledStep):
        return _ScheduledProx(step.size)
    rule = f'be a float or a schedule for u = "{u}" (u = 2/step_size)'
    raise ValueError(message("step_size", rule, "an optax transformation", "pass u as a number"))


def _matching(name: str, vector: Any, objectives: int) -> Any:
    if len(vector) != objectives:
        found = f"{len(vector)} entries for {objectives} objectives"
        raise ValueError(message(name, "have one entry per objective", found, PREFERENCE_REMEDY))
    return vector

"""Quadratic programs over the unit simplex: the weights of the shortest convex combination of gradients.

A primal active-set method. Weight moves among the objectives of a basis, whose optimality system is kept inverted;
objectives enter and leave the basis one at a time, each by a rank-one update of that inverse. The residual is computed
afresh from the data in every step, so that an inexact inverse costs steps, not accuracy.
"""

from typing import NamedTuple, TypeAlias, no_type_check

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bipareto.errors import message
from bipareto.precision import full_precision

_Index: TypeAlias = Int[Array, ""]
_Flag: TypeAlias = Bool[Array, ""]
_Number: TypeAlias = Float[Array, ""]

_ENTRY = 4  # An objective enters if its residual exceeds this many times its own rounding error.
_CERTIFIED = 16  # A gap of this many rounding errors of the problem's scale needs no further round.
_ROUNDS = 4


@no_type_check  # A shape checker would reject wrong arguments before the messages below can name the remedy.
def simplex_qp(gram: Float[Array, "S S"], linear: Float[Array, " S"] | None = None) -> Float[Array, " S"]:
    """The weights λ ≥ 0, Σλ = 1 that minimise λ'·gram·λ − linear'·λ, for a positive semidefinite gram.

    Exact up to rounding, as `duality_gap` certifies; one of the minimisers if there are many. Data that are not finite
    give NaN. Works under jit and vmap; in reverse-mode derivatives, take the weights as constants.
    """
    return _solve(*_checked(gram, linear))


@full_precision
@no_type_check
def duality_gap(gram: Float[Array, "S S"], linear: Float[Array, " S"] | None, lam: Float[Array, " S"]) -> _Number:
    """A bound on how far `lam`, on the simplex, is from the minimum of `simplex_qp`: max over s of (λ − e_s)'∇."""
    gram, linear = _checked(gram, linear)
    lam = jnp.asarray(lam)
    if lam.shape != linear.shape:
        raise ValueError(message("lam", f"have shape {linear.shape}", f"shape {lam.shape}", "pass one weight per row"))
    gradient = 2 * gram @ lam - (linear - jnp.max(linear))
    return lam @ (gradient - jnp.min(gradient))


@no_type_check
def _checked(gram: Array, linear: Array | None) -> tuple[Float[Array, "S S"], Float[Array, " S"]]:
    gram = jnp.asarray(gram)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or gram.size == 0:
        found = f"shape {gram.shape}"
        raise ValueError(message("gram", "be a square [S, S] matrix", found, "pass jacobian @ jacobian.T"))
    linear = jnp.zeros_like(gram[0]) if linear is None else jnp.asarray(linear)
    if linear.shape != gram.shape[:1]:
        rule, found = f"have shape {gram.shape[:1]}", f"shape {linear.shape}"
        raise ValueError(message("linear", rule, found, "pass one number per row of `gram`"))
    for name, dtype in (("gram", gram.dtype), ("linear", linear.dtype)):
        if not jnp.issubdtype(dtype, jnp.floating):
            raise TypeError(message(name, "be real floating point", f"dtype {dtype}", f"pass {name}.astype(float)"))
    dtype = jnp.promote_types(gram.dtype, linear.dtype)
    return gram.astype(dtype), linear.astype(dtype)


class _Problem(NamedTuple):
    """Over a basis of objectives, optimality reads system @ (weights, level) = target; the last row is Σλ = 1.

    Elsewhere the residual, target − system @ (weights, level), must not be positive. Here n = S + 1.
    """

    system: Float[Array, "n n"]
    target: Float[Array, " n"]
    lengths: Float[Array, " S"]


class _State(NamedTuple):
    rounds: _Index
    steps: _Index
    running: _Flag
    point: Float[Array, " n"]
    residual: Float[Array, " n"]
    basis: Bool[Array, " n"]
    inverse: Float[Array, "n n"]
    best: Float[Array, " S"]
    gap: _Number


@jax.jit
@full_precision
def _solve(gram: Float[Array, "S S"], linear: Float[Array, " S"]) -> Float[Array, " S"]:
    problem = _normalised(gram, linear)
    certified, most = _CERTIFIED * jnp.finfo(gram.dtype).eps, 10 * linear.size + 40

    def one_round(state: _State) -> _State:
        state = _restarted(problem, state)
        return jax.lax.while_loop(lambda s: s.running & (s.steps < most), lambda s: _step(problem, s), state)

    state = jax.lax.while_loop(lambda s: (s.rounds < _ROUNDS) & (s.gap > certified), one_round, _started(problem))
    finite = jnp.all(jnp.isfinite(gram)) & jnp.all(jnp.isfinite(linear))
    return jnp.where(finite, state.best, jnp.nan)


def _normalised(gram: Float[Array, "S S"], linear: Float[Array, " S"]) -> _Problem:
    linear = linear - jnp.max(linear)
    scale = jnp.max(jnp.diagonal(gram)) - jnp.min(linear)
    scale = jnp.where(scale >= jnp.finfo(gram.dtype).tiny, scale, 1)
    system = jnp.pad(2 * (gram / scale), (0, 1), constant_values=1).at[-1, -1].set(0)
    lengths = jnp.sqrt(jnp.maximum(jnp.diagonal(gram) / scale, 0))
    return _Problem(system, jnp.append(linear / scale, 1), lengths)


def _started(problem: _Problem) -> _State:
    system, target, _ = problem
    vertex = jnp.argmin(jnp.diagonal(system)[:-1] / 2 - target[:-1])
    point = _unit(vertex, target).at[-1].set(target[vertex] - system[vertex, vertex])
    zero, infinity = jnp.zeros((), int), jnp.full_like(target[0], jnp.inf)
    basis, inverse = jnp.zeros_like(point, bool), jnp.zeros_like(system)
    return _State(zero, zero, zero == 0, point, target - system @ point, basis, inverse, point[:-1], infinity)


def _restarted(problem: _Problem, state: _State) -> _State:
    """Keep the weights and begin a new inverse, free of the rounding of all pivots before: first of one objective."""
    heaviest = jnp.argmax(state.point[:-1])
    basis, inverse = (_unit(heaviest, state.point) > 0).at[-1].set(True), _vertex_inverse(problem, heaviest)
    rounds, steps, running = state.rounds + 1, jnp.zeros_like(state.steps), jnp.ones_like(state.running)
    return state._replace(rounds=rounds, steps=steps, running=running, basis=basis, inverse=inverse)


def _step(problem: _Problem, state: _State) -> _State:
    """Move to the optimum over the basis and an entering objective, or only to where some weight vanishes."""
    entering, enters = _entering(problem, state)
    edge, curvature = _edge(problem, state.inverse, entering)
    edge = jnp.where(enters, edge, 0)
    move = _move(problem, state, edge, curvature)
    weights, shrinks = state.point[:-1], move[:-1] < 0
    until_zero = jnp.where(shrinks, weights / jnp.where(shrinks, -move[:-1], 1), jnp.inf)
    leaving, fraction = jnp.argmin(until_zero), jnp.minimum(jnp.min(until_zero), 1)
    leave = jnp.where(fraction < 1, _unit(leaving, move), 0)
    weights = jnp.maximum(weights + fraction * move[:-1], 0) * (1 - leave[:-1])
    weights, level = weights / jnp.sum(weights), state.point[-1] + fraction * move[-1]
    point = jnp.append(weights, level)
    enter = jnp.where(enters, _unit(entering, move), 0)
    basis, inverse = _pivoted(problem, state, enter, leave, edge / jnp.sqrt(curvature))
    residual = problem.target - problem.system @ point
    gap = weights @ (jnp.max(residual[:-1]) - residual[:-1])
    best, gap = jnp.where(gap < state.gap, weights, state.best), jnp.fmin(gap, state.gap)
    return _State(state.rounds, state.steps + 1, enters | (fraction < 1), point, residual, basis, inverse, best, gap)


def _entering(problem: _Problem, state: _State) -> tuple[_Index, _Flag]:
    weights, level = state.point[:-1], state.point[-1]
    terms = 2 * problem.lengths * (problem.lengths @ weights) + jnp.abs(problem.target[:-1]) + jnp.abs(level)
    excess = state.residual[:-1] - _ENTRY * jnp.finfo(terms.dtype).eps * terms
    # One that was on its way in when another left has weight already, and goes first.
    excess = jnp.where(state.basis[:-1], -jnp.inf, jnp.where(weights > 0, jnp.inf, excess))
    return jnp.argmax(excess), jnp.max(excess) > 0


def _edge(problem: _Problem, inverse: Float[Array, "n n"], entering: _Index) -> tuple[Float[Array, " n"], _Number]:
    """The direction that gives weight to an objective and keeps the basis optimal, and the curvature along it."""
    edge = _unit(entering, problem.target) - inverse @ problem.system[entering]
    edge = edge - inverse @ (problem.system @ edge)  # Rounding left in an edge would spoil every later inverse.
    limits = jnp.finfo(edge.dtype)
    rounding = limits.eps * (problem.lengths @ jnp.abs(edge[:-1])) ** 2 + 100 * limits.tiny
    return edge, jnp.maximum(edge @ (problem.system @ edge), rounding)


def _move(problem: _Problem, state: _State, edge: Float[Array, " n"], curvature: _Number) -> Float[Array, " n"]:
    # No weight can gain more than 1. If it could lose, an objective might enter and leave for ever.
    along = jnp.clip(edge @ state.residual / curvature, 0, 2)
    move = state.inverse @ state.residual + along * edge
    bend = move @ (problem.system @ move)
    # The line search takes back what an inexact inverse overshoots.
    return move * jnp.where(bend > 0, jnp.clip(move @ state.residual / bend, 0, 1), 1)


def _pivoted(
    problem: _Problem, state: _State, enter: Float[Array, " n"], leave: Float[Array, " n"], add: Float[Array, " n"]
) -> tuple[Bool[Array, " n"], Float[Array, "n n"]]:
    blocked, kept = jnp.any(leave > 0), state.basis & (leave == 0)
    emptied = jnp.any(enter > 0) & (jnp.sum(kept) == 1)
    basis = jnp.where(blocked & ~emptied, kept, kept | (enter > 0))
    # The product with a unit vector: a gather would be fused into the update, and slow it down fivefold.
    row = leave @ state.inverse
    drop = row / jnp.sqrt(jnp.where(row @ leave > 0, row @ leave, jnp.inf))
    column, sign = jnp.where(blocked, drop, add), jnp.where(blocked, -1, 1)
    inverse = jax.lax.cond(
        emptied,
        lambda: _vertex_inverse(problem, jnp.argmax(enter)),
        lambda: (state.inverse + sign * jnp.outer(column, column)) * jnp.outer(basis, basis),
    )
    return basis, inverse


def _vertex_inverse(problem: _Problem, index: _Index) -> Float[Array, "n n"]:
    unit, last = _unit(index, problem.target), jnp.zeros_like(problem.target).at[-1].set(1)
    half = unit - (unit @ jnp.diagonal(problem.system)) / 2 * last
    return jnp.outer(half, last) + jnp.outer(last, half)


def _unit(index: _Index, like: Float[Array, " n"]) -> Float[Array, " n"]:
    return (jnp.arange(like.size) == index).astype(like.dtype)

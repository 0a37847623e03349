"""Quadratic programs over the unit simplex: the weights of the shortest convex combination of gradients.

A primal active-set method. Weights are moved among the objectives of a basis, whose optimality system is kept
inverted; objectives enter and leave it one at a time, each by a rank-one update of that inverse. The residual is
computed afresh from the data in every step, so an inexact inverse costs steps, never the accuracy of the answer.
"""

from typing import NamedTuple, no_type_check

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bipareto.errors import message

_ROUNDING = 4  # An objective enters when it promises more than this many rounding errors of its residual.
_CERTIFIED = 16  # The gap, in rounding errors of the problem's scale, at which no further round is needed.
_ROUNDS = 4


@no_type_check  # A shape checker would reject wrong arguments before the messages below could name the remedy.
def simplex_qp(gram: Float[Array, "S S"], linear: Float[Array, " S"] | None = None) -> Float[Array, " S"]:
    """The weights λ ≥ 0, Σλ = 1 that minimise λ'·gram·λ − linear'·λ, for a positive semidefinite gram.

    Exact up to rounding: see `duality_gap`. Where a gram is singular, one of the minimisers. NaN or infinity in the
    data gives NaN. Works under jit and vmap; take the weights as constants when differentiating in reverse.
    """
    gram, linear = _checked(gram, linear)
    return _solve(gram, linear)


@no_type_check
def duality_gap(
    gram: Float[Array, "S S"], linear: Float[Array, " S"] | None, weights: Float[Array, " S"]
) -> Float[Array, ""]:
    """How far weights on the simplex can be from the minimum of `simplex_qp`: max over s of (λ − e_s)'∇."""
    gram, linear = _checked(gram, linear)
    weights = jnp.asarray(weights, gram.dtype)
    if weights.shape != linear.shape:
        rule, remedy = f"be a vector [{linear.size}], as `gram`", "pass one weight per objective"
        raise ValueError(message("weights", rule, f"shape {weights.shape}", remedy))
    gradient = 2 * gram @ weights - (linear - jnp.max(linear))
    return weights @ (gradient - jnp.min(gradient))


@no_type_check
def _checked(gram: Array, linear: Array | None) -> tuple[Float[Array, "S S"], Float[Array, " S"]]:
    gram = jnp.asarray(gram)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not gram.size:
        rule = "be a square [S, S] matrix"
        raise ValueError(message("gram", rule, f"shape {gram.shape}", "pass jacobian @ jacobian.T"))
    if not jnp.issubdtype(gram.dtype, jnp.floating):
        raise TypeError(message("gram", "be real floating point", f"dtype {gram.dtype}", "pass gram.astype(float)"))
    linear = jnp.zeros_like(gram[0]) if linear is None else jnp.asarray(linear)
    if linear.shape != gram.shape[:1]:
        rule, remedy = f"be a vector [{gram.shape[0]}], as `gram`", "pass one number per objective"
        raise ValueError(message("linear", rule, f"shape {linear.shape}", remedy))
    if not jnp.issubdtype(linear.dtype, jnp.floating):
        raise TypeError(message("linear", "be real floating point", f"dtype {linear.dtype}", "pass floats"))
    dtype = jnp.promote_types(gram.dtype, linear.dtype)
    return gram.astype(dtype), linear.astype(dtype)


class _Problem(NamedTuple):
    """Over a basis of objectives, optimality reads system @ (weights, level) = target; the last row is Σλ = 1.

    Elsewhere the residual, target − system @ (weights, level), must not be positive. Below, n = S + 1.
    """

    system: Float[Array, "n n"]
    target: Float[Array, " n"]
    lengths: Float[Array, " S"]


class _State(NamedTuple):
    rounds: Int[Array, ""]
    steps: Int[Array, ""]
    running: Bool[Array, ""]
    point: Float[Array, " n"]
    residual: Float[Array, " n"]
    basis: Bool[Array, " n"]
    inverse: Float[Array, "n n"]
    best: Float[Array, " S"]
    gap: Float[Array, ""]


@jax.jit
def _solve(gram: Float[Array, "S S"], linear: Float[Array, " S"]) -> Float[Array, " S"]:
    problem = _normalised(gram, linear)
    certified = _CERTIFIED * jnp.finfo(gram.dtype).eps
    most = 10 * linear.size + 40

    def one_round(state: _State) -> _State:
        state = _restarted(problem, state)
        return jax.lax.while_loop(lambda s: s.running & (s.steps < most), lambda s: _step(problem, s), state)

    state = jax.lax.while_loop(
        lambda s: (s.rounds < _ROUNDS) & (s.gap > certified), one_round, _started(problem)
    )
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
    point = _unit(jnp.argmin(jnp.diagonal(system)[:-1] / 2 - target[:-1]), target)
    zero, infinity = jnp.zeros((), int), jnp.full_like(target[0], jnp.inf)
    basis, inverse = jnp.zeros_like(point, bool), jnp.zeros_like(system)
    return _State(zero, zero, zero == 0, point, target - system @ point, basis, inverse, point[:-1], infinity)


def _restarted(problem: _Problem, state: _State) -> _State:
    """Keep the weights, and build the inverse anew, free of the rounding of all pivots before.

    The basis begins as the heaviest objective; the others that have weight enter first.
    """
    heaviest = jnp.argmax(state.point[:-1])
    return state._replace(
        rounds=state.rounds + 1,
        steps=jnp.zeros_like(state.steps),
        running=jnp.ones_like(state.running),
        basis=(_unit(heaviest, state.point) > 0).at[-1].set(True),
        inverse=_vertex_inverse(problem, heaviest),
    )


def _step(problem: _Problem, state: _State) -> _State:
    """Move to the optimum over the basis and one entering objective, or to where a weight vanishes, and leaves."""
    entering, enters = _entering(problem, state)
    edge, curvature = _edge(problem, state.inverse, entering)
    edge = jnp.where(enters, edge, 0)
    move = _move(problem, state, edge, curvature)

    weights, shrinks = state.point[:-1], move[:-1] < 0
    until_zero = jnp.where(shrinks, weights / jnp.where(shrinks, -move[:-1], 1), jnp.inf)
    leaving, fraction = jnp.argmin(until_zero), jnp.minimum(jnp.min(until_zero), 1)
    leave = jnp.where(fraction < 1, _unit(leaving, move), 0)
    weights = jnp.maximum(weights + fraction * move[:-1], 0) * (1 - leave[:-1])
    point = jnp.append(weights / jnp.sum(weights), state.point[-1] + fraction * move[-1])

    basis, inverse = _pivoted(problem, state, entering, leave, edge / jnp.sqrt(curvature))
    residual = problem.target - problem.system @ point
    gap = point[:-1] @ (jnp.max(residual[:-1]) - residual[:-1])
    return state._replace(
        steps=state.steps + 1,
        running=enters | (fraction < 1),
        point=point,
        residual=residual,
        basis=basis,
        inverse=inverse,
        best=jnp.where(gap < state.gap, point[:-1], state.best),
        gap=jnp.fmin(gap, state.gap),
    )


def _entering(problem: _Problem, state: _State) -> tuple[Int[Array, ""], Bool[Array, ""]]:
    weights, level = state.point[:-1], state.point[-1]
    terms = 2 * problem.lengths * (problem.lengths @ weights) + jnp.abs(problem.target[:-1]) + jnp.abs(level)
    excess = state.residual[:-1] - _ROUNDING * jnp.finfo(terms.dtype).eps * terms
    # One that was on its way in when another left has weight already, and goes first.
    excess = jnp.where(state.basis[:-1], -jnp.inf, jnp.where(weights > 0, jnp.inf, excess))
    return jnp.argmax(excess), jnp.max(excess) > 0


def _edge(
    problem: _Problem, inverse: Float[Array, "n n"], entering: Int[Array, ""]
) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """The direction that gives weight to an objective and keeps the basis optimal, and the curvature along it."""
    edge = _unit(entering, problem.target) - inverse @ problem.system[entering]
    edge = edge - inverse @ (problem.system @ edge)  # Rounding in an edge would spoil every later inverse.
    limits = jnp.finfo(edge.dtype)
    rounding = limits.eps * (problem.lengths @ jnp.abs(edge[:-1])) ** 2 + 100 * limits.tiny
    return edge, jnp.maximum(edge @ (problem.system @ edge), rounding)


def _move(
    problem: _Problem, state: _State, edge: Float[Array, " n"], curvature: Float[Array, ""]
) -> Float[Array, " n"]:
    # No weight can change by more than 1. Backward, the objective that enters would leave again, for ever.
    along = jnp.clip(edge @ state.residual / curvature, 0, 2)
    move = state.inverse @ state.residual + along * edge
    bend = move @ (problem.system @ move)
    # The line search takes back what an inexact inverse overshoots.
    return move * jnp.where(bend > 0, jnp.clip(move @ state.residual / bend, 0, 1), 1)


def _pivoted(
    problem: _Problem, state: _State, entering: Int[Array, ""], leave: Float[Array, " n"], add: Float[Array, " n"]
) -> tuple[Bool[Array, " n"], Float[Array, "n n"]]:
    enter, blocked = add[entering] > 0, jnp.any(leave > 0)
    # The product with a unit vector: a gather would be fused into the update, and slow it down fivefold.
    row = leave @ state.inverse
    drop = row / jnp.sqrt(jnp.where(row @ leave > 0, row @ leave, jnp.inf))
    basis = state.basis & (leave == 0)
    emptied = enter & (jnp.sum(basis) == 1)
    basis = basis | ((_unit(entering, leave) > 0) & enter & (emptied | ~blocked))
    update = jnp.where(blocked, -1, 1) * jnp.outer(*[jnp.where(blocked, drop, add)] * 2)
    inverse = jax.lax.cond(
        emptied,
        lambda: _vertex_inverse(problem, entering),
        lambda: (state.inverse + update) * jnp.outer(basis, basis),
    )
    return basis, inverse


def _vertex_inverse(problem: _Problem, index: Int[Array, ""]) -> Float[Array, "n n"]:
    unit, last = _unit(index, problem.target), jnp.zeros_like(problem.target).at[-1].set(1)
    half = unit - (unit @ jnp.diagonal(problem.system)) / 2 * last
    return jnp.outer(half, last) + jnp.outer(last, half)


def _unit(index: Int[Array, ""], like: Float[Array, " n"]) -> Float[Array, " n"]:
    return (jnp.arange(like.size) == index).astype(like.dtype)

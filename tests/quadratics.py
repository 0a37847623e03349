"""Many random quadratic problems of one shape, their exact answers, and runs on all of them in one program."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import bipareto as bp
from bipareto.hypergradient import estimate
from bipareto.oracles import bind
from bipareto.sampling import Batches, Draws
from bipareto.theory import Constants

P, Q, S, COUNT = 3, 4, 3, 200


class Quadratics(NamedTuple):
    """g = y'Ay/2 - y'(Bx + c), f_s = (z - t_s)'C_s(z - t_s)/2 with z = (x, y); arrays with a leading axis of problems."""

    a: jax.Array
    b: jax.Array
    c: jax.Array
    curvature: jax.Array
    target: jax.Array
    x: jax.Array
    y: jax.Array

    @property
    def mu(self):
        return np.linalg.eigvalsh(self.a)[..., 0]

    @property
    def L(self):
        """Of grad_y g and of every grad f_s, in x and y together."""
        lower = np.linalg.norm(np.concatenate([self.b, self.a], axis=-1), 2, axis=(-2, -1))
        return np.maximum(lower, np.linalg.eigvalsh(self.curvature)[..., -1].max(axis=-1))

    def constants(self):
        """One for each problem, M = 1; see `with_slope`."""
        return [Constants(float(mu), float(L)) for mu, L in zip(self.mu, self.L, strict=True)]


def draw(count=COUNT, seed=0):
    """Condition numbers of A from 1 to 30, sizes over two orders, cross terms weak to strong, some f_s degenerate."""
    rng = np.random.default_rng(seed)

    def spd(n, low, high):
        basis, _ = np.linalg.qr(rng.normal(size=(n, n)))
        return basis @ np.diag(np.geomspace(low, high, n)) @ basis.T

    mu, kappa = 10 ** rng.uniform(-1, 0.5, count), 10 ** rng.uniform(0, 1.5, count)
    a = np.stack([spd(Q, m, m * k) for m, k in zip(mu, kappa, strict=True)])
    b = (10 ** rng.uniform(-1, 0.3, count))[:, None, None] * rng.normal(size=(count, Q, P))
    weak = rng.choice([1e-9, 0.1, 1.0], (count, S))
    curvature = np.stack([[spd(P + Q, w, 1.0) * rng.uniform(0.1, 2) for w in row] for row in weak])
    shapes = ((count, Q), (count, S, P + Q), (count, P), (count, Q))
    c, target, x, y = (rng.normal(size=shape) for shape in shapes)
    return Quadratics(*map(jnp.asarray, (a, b, c, curvature, target, x, y)))


def with_slope(constants, M):
    return dataclasses.replace(constants, M=float(M))


def upper(x, y, data):
    curvature, target = data
    away = jnp.concatenate([x, y]) - target
    return 0.5 * jnp.einsum("si,sij,sj->s", away, curvature, away)


def lower(x, y, data):
    a, b, c = data
    return 0.5 * y @ a @ y - y @ (b @ x + c)


def problem(one: Quadratics) -> bp.Problem:
    return bp.Problem(upper, lower, (one.curvature, one.target), (one.a, one.b, one.c))


def pick(many: Quadratics, i: int) -> Quadratics:
    return Quadratics(*(leaf[i] for leaf in many))


def exact(one: Quadratics, x):
    """y*, duals [S, q], values [S] and hypergradients [S, p] at x, by linear algebra."""
    y = jnp.linalg.solve(one.a, one.b @ x + one.c)
    slopes = jnp.einsum("sij,sj->si", one.curvature, jnp.concatenate([x, y]) - one.target)
    duals = jnp.linalg.solve(one.a, slopes[:, P:].T).T
    return y, duals, upper(x, y, (one.curvature, one.target)), slopes[:, :P] + duals @ one.b


_FIRST = pick(draw(1), 0)
_ORACLES = bind(problem(_FIRST), _FIRST.x, _FIRST.y)


def oracles(one: Quadratics):
    data = (one.curvature, one.target), (one.a, one.b, one.c)
    return eqx.tree_at(lambda o: (o.problem.upper_data, o.problem.lower_data), _ORACLES, data)


def hypergradients(one: Quadratics, x, y, method, descent, dual=None):
    """The library's estimate, and its errors [S]."""
    dual = jnp.zeros((S, Q)) if dual is None else dual
    found = estimate(Draws(oracles(one), Batches(), None), method, descent, x, y, dual)
    return found, jnp.linalg.norm(found.jacobian - exact(one, x)[3], axis=1)


def slope_norms(one: Quadratics, x, y):
    """max_s ||grad f_s||, in x and y."""
    return jnp.max(jnp.linalg.norm(jnp.einsum("sij,sj->si", one.curvature, jnp.concatenate([x, y]) - one.target), axis=1))


class Trace(NamedTuple):
    """What a run did, seen with exact knowledge; leading axes: problem, step."""

    values: jax.Array  # [S], exact
    distance: jax.Array  # ||y_k^0 - y*(x_k)||
    dual_distance: jax.Array  # max_s ||v_k^0 - v*(x_k)||
    M: jax.Array  # max_s ||grad f_s|| at (x_k, y*) and (x_k, y_k^D)
    error: jax.Array  # max_s ||estimate - grad phi_s||
    direction: jax.Array  # ||d_k||^2
    true_direction: jax.Array  # ||sum_s w_s grad phi_s||^2
    margin: jax.Array
    gap: jax.Array  # exact
    weight: jax.Array  # sum of weights


@eqx.filter_jit
def runs(many: Quadratics, algorithms, steps: int) -> Trace:
    """`steps` steps on every problem, each with its own (stacked) algorithm."""

    def one_run(one, algorithm):
        bound = oracles(one)
        state = algorithm.init(bound, one.x, one.y, None)

        def step(state, _):
            following, record, _ = algorithm.step(bound, state, None)
            y, duals, values, jacobian = exact(one, state.x)
            M = jnp.maximum(slope_norms(one, state.x, y), slope_norms(one, state.x, following.y))
            _, errors = hypergradients(one, state.x, state.y, algorithm.hypergradient, algorithm.lower, state.dual)
            true = record.weights @ jacobian
            return following, Trace(
                values, jnp.linalg.norm(state.y - y), jnp.max(jnp.linalg.norm(state.dual - duals, axis=1)), M,
                jnp.max(errors), record.direction, true @ true, record.margin,
                bp.stationarity_gap(jacobian @ jacobian.T), jnp.sum(record.weights),
            )  # fmt: skip

        return jax.lax.scan(step, state, length=steps)[1]

    return jax.vmap(one_run)(many, algorithms)


def stacked(algorithms):
    """Algorithms of one structure as one, with a leading axis on every number."""
    arrays = [jax.tree.map(jnp.asarray, eqx.filter(algorithm, eqx.is_array_like)) for algorithm in algorithms]
    rest = eqx.filter(algorithms[0], eqx.is_array_like, inverse=True)
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), rest)

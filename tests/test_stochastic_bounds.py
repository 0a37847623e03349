"""Lemma 5 and Theorem 2 on 200 random noisy quadratics, expectations as means over seeds."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import bipareto as bp
import quadratics
from bipareto import theory
from bipareto.hypergradient import estimate
from bipareto.oracles import bind
from bipareto.sampling import Draws
from bipareto.solver import State
from bipareto.theory import Constants, Setting
from quadratics import COUNT, P, Q, Quadratics, S

SAMPLES, SEEDS, STEPS, LOWER, TERMS, BATCH = 8, 4, 10, 60, 6, 12


def upper(x, y, target):
    return 0.5 * jnp.mean(jnp.sum((jnp.concatenate([x, y]) - target) ** 2, axis=2), axis=0)


def lower(x, y, data):
    return jnp.mean(jax.vmap(lambda *one: quadratics.lower(x, y, one))(*data))


@functools.cache
def draw() -> Quadratics:
    """A, B, c and the targets are means of 8 samples (axis 1); f_s = |z - t_s|^2/2."""
    base, rng = quadratics.draw(COUNT, seed=5), np.random.default_rng(6)

    def samples(array, size):
        noise = rng.normal(size=(COUNT, SAMPLES, *array.shape[1:]))
        return array[:, None] + size * (noise - noise.mean(axis=1, keepdims=True))

    a = samples(np.zeros_like(base.a), 0.05 * base.mu[:, None, None, None])
    a = base.a[:, None] + a + np.swapaxes(a, 2, 3)
    b, c, target = samples(base.b, 0.05), samples(base.c, 0.1), samples(base.target, 0.1)
    return Quadratics(*map(jnp.asarray, (a, b, c, base.curvature, target, base.x, base.y)))


def constants(many):
    """Those of every single sample, as Assumption 2 wants them; f_s has curvature 1."""
    mu = np.linalg.eigvalsh(many.a)[..., 0].min(axis=1)
    cross = np.linalg.norm(np.concatenate([many.b, many.a], axis=-1), 2, axis=(-2, -1)).max(axis=1)
    return mu, np.maximum(cross, 1.0)


def mean_problem(one: Quadratics) -> Quadratics:
    """What the samples are a sample of."""
    eye = jnp.broadcast_to(jnp.eye(P + Q), (S, P + Q, P + Q))
    return Quadratics(*(leaf.mean(axis=0) for leaf in one[:3]), eye, one.target.mean(axis=0), one.x, one.y)


def slopes(one: Quadratics, x, y):
    """max ||grad F_s|| over the samples."""
    return jnp.max(jnp.linalg.norm(jnp.concatenate([x, y]) - one.target, axis=-1))


def deviation(one: Quadratics, x, y):
    """sigma^2: the variance of the samples' grad_y G."""
    each = one.a @ y - one.b @ x - one.c
    return jnp.mean(jnp.sum((each - each.mean(axis=0)) ** 2, axis=1))


def first():
    one = Quadratics(*(leaf[0] for leaf in draw()))
    return bind(bp.Problem(upper, lower, one.target, (one.a, one.b, one.c)), one.x, one.y)


@eqx.filter_jit
def traced(many, algorithms, bound):
    """[n, seeds, K]: true ||d||^2, squared errors (S), squared distance of y^D, M, sigma^2, margin and values."""

    def one_run(one, algorithm, key):
        exact = functools.partial(quadratics.exact, mean_problem(one))
        data = one.target, (one.a, one.b, one.c)
        oracles = eqx.tree_at(lambda o: (o.problem.upper_data, o.problem.lower_data), bound, data)
        dual, zero = jnp.zeros((S, Q)), jnp.zeros(S)  # `init` itself looks at numbers, which a mapped run has not
        state = State(jnp.int32(0), one.x, one.y, dual, zero, algorithm.weighting.init(), algorithm.upper.init(one.x))

        def step(state, _):
            following, record, _ = algorithm.step(oracles, state, key)
            draws = Draws(oracles, algorithm.batches, jax.random.fold_in(key, state.step))
            found = estimate(draws, algorithm.hypergradient, algorithm.lower, state.x, state.y, state.dual)
            y, _, values, jacobian = exact(state.x)
            true = record.weights @ jacobian
            M = jnp.maximum(slopes(one, state.x, y), slopes(one, state.x, following.y))
            noise = jnp.maximum(deviation(one, state.x, state.y), deviation(one, state.x, following.y))
            errors = jnp.sum((found.jacobian - jacobian) ** 2, axis=1)
            return following, (true @ true, errors, jnp.sum((following.y - y) ** 2), M, noise, record.margin, values)

        return jax.lax.scan(step, state, length=STEPS)[1]

    keys = jax.random.split(jax.random.key(0), (COUNT, SEEDS))
    over_seeds = jax.vmap(one_run, (None, None, 0))
    return jax.vmap(over_seeds)(many, algorithms, keys)


@functools.cache
def measured():
    many = draw()
    mu, L = constants(many)
    rng = np.random.default_rng(1)
    r = rng.dirichlet(np.ones(S), COUNT).clip(0.02)
    r /= r.sum(axis=1, keepdims=True)
    settings = []
    for i in range(COUNT):
        c, top = Constants(float(mu[i]), float(L[i])), float(r[i].max())
        beta = min(1 / (2 * (1 + c.L_phi) * top), 1 / (3 * c.L_phi))
        settings.append(Setting(c, beta, 2 / (c.L + c.mu), LOWER, top))
    algorithms = [
        bp.HypergradientDescent(
            bp.GradientDescent(made.lower_step_size, LOWER),
            bp.StochasticNeumann(TERMS, 1 / made.constants.L, BATCH),
            bp.WeightedChebyshev(r[i], "certified", made.step_size),
            made.step_size,
            bp.Batches(BATCH, BATCH, BATCH),
        )
        for i, made in enumerate(settings)
    ]
    found = traced(many, quadratics.stacked(algorithms), first())
    starts = jax.vmap(lambda one: jnp.linalg.norm(one.y - quadratics.exact(mean_problem(one), one.x)[0]))(many)
    return settings, jax.tree.map(np.asarray, found), np.asarray(starts)


def with_met(made, M):
    return Setting(
        quadratics.with_slope(made.constants, M), made.step_size, made.lower_step_size, LOWER, made.largest_preference
    )


def test_lemma_5_and_theorem_2():
    """Equal batches b >= B Q (1 - eta mu)^j for all factors are batches of base size B = b/Q."""
    settings, (true, errors, squares, M, noise, margin, values), starts = measured()
    assert (margin >= -1e-8).all()
    sizes = BATCH, BATCH, BATCH / TERMS
    counts = np.arange(1, STEPS)
    for i, setting in enumerate(settings):
        made = dataclasses.replace(setting, constants=quadratics.with_slope(setting.constants, M[i].max()))
        eta = 1 / made.constants.L
        bound = theory.stochastic_error(made.constants, eta, TERMS, sizes, squares[i].mean(axis=0))
        assert (errors[i].mean(axis=0).max(axis=1) <= bound).all()
        drop = np.min(np.mean(values[i, :, :1] - values[i, :, 1:], axis=0), axis=1)
        mean = np.cumsum(true[i].mean(axis=0))[:-1] / counts
        noisiest = float(np.sqrt(noise[i].max()))
        setup = made, (eta, TERMS), (BATCH, *sizes), S, noisiest
        assert (mean <= theory.stochastic_bound(*setup, counts, drop, float(starts[i]))).all()

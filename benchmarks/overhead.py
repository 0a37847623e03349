"""`solve` against a jitted loop written by hand for one problem: the same oracle calls, nothing else.

The hand-written loop knows its problem (a linear softmax model, derivatives still by autodiff), holds no histories, checks
nothing. The library's loop records, checks and certifies every step.
"""

import jax
import jax.numpy as jnp
import numpy as np

import bipareto as bp
from benchmarks.measure import interleaved, spread
from bipareto.datasets import digits
from bipareto.experiments.hyper_cleaning import cleaning_problem, corrupted, cross_entropy, split
from bipareto.solver import advance, start

STEPS, LOWER_STEPS, CG_STEPS = 200, 50, 10  # the demo's
STEP, LOWER_STEP, RIDGE = 3000.0, 2.0, 1e-3
RATES = (0.0, 0.15, 0.3, 0.45, 0.6)


def data(seed: int = 0):
    images, labels = digits()
    train, validation, _ = split(images, labels, (1000, 397, 400), seed)
    return train, corrupted(train.labels, RATES, 10, seed), validation


def by_hand(train, noisy, validation, r):
    tasks = len(noisy)
    images, labels = jnp.asarray(train.images), jnp.asarray(noisy)
    clean, truth = jnp.asarray(validation.images), jnp.asarray(validation.labels)

    def lower(x, y):
        losses = jax.vmap(lambda y, labels: jnp.mean(jax.nn.sigmoid(x) * cross_entropy(images, y, labels)))(y, labels)
        return (jnp.sum(losses) + RIDGE * jnp.sum(y**2)) / tasks

    def values_and_slopes(y):
        return jax.vmap(jax.value_and_grad(lambda y: jnp.mean(cross_entropy(clean, y, truth))))(y)

    def dots(a, b):
        return jnp.sum(a * b, axis=(1, 2))[:, None, None]

    def step(carry, _):
        x, y, v = carry
        gradient = jax.grad(lower, argnums=1)
        y = jax.lax.fori_loop(0, LOWER_STEPS, lambda _, y: y - LOWER_STEP * gradient(x, y), y)
        values, b = values_and_slopes(y)
        pull = jax.vjp(lambda y: gradient(x, y), y)[1]
        residual = b - pull(v)[0]

        def cg(_, carry):
            v, r, p, rr = carry
            hp = pull(p)[0]
            length = rr / dots(p, hp)
            v, r = v + length * p, r - length * hp
            after = dots(r, r)
            return v, r, r + after / rr * p, after

        v = jax.lax.fori_loop(0, CG_STEPS, cg, (v, residual, residual, dots(residual, residual)))[0]

        def along(x, y, v, labels):
            loss = lambda y: jnp.mean(jax.nn.sigmoid(x) * cross_entropy(images, y, labels)) / tasks  # noqa: E731
            return jax.jvp(loss, (y,), (v,))[1]

        jacobian = -jax.vmap(jax.grad(along), (None, 0, 0, 0))(x, y, v, labels)
        gram = jacobian @ jacobian.T
        weights = r * bp.simplex_qp(r[:, None] * gram * r, 2 / STEP * r * values)
        return (x - STEP * weights @ jacobian, y, v), (values, bp.stationarity_gap(gram))

    return jax.jit(lambda x, y, v: jax.lax.scan(step, (x, y, v), length=STEPS))


def run(rounds: int = 7) -> dict:
    train, noisy, validation = data()
    r = jnp.asarray(bp.preferences.focused(len(RATES))[2], jnp.float32)
    x, y = jnp.zeros(len(train.labels)), jnp.zeros((len(RATES), 64, 10))
    problem = cleaning_problem(train, noisy, validation, RIDGE)
    algorithm = bp.wc_mhgd(np.asarray(r), STEP, LOWER_STEP, LOWER_STEPS, bp.CG(CG_STEPS))
    oracles, state = start(problem, algorithm, x, y)
    hand = by_hand(train, noisy, validation, r)
    rivals = {
        "by hand": lambda: hand(x, y, jnp.zeros_like(y)),
        "compiled chunk": lambda: advance(algorithm, oracles, state, None, None, jnp.int32(STEPS), 512),
        "solve": lambda: bp.solve(problem, algorithm, x, y, steps=STEPS).values,
    }
    expected = np.asarray(hand(x, y, jnp.zeros_like(y))[0][0])
    difference = np.max(np.abs(expected - bp.solve(problem, algorithm, x, y, STEPS).x))
    times = interleaved(rivals, rounds)
    ratios = {name: float(np.median(times[name] / times["by hand"])) for name in rivals}
    for name in rivals:
        print(f"{name:<16} ms per upper step {spread(1e3 * times[name] / STEPS):<28} ratio {ratios[name]:.3f}")
    relative = float(difference / np.max(np.abs(expected)))
    print(f"largest relative difference of x after {STEPS} steps: {relative:.1e}")
    milliseconds = {name: float(np.median(1e3 * times[name] / STEPS)) for name in rivals}
    return {"ms_per_step": milliseconds, "ratio": ratios, "relative_difference": relative, "steps": STEPS}

"""Minibatch lower steps of hyper-cleaning at the paper's size, on one core, against a jitted scan written by hand.

5 linear models of 784 x 10, batches of 1,000 drawn with replacement from 20,000 shared images. Random pixels: only the
shapes matter for time.
"""

import json
import os
import subprocess
import sys

TASKS, SAMPLES, PIXELS, CLASSES, BATCH, STEPS = 5, 20_000, 784, 10, 1000, 50


def run() -> dict:
    """In a process of its own that sees one core only."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.stochastic"], capture_output=True, text=True, check=True)
    print(done.stderr.strip())
    return json.loads(done.stdout)


def measured(rounds: int = 15) -> dict:
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import numpy as np

    import bipareto as bp
    from benchmarks.measure import interleaved, spread
    from bipareto.experiments.hyper_cleaning import cross_entropy
    from bipareto.oracles import bind
    from bipareto.sampling import Draws

    rng = np.random.default_rng(0)
    images = jnp.asarray(rng.random((SAMPLES, PIXELS)), jnp.float32)
    labels = jnp.asarray(rng.integers(0, CLASSES, (TASKS, SAMPLES)))
    x, y = jnp.zeros(SAMPLES), jnp.zeros((TASKS, PIXELS, CLASSES))
    key = jax.random.key(0)

    def training_loss(x, y, data):
        images, labels, index = data
        return jnp.mean(jax.nn.sigmoid(x[index]) * cross_entropy(images, y, labels)) + 0.1 * jnp.sum(y**2)

    def validation_loss(x, y, data):
        return jnp.mean(cross_entropy(data[0], y, data[1]))

    data = (images, labels, jnp.arange(SAMPLES))
    problem = bp.SeparableProblem(validation_loss, training_loss, TASKS, data[:2], data, (None, 0), (None, 0, None))
    oracles = bind(problem, x, y)
    lower = bp.GradientDescent(0.1, STEPS)

    @jax.jit
    def by_hand(x, y, images, labels, key):
        def loss(y, rows, targets, weights):
            return jnp.mean(weights * cross_entropy(rows, y, targets)) + 0.1 * jnp.sum(y**2)

        def step(y, t):
            index = jax.random.randint(jax.random.fold_in(key, t), (BATCH,), 0, SAMPLES)
            batch = images[index], labels[:, index], jax.nn.sigmoid(x[index])
            return y - 0.1 / TASKS * jax.vmap(jax.grad(loss), (0, None, 0, None))(y, *batch), None

        return jax.lax.scan(step, y, jnp.arange(STEPS))[0]

    @eqx.filter_jit
    def library(oracles, x, y, key):
        return Draws(oracles, bp.Batches(lower=BATCH), key).descend(lower, x, y).end

    flat = oracles.y_layout.flatten(y)
    role = jax.random.fold_in(key, 0)  # the library's key for lower steps: the same samples on both sides
    rivals = {"by hand": lambda: by_hand(x, y, images, labels, role), "library": lambda: library(oracles, x, flat, key)}
    difference = jnp.max(jnp.abs(rivals["by hand"]().reshape(TASKS, -1) - rivals["library"]()))
    relative = float(difference / jnp.max(jnp.abs(rivals["library"]())))
    times = interleaved(rivals, rounds)
    ratio = float(np.median(times["library"] / times["by hand"]))
    for name in rivals:
        print(f"{name:<10} ms per lower step {spread(1e3 * times[name] / STEPS)}", file=sys.stderr)
    print(f"ratio {ratio:.3f}, largest relative difference {relative:.1e}", file=sys.stderr)
    milliseconds = {name: float(np.median(1e3 * times[name] / STEPS)) for name in rivals}
    return {"ms_per_lower_step": milliseconds, "ratio": ratio, "relative_difference": relative}


if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(json.dumps(measured()))

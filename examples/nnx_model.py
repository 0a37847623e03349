"""One Flax NNX network under two tasks with different label noise.

x is the parameter state of an NNX module (the rest of the module is split off and closed over), y one linear head per task.

Run with: python examples/nnx_model.py
"""

import jax
import jax.numpy as jnp
from flax import nnx

import bipareto as bp
from bipareto.datasets import digits
from bipareto.experiments.hyper_cleaning import corrupted


class Backbone(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.first = nnx.Linear(64, 32, rngs=rngs)
        self.second = nnx.Linear(32, 16, rngs=rngs)

    def __call__(self, images):
        return nnx.tanh(self.second(nnx.relu(self.first(images))))


def main(steps=60):
    images, labels = digits()
    noisy = corrupted(labels[:600], rates=(0.0, 0.4), classes=10, seed=0)
    definition, parameters = nnx.split(Backbone(nnx.Rngs(0)))

    def features(parameters, data):
        return nnx.merge(definition, parameters)(data[0])

    def cross_entropy(features, head, data):
        log_likelihood = jax.nn.log_softmax(features @ head)
        return -jnp.mean(jnp.take_along_axis(log_likelihood, data[1][:, None], axis=1))

    problem = bp.SeparableProblem(
        upper=cross_entropy,
        lower=lambda features, head, data: cross_entropy(features, head, data) + 0.01 * jnp.sum(head**2),
        tasks=2,
        upper_data=(images[600:1200], labels[600:1200]),
        lower_data=(images[:600], noisy),
        upper_axes=None,
        lower_axes=(None, 0),
        prepare=features,
    )
    algorithm = bp.wc_mhgd([0.5, 0.5], step_size=1.0, lower_step_size=0.5, lower_steps=20)
    solution = bp.solve(problem, algorithm, parameters, jnp.zeros((2, 16, 10)), steps=steps)
    print(solution)
    logits = nnx.merge(definition, solution.x)(images[1200:]) @ solution.y
    print("test accuracy (clean labels, 40 % wrong):", jnp.mean(jnp.argmax(logits, -1) == labels[1200:], axis=1))
    return solution


if __name__ == "__main__":
    main()

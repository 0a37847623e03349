"""One Equinox network under three tasks: learn features on which each task's linear head generalises.

x is an Equinox MLP (the backbone), y one ridge-regularised logistic head per task. The backbone enters the losses only
through its features, so `prepare` computes them once per upper step and the heads train on them.

Run with: python examples/equinox_model.py
"""

import equinox as eqx
import jax
import jax.numpy as jnp

import bipareto as bp
from bipareto.datasets import digits


def features(backbone, data):
    images, _ = data
    return jax.vmap(backbone)(images)


def validation_loss(features, head, data):
    _, sign = data
    return jnp.mean(jax.nn.softplus(-sign * (features @ head)))


def training_loss(features, head, data):
    return validation_loss(features, head, data) + 0.01 * jnp.sum(head**2)


def main(steps=60):
    images, labels = digits()
    tasks = jnp.stack([labels % 2 == 0, labels >= 5, labels % 3 == 0]) * 2.0 - 1.0  # even, large, divisible by 3
    train, validation = (images[:600], tasks[:, :600]), (images[600:1200], tasks[:, 600:1200])
    problem = bp.SeparableProblem(
        validation_loss,
        training_loss,
        tasks=3,
        upper_data=validation,
        lower_data=train,
        upper_axes=(None, 0),
        lower_axes=(None, 0),
        prepare=features,
    )
    backbone = eqx.nn.MLP(64, 16, width_size=32, depth=1, final_activation=jnp.tanh, key=jax.random.key(0))
    algorithm = bp.wc_mhgd([0.2, 0.6, 0.2], step_size=2.0, lower_step_size=1.0, lower_steps=20)
    solution = bp.solve(problem, algorithm, backbone, jnp.zeros((3, 16)), steps=steps)
    print(solution)
    trained = jax.vmap(solution.x)(images[1200:])
    accuracy = jnp.mean((trained @ solution.y.T).T * tasks[:, 1200:] > 0, axis=1)
    print("test accuracy (even, large, divisible by 3):", accuracy)
    return solution


if __name__ == "__main__":
    main()

"""Ridge regression of three cities with one penalty per feature, for the command line:

bipareto explore --problem examples/ridge_setup.py:setup --out cities
bipareto serve cities
"""

import jax
import jax.numpy as jnp

import bipareto as bp


def validation_loss(x, y, data):
    inputs, targets = data
    return jnp.mean((inputs @ y - targets) ** 2)


def training_loss(x, y, data):  # x: the logarithm of the penalty of every feature, shared by the cities
    return validation_loss(x, y, data) + jnp.sum(jnp.exp(x) * y**2)


def setup():
    keys = jax.random.split(jax.random.key(0), 4)
    truth, inputs = jax.random.normal(keys[0], (3, 8)), jax.random.normal(keys[1], (3, 60, 8))
    targets = jnp.einsum("snd,sd->sn", inputs, truth) + jax.random.normal(keys[2], (3, 60))
    seen, unseen = (inputs[:, :12], targets[:, :12]), (inputs[:, 12:], targets[:, 12:])
    problem = bp.SeparableProblem(validation_loss, training_loss, tasks=3, upper_data=unseen, lower_data=seen)
    defaults = {"step_size": 0.5, "lower_step_size": 0.05, "lower_steps": 50, "steps": 200, "preferences": 10}
    return bp.Setup(problem, jnp.zeros(8), jnp.zeros((3, 8)), ("Oslo", "Lima", "Pune"), defaults=defaults)

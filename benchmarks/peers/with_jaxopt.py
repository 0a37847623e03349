"""JAXopt: `GradientDescent` differentiated implicitly by conjugate gradients, or through its steps.

It runs where JAX does, whatever device is named.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxopt import GradientDescent, linear_solve

from benchmarks.peers.ours import flat
from bipareto.experiments.hyper_cleaning import TrainingLoss, validation_loss
from bipareto.experiments.meta_learning import SupportLoss, features, query_loss


def cleaning(case, device):
    training_loss = TrainingLoss(case.ridge)
    solver = GradientDescent(
        lambda y, x, data: training_loss(x, y, data),
        stepsize=case.lower_step_size,
        maxiter=case.lower_steps,
        tol=0.0,
        acceleration=False,
        implicit_diff_solve=functools.partial(linear_solve.solve_cg, maxiter=case.cg_steps, tol=0.0),
    )

    def objective(x, y, training, validation):
        return validation_loss(x, solver.run(y, x, training).params, validation)

    program = jax.jit(jax.vmap(jax.value_and_grad(objective), (None, None, (None, 0, None), None)))
    index = np.arange(len(case.train.labels))
    starts = np.zeros(len(index), np.float32), np.zeros(case.shape, np.float32)
    arguments = jax.tree.map(jnp.asarray, (*starts, (case.train.images, case.noisy, index), tuple(case.validation)))
    return lambda: program(*arguments)


def few_shot(case, device):
    settings, data = case.settings, case.data
    support_loss = SupportLoss(settings.ridge)
    solver = GradientDescent(
        lambda y, h, data: support_loss(h, y, data),
        stepsize=settings.lower_step_size,
        maxiter=settings.lower_steps,
        tol=0.0,
        acceleration=False,
        implicit_diff=False,
        unroll=True,
    )

    def objective(x, y, support, query):
        head = solver.run(y, features(x, support), support).params
        return query_loss(features(x, query), head, query)

    @jax.jit
    def program(x, heads, support, query):
        # A loop over tasks, since convolutions under `vmap` are slower on a CPU.
        rows = [jax.tree.map(lambda leaf, s=s: leaf[s], (heads, support, query)) for s in range(case.tasks)]
        found = [jax.value_and_grad(objective)(x, *row) for row in rows]
        values, jacobian = jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)
        return values, flat(jacobian, 1)

    arguments = jax.tree.map(jnp.asarray, (data.x0, data.y0, tuple(data.support), tuple(data.query)))
    return lambda: program(*arguments)

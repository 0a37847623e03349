"""bipareto: all objectives at once, the upper step as `solve` compiles it."""

import jax.numpy as jnp

import bipareto as bp
from benchmarks.peers.cases import FewShot
from bipareto.experiments.hyper_cleaning import cleaning_problem
from bipareto.solver import advance, chunk_size, start


def parts(case):
    """Problem, x, y, size and number of lower steps, hypergradient."""
    if isinstance(case, FewShot):
        step_size, steps, method = case.settings.lower_step_size, case.settings.lower_steps, bp.Unrolled()
        problem, x, y = case.data.problem, case.data.x0, case.data.y0
    else:
        step_size, steps, method = case.lower_step_size, case.lower_steps, bp.CG(case.cg_steps, warm_start=False)
        problem = cleaning_problem(case.train, case.noisy, case.validation, case.ridge)
        x, y = jnp.zeros(len(case.train.labels)), jnp.zeros((case.tasks, *case.shape))
    # The lower level is the mean over tasks: S times the step of one.
    return problem, x, y, case.tasks * step_size, steps, method


def hypergradient(case):
    """A call: values [S] and the tree of Jacobians."""
    problem, x, y, step_size, steps, method = parts(case)
    lower = bp.GradientDescent(step_size, steps)
    return lambda: bp.hypergradient(problem, x, y, method, lower=lower)


def upper_step(case, preference):
    """A call: the new x, flat."""
    problem, x, y, step_size, steps, method = parts(case)
    algorithm = bp.wc_mhgd(preference, case.step_size, step_size, steps, method)
    oracles, state = start(problem, algorithm, x, y)
    size = chunk_size(oracles, state)
    return lambda: advance(algorithm, oracles, state, None, None, jnp.int32(1), size)[0].x


def flat(tree, axes: int = 0):
    """One array of the leaves, each flattened but for its first `axes`; the order of `torch_parts.row`."""
    if not isinstance(tree, dict):
        return tree
    leaves = [block[name] for _, block in sorted(tree.items()) for name in ("kernel", "scale", "shift")]
    return jnp.concatenate([leaf.reshape(*leaf.shape[:axes], -1) for leaf in leaves], axis=axes)

"""Fronts of runs that were never run, for what is done with fronts afterwards."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import bipareto as bp
from bipareto.oracles import OracleCounts
from bipareto.solver import Evaluations, Record

COUNTS = OracleCounts(1, 2, 3, 4)


def history(values, gap):
    """A history with the given values [K, S] and gaps [K], equal weights and margins of zero; the rest is of no use."""
    zero = jnp.zeros(())
    one = jnp.zeros(values.shape[1])
    record = Record(one, one, jnp.zeros((1, 1)), zero, zero, zero, zero, jnp.zeros(1), COUNTS)
    columns = (values, gap, np.full(values.shape, 1 / values.shape[1]), np.zeros(len(gap)))
    return eqx.tree_at(lambda record: (record.values, record.gap, record.weights, record.margin), record, columns)


def run(values, curve=None, gap=None, status=bp.Status.COMPLETED, x=None, seconds=0.1):
    """A run that ended at `values` [S]; `curve` [K, S] and `gap` [K] are its history."""
    values = np.asarray(values, float)
    curve = values[None] * np.linspace(3, 1, 4)[:, None] if curve is None else np.asarray(curve)
    gap = np.geomspace(1, 1e-3, len(curve)) if gap is None else np.asarray(gap)
    x = np.arange(2.0) if x is None else x
    evaluations = Evaluations(np.zeros(0), np.zeros(0))
    return bp.Solution(x, np.zeros(1), values, status, status.value, history(curve, gap), COUNTS, evaluations, seconds, 0.0)


def front(preferences, values, **fields):
    """A front whose runs ended well at `values` [P, seeds, S]."""
    grid = [[run(point) for point in row] for row in np.asarray(values)]
    return bp.Front(None if preferences is None else np.asarray(preferences, float), grid, **fields)


def noisy(preferences, seeds=5, steps=60, objectives=None, failing=(), seed=0, **fields):
    """A front as exploring would find it: values fall towards 1/r, with noise; the runs (p, i) of `failing` break off."""
    random = np.random.default_rng(seed)
    rows = np.full((1, objectives), 1 / (objectives or 1)) if preferences is None else np.asarray(preferences, float)
    grid = [[] for _ in rows]
    for p, r in enumerate(rows):
        goal = 0.3 / (r + 0.15)
        for i in range(seeds):
            fall = np.exp(-np.arange(steps) / (steps / 6))[:, None]
            end = goal * (1 + 0.05 * random.standard_normal(len(r)))
            curve = end + (2.5 - end) * fall + 0.03 * random.standard_normal((steps, len(r)))
            gap = np.geomspace(1, 1e-4, steps) * np.exp(0.5 * random.standard_normal(steps))
            cut = steps // 2 if (p, i) in failing else steps
            status = bp.Status.NON_FINITE_VALUE if cut < steps else bp.Status.COMPLETED
            grid[p].append(run(curve[cut - 1], curve[:cut], gap[:cut], status))
    return bp.Front(None if preferences is None else rows, grid, **fields)

"""The same work on several devices or processes; run as a script, prints or writes the numbers for the test to compare."""

import json
import os
import pathlib
import signal
import sys

import jax
import numpy as np

import bipareto as bp
from bipareto import distributed
from bipareto.front import fleet

PREFERENCES = bp.preferences.lattice(2, 9, floor=0.05)

KEYED = {"seeds": 2, "batches": bp.Batches(upper=2)}  # which draw, so that every run has its key


def explored(batches=None, **options):
    goals = np.array([[0.0, 1.0], [1.0, 0.0]])
    upper = lambda x, y, d: ((y - goals) ** 2).sum(axis=1) * d.mean() + 0.1 * (x**2).sum()  # noqa: E731
    problem = bp.Problem(upper, lambda x, y: ((y - x) ** 2).sum(), upper_data=np.linspace(0.5, 1.5, 6))
    algorithm = bp.wc_mhgd(PREFERENCES[0], 0.02, 0.2, 5, bp.CG(2), batches=batches)
    if batches is not None:
        options["key"] = jax.random.key(3)
    front = bp.explore(problem, algorithm, PREFERENCES, np.ones(2), np.ones(2), 30, **options)
    return {"values": front.values.tolist(), "x": np.asarray(front.x).tolist()}


def images(tasks=8, samples=16):
    """Per-sample weights over tasks that share their inputs: data with and without a task axis."""
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(samples, 3)), rng.normal(size=(tasks, samples))
    lower = lambda x, y, d: ((jax.nn.sigmoid(x) * (d[0] @ y - d[1]) ** 2).mean() + 0.1 * (y**2).sum()) * tasks  # noqa: E731
    upper = lambda x, y, d: ((d[0] @ y - d[1]) ** 2).mean()  # noqa: E731
    clean = (rng.normal(size=(samples, 3)), rng.normal(size=(tasks, samples)))
    axes = {"upper_axes": (None, 0), "lower_axes": (None, 0)}
    return (
        bp.SeparableProblem(upper, lower, tasks, clean, (inputs, targets), **axes),
        np.zeros(samples),
        np.zeros((tasks, 3)),
    )


def solved(along, devices=None):
    problem, x, y = images()
    if along is not None:
        problem = distributed.shard(problem, along, devices)
    r = np.full(problem.tasks, 1 / problem.tasks)
    run = bp.solve(problem, bp.wc_mhgd(r, 0.5, 0.2, 10, bp.CG(3)), jax.numpy.asarray(x), jax.numpy.asarray(y), 6)
    return {"values": run.values.tolist(), "x": np.asarray(run.x).tolist(), "gap": run.history.gap.tolist()}


def on_devices():
    """One process: everything on 1, 2, 4 and 8 of its devices."""
    found = {}
    for count in (1, 2, 4, 8):
        chosen = jax.devices()[:count]
        found[f"explored on {count}"] = explored(devices=chosen)
    found["keyed on 1"], found["keyed on 8"] = explored(devices=jax.devices()[:1], **KEYED), explored(**KEYED)
    found["explored in batches"] = explored(batch=3, devices=jax.devices()[:2])
    found["solved alone"] = solved(None)
    found["solved by tasks"], found["solved by samples"] = solved("tasks"), solved("samples")
    return found


def in_processes(folder, interrupt):
    """Two processes; `interrupt`: process 1 alone is told to end in the middle, and both do."""
    if interrupt:
        keep, calls = fleet.Fleet.advance, []

        def advance(self):
            keep(self)
            calls.append(1)
            if len(calls) == 3 and jax.process_index() == 1:
                os.kill(os.getpid(), signal.SIGTERM)

        fleet.Fleet.advance = advance
    found = {"explored": explored(directory=folder / "run", resume=True, save_every=1e9)}
    found["solved by tasks"] = solved("tasks")
    return found


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    out = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "devices":
        jax.config.update("jax_num_cpu_devices", 8)
        text = on_devices()
    else:
        number, port, interrupt = int(sys.argv[3]), sys.argv[4], sys.argv[5] == "interrupt"
        jax.config.update("jax_num_cpu_devices", 2)
        distributed.start(f"127.0.0.1:{port}", 2, number)
        text = in_processes(out.parent, interrupt)
    out.write_text(json.dumps(text))

"""25 preferences explored as one program, against one run and against 25 runs one after the other."""

import jax.numpy as jnp
import numpy as np

import bipareto as bp
from benchmarks.measure import interleaved, spread
from benchmarks.overhead import RIDGE, data
from bipareto.experiments.hyper_cleaning import cleaning_problem

RUNS, STEPS = 25, 20


def quadratic():
    rng = np.random.default_rng(0)
    a, t = jnp.asarray(rng.normal(size=(20, 8)), jnp.float32), jnp.asarray(rng.normal(size=(5, 20)), jnp.float32)
    upper = lambda x, y: jnp.sum((y - t) ** 2, axis=1) + jnp.sum(x**2)  # noqa: E731
    return bp.Problem(upper, lambda x, y: jnp.sum((y - a @ x) ** 2)), jnp.zeros(8), jnp.zeros(20), 0.01, 0.2


def digits():
    train, noisy, validation = data()
    problem = cleaning_problem(train, noisy, validation, RIDGE)
    return problem, jnp.zeros(len(train.labels)), jnp.zeros((len(noisy), 64, 10)), 3000.0, 2.0


def run(rounds: int = 3) -> dict:
    rows = bp.preferences.energy(5, RUNS)
    table = {}
    for make in (quadratic, digits):
        problem, x, y, step, lower_step = make()
        algorithm = bp.wc_mhgd(rows[0], step, lower_step, 20, bp.CG(10))
        rivals = {
            "one run": lambda p=problem, a=algorithm, x=x, y=y: bp.solve(p, a, x, y, STEPS).values,
            "explored": lambda p=problem, a=algorithm, x=x, y=y: bp.explore(p, a, rows, x, y, STEPS).values,
        }
        times = interleaved(rivals, rounds)
        ratio = float(np.median(times["explored"]) / np.median(times["one run"]))
        table[make.__name__] = {name: float(np.median(values)) for name, values in times.items()} | {"ratio": ratio}
        one, explored = spread(times["one run"]), spread(times["explored"])
        print(f"{make.__name__:<10} one run {one} s, {RUNS} explored {explored} s: {ratio:.1f} runs")
    return table

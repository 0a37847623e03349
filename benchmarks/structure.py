"""What separability saves, what the lower steps cost in memory, and how long the demo's step compiles."""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import bipareto as bp
from benchmarks.measure import interleaved
from benchmarks.overhead import data
from bipareto.experiments.hyper_cleaning import cleaning_problem, corrupted
from bipareto.solver import advance, start

K, D, N = 5, 20, 10


def hidden(problem: bp.SeparableProblem) -> bp.Problem:
    """The same problem for a user who does not say that it is separable."""

    def upper(x, y, data):
        return jax.vmap(problem.upper, (None, 0, None))(x, y, data)

    def lower(x, y, data):
        return jnp.mean(jax.vmap(problem.lower, (None, 0, (None, 0, None)))(x, y, data))

    return bp.Problem(upper, lower, problem.upper_data, problem.lower_data)


def separability(rounds: int = 5) -> dict:
    train, _, validation = data()
    calls, counts = {}, {}
    for tasks, joint in ((1, False), (5, False), (10, False), (5, True), (10, True)):
        noisy = corrupted(train.labels, tuple(np.linspace(0, 0.6, tasks)), 10, 0)
        separable = cleaning_problem(train, noisy, validation, 1e-3)
        problem = hidden(separable) if joint else separable
        algorithm = bp.mgda(100.0, 0.4 * tasks, D, bp.CG(N))
        x, y = jnp.zeros(len(train.labels)), jnp.zeros((tasks, 64, 10))
        oracles, state = start(problem, algorithm, x, y)
        name = f"S = {tasks}, {'joint' if joint else 'separable'}"
        counts[name] = bp.solve(problem, algorithm, x, y, steps=K).oracles.hvp
        calls[name] = lambda a=algorithm, o=oracles, s=state: advance(a, o, s, None, None, jnp.int32(K), 512)
    times = interleaved(calls, rounds)
    table = {name: {"hvp": counts[name], "ms_per_step": float(1e3 * np.median(times[name]) / K)} for name in calls}
    for name, row in table.items():
        print(f"{name:<20} products H v in {K} steps: {row['hvp']:>5}   {row['ms_per_step']:8.2f} ms per upper step")
    return table


def memory() -> dict:
    """Bytes of temporaries of the compiled chunk, as the compiler plans them, for growing numbers of lower steps."""
    train, noisy, validation = data()
    problem = cleaning_problem(train, noisy, validation, 1e-3)
    x, y = jnp.zeros(len(train.labels)), jnp.zeros((len(noisy), 64, 10))
    methods = {
        "CG": bp.CG(N),
        "Neumann": bp.Neumann(N, 0.5),
        "Unrolled": bp.Unrolled(),
        "checkpointed": bp.Unrolled(True),
    }
    table = {}
    for name, method in methods.items():
        table[name] = {}
        for steps in (10, 100, 1000):
            algorithm = bp.mgda(100.0, 2.0, steps, method)
            oracles, state = start(problem, algorithm, x, y)
            plan = (
                advance.lower(algorithm, oracles, state, None, None, jnp.int32(1), 512).compile().compiled.memory_analysis()
            )
            table[name][steps] = plan.temp_size_in_bytes
        print(f"{name:<14}" + "".join(f"  D = {d}: {size / 2**20:8.2f} MiB" for d, size in table[name].items()))
    return table


def compilation(rounds: int = 5) -> dict:
    """Seconds to trace and compile the demo's step, every time from nothing."""
    train, noisy, validation = data()
    problem = cleaning_problem(train, noisy, validation, 1e-3)
    x, y = jnp.zeros(len(train.labels)), jnp.zeros((len(noisy), 64, 10))
    seconds = {"trace": [], "compile": []}
    for _ in range(rounds):
        jax.clear_caches()
        algorithm = bp.wc_mhgd(np.ones(len(noisy)), 3000.0, 2.0, 50, bp.CG(10))
        oracles, state = start(problem, algorithm, x, y)
        program = eqx.filter_jit(advance.__wrapped__)
        times = [time.perf_counter()]
        lowered = program.lower(algorithm, oracles, state, None, None, jnp.int32(1), 512)
        times.append(time.perf_counter())
        lowered.compile()
        times.append(time.perf_counter())
        seconds["trace"].append(times[1] - times[0])
        seconds["compile"].append(times[2] - times[1])
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    print(f"the demo's step: traced in {medians['trace']:.2f} s, compiled in {medians['compile']:.2f} s")
    return medians

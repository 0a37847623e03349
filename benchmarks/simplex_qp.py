"""Time of one `simplex_qp` inside a compiled program, by number of objectives and kind of problem.

Each figure is the median over problems and repetitions of a loop of solves, each of which depends on the one before,
divided by their number. Steps are the median number of pivots.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

from bipareto import simplex

SOLVES = {2: 1000, 5: 500, 10: 200, 20: 100, 50: 40, 100: 20}
PROBLEMS, REPETITIONS = 7, 5


def independent(rng, size):
    return rng.normal(size=(size, 2 * size)), np.zeros(size)


def correlated(rng, size):
    return rng.normal(size=(size, 2 * size)) + 2 * rng.normal(size=2 * size), np.zeros(size)


def with_linear(rng, size):
    return rng.normal(size=(size, 2 * size)), size * rng.normal(size=size)


def singular(rng, size):
    return rng.normal(size=(size, max(1, size // 3))), 0.1 * rng.normal(size=size)


def stationary(rng, size):
    jacobian = rng.normal(size=(size, size + 2))
    return jacobian - rng.dirichlet(np.ones(size)) @ jacobian, np.zeros(size)


def spread(rng, size):
    return rng.normal(size=(size, size + 2)) * 10 ** rng.uniform(-3, 3, (size, 1)), np.zeros(size)


FAMILIES = [independent, correlated, with_linear, singular, stationary, spread]


def chained(gram, linear, solves):
    def solve_again(_, weights):
        return simplex.simplex_qp(gram * (1 + 1e-3 * weights[0]), linear)

    return jax.lax.fori_loop(0, solves, solve_again, linear)


@jax.jit
def steps_needed(gram, linear):
    problem = simplex._normalised(gram, linear)
    state = simplex._restarted(problem, simplex._started(problem))
    return jax.lax.while_loop(
        lambda s: s.running & (s.steps < 10 * linear.size + 40), lambda s: simplex._step(problem, s), state
    ).steps


def timed(run, family, size, solves):
    """Microseconds and steps of one solve: medians over problems and repetitions."""
    rng, times, steps = np.random.default_rng(size), [], []
    for _ in range(PROBLEMS):
        jacobian, linear = family(rng, size)
        problem = jnp.asarray(jacobian @ jacobian.T), jnp.asarray(linear)
        steps.append(int(steps_needed(*problem)))
        run(*problem).block_until_ready()
        for _ in range(REPETITIONS):
            begin = time.perf_counter()
            run(*problem).block_until_ready()
            times.append((time.perf_counter() - begin) / solves)
    return 1e6 * float(np.median(times)), int(np.median(steps))


def run() -> dict:
    print("microseconds per solve in float64 (steps)")
    print(f"{'S':>4} {'compile':>8} " + " ".join(f"{family.__name__:>18}" for family in FAMILIES))
    table = {}
    with jax.enable_x64(True):
        for size, solves in SOLVES.items():
            example = jnp.eye(size), jnp.zeros(size)
            begin = time.perf_counter()
            jax.jit(simplex.simplex_qp).lower(*example).compile()
            compile_time = time.perf_counter() - begin
            program = jax.jit(chained, static_argnums=2).lower(*example, solves).compile()
            cells = {family.__name__: timed(program, family, size, solves) for family in FAMILIES}
            table[size] = {
                "compile_seconds": compile_time,
                "microseconds": {name: cell[0] for name, cell in cells.items()},
            }
            row = " ".join(f"{time:>11.1f} {f'({steps})':>6}" for time, steps in cells.values())
            print(f"{size:>4} {compile_time:>6.2f} s {row}", flush=True)
    return table


if __name__ == "__main__":
    run()

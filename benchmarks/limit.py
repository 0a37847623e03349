"""How close the oracles of hyper-cleaning come to what one core (or one GPU) can do, measured in the same process.

Least work by hand, with n images of d pixels, c classes and S tasks: a lower step, a product H v and a product J v are two
matrix products each, 4 n d c S FLOP, and must read the n d pixels once. The limit is the time of that work at the rate of a
large matrix product, or of its bytes at the rate of a copy of as many bytes, whichever is longer; "+ exp" adds the
exponentials of the softmax at their own rate.
Run with: python -m benchmarks limit
"""

import functools
import json
import os
import subprocess
import sys
import time
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import bipareto as bp
from benchmarks import measure
from benchmarks.simplex_qp import steps_needed
from bipareto.experiments.hyper_cleaning import Split, cleaning_problem, corrupted
from bipareto.oracles import bind
from bipareto.solver import advance, start

CLASSES = 10
FEWEST, SHORTEST = 16, 0.05  # a chain's length and seconds: dispatch and the first touch of its memory must not count


class Shape(NamedTuple):
    samples: int
    pixels: int
    lower_steps: int
    cg_steps: int


SHAPES = {
    "digits": Shape(1000, 64, 50, 10),
    "MNIST, batch of 1,000": Shape(1000, 784, 50, 10),
    "MNIST, 20,000 images": Shape(20_000, 784, 5, 3),
}


def cleaning(tasks: int, samples: int, pixels: int):
    """Hyper-cleaning on random pixels: only the shapes matter for time. Problem, x and y."""
    rng = np.random.default_rng(0)

    def part(count):
        images = rng.normal(size=(count, pixels)) / np.sqrt(pixels)  # rows of length 1: a lower step size of S is stable
        return Split(images.astype(np.float32), rng.integers(0, CLASSES, count).astype(np.int32))

    train, validation = part(samples), part(max(samples // 4, 1))
    noisy = corrupted(train.labels, tuple(np.linspace(0, 0.6, tasks)), CLASSES, 0)
    x, y = jnp.zeros(samples), 0.01 * jnp.ones((tasks, pixels, CLASSES))
    return cleaning_problem(train, noisy, validation, 1e-3), x, y


@eqx.filter_jit
def _chain(prepare, body, fixed, carry, count, unroll: int):
    ready = prepare(fixed)

    def several(_, carry):
        for _ in range(unroll):
            carry = body(ready, carry)
        return carry

    return jax.lax.fori_loop(0, count, several, carry)


def itself(fixed):
    return fixed


def seconds(body, fixed, carry, prepare=itself, unroll: int = 1) -> float:
    """Median time of one `body(prepare(fixed), carry) -> carry` in a compiled chain, each depending on the one before.

    `prepare` runs once, before the chain.
    """

    def timed(count):
        began = time.perf_counter()
        jax.block_until_ready(_chain(prepare, body, fixed, carry, jnp.int32(count), unroll))
        return time.perf_counter() - began

    count = FEWEST
    timed(count)
    while timed(count) < SHORTEST:
        count *= 2
    return float(np.median([timed(count) for _ in range(5)])) / (count * unroll)


def as_the_library() -> int:
    """How its lower steps are unrolled: several share one launch on a GPU."""
    return 1 if jax.default_backend() == "cpu" else 8


@functools.cache
def copy_rate(size: int) -> float:
    """Bytes per second, read and written, of an array of `size` bytes (on a GPU of 256 MiB at least: a launch costs)."""
    size = size if jax.default_backend() == "cpu" else max(size, 2**28)
    return 2 * size / seconds(lambda _, a: a + 1, None, jnp.zeros(size // 4))


def rates() -> dict:
    """Of this machine: a large matrix product, a large copy, and exponentials in cache."""
    gpu = jax.default_backend() != "cpu"
    side, size, count = (8192, 2**30, 2**24) if gpu else (1024, 2**27, 50_000)
    square = jax.random.normal(jax.random.key(0), (side, side)) / np.sqrt(side)
    return {
        "flops": 2 * side**3 / seconds(lambda b, a: a @ b, square, square),
        "copied_bytes": copy_rate(size),
        "exponentials": count / seconds(lambda _, a: jnp.exp(-a), None, jnp.ones(count)),
    }


def bodies(problem, x, y):
    """name -> the arguments of `seconds`: every part changes all it depends on, so that nothing moves out of the loop."""
    oracles = bind(problem, x, y)
    flat = oracles.y_layout.flatten(y)

    def linearised(point):
        oracles, x, y = point
        return eqx.filter_closure_convert(oracles.hessian(x, y), y)

    def lower_step(oracles, carry):
        x, y = carry
        return x, y - 0.1 * len(y) * oracles.lower_gradient(x, y)

    def hessian_product(product, v):
        return v + 1e-3 * (1 - product(v))

    def cross_product(oracles, carry):
        x, y, v = carry
        slopes = oracles.cross(x, y, v)
        nudge = 1e-6 * jnp.sum(slopes)
        return x + 1e-6 * slopes[0], y + nudge, v + nudge

    return {
        "lower step": (lower_step, oracles, (x, flat), itself),
        "product H v": (hessian_product, (oracles, x, flat), flat, linearised),
        "product J v": (cross_product, oracles, (x, flat, jnp.ones_like(flat)), itself),
    }


def least(shape: Shape, tasks: int) -> dict[str, tuple[float, float, float]]:
    """FLOP, bytes and exponentials of each part by hand: every operand read once, every result written once."""
    n, d, c = shape.samples, shape.pixels, CLASSES
    flops, images, model, scores = 4.0 * n * d * c * tasks, 4 * n * d, 4 * tasks * d * c, tasks * n * c
    labels = 4 * n * (tasks + 1)  # and the weights of the images
    return {
        "lower step": (flops, images + labels + 2 * model, scores),
        "product H v": (flops, images + 4 * scores + 2 * model, 0),
        "product J v": (flops, images + labels + 2 * model + 4 * n * tasks, scores),
    }


def xla_counts(body, ready, carry) -> dict:
    """On a CPU: a GPU's compiler does not look into the library calls that it makes of products."""
    program = eqx.filter_jit(body).lower(ready, carry)  # pyright: ignore[reportFunctionMemberAccess]
    return program.compile().compiled.cost_analysis() or {}


def parts(shape: Shape, tasks: int, rate: dict) -> dict:
    """Time, counts by hand and by XLA, and percentage of the limit, for every part."""
    problem, x, y = cleaning(tasks, shape.samples, shape.pixels)
    work = least(shape, tasks)
    table, chains, unroll = {}, bodies(problem, x, y), as_the_library()
    measure.warm(*(functools.partial(_chain, p, b, f, c, jnp.int32(1), unroll) for b, f, c, p in chains.values()))
    for name, (body, fixed, carry, prepare) in chains.items():
        flops, size, exponentials = work[name]
        took = seconds(body, fixed, carry, prepare, unroll)
        compiled = xla_counts(body, prepare(fixed), carry) if jax.default_backend() == "cpu" else {}
        ideal = {"matmul": flops / rate["flops"], "copy": size / copy_rate(int(size))}
        whole = max(ideal.values())
        table[name] = {
            "microseconds": 1e6 * took,
            "flop": {"by_hand": flops, "xla": compiled.get("flops")},
            "bytes": {"by_hand": size, "xla": compiled.get("bytes accessed")},
            "exponentials": {"by_hand": exponentials, "xla": compiled.get("transcendentals")},
            "percent_of_limit": 100 * whole / took,
            "percent_with_exponentials": 100 * (whole + exponentials / rate["exponentials"]) / took,
            "bound_by": max(ideal, key=lambda roof: ideal[roof]),
        }
    return table


def quadratic_program(tasks: int, rate: dict) -> dict:
    """By hand: each pivot at least forms one gradient and updates one factor, 4 S^2 FLOP."""
    jacobian = jax.random.normal(jax.random.key(0), (tasks, 2 * tasks))
    gram, linear = jacobian @ jacobian.T, jnp.zeros(tasks)
    took = seconds(lambda g, weights: bp.simplex_qp(g * (1 + 1e-3 * weights[0])), gram, jnp.ones(tasks) / tasks)
    pivots = int(steps_needed(gram, linear))
    flops = 4.0 * tasks**2 * pivots
    percent = 100 * flops / rate["flops"] / took
    return {"microseconds": 1e6 * took, "pivots": pivots, "flop": flops, "percent_of_limit": percent}


def upper_steps(shape: Shape, rounds: int = 5) -> dict:
    """Milliseconds of a whole upper step for S = 1 and S = 5, interleaved, and their ratio."""
    steps, calls = max(1, 4000 // shape.samples), {}
    for tasks in (1, 5):
        problem, x, y = cleaning(tasks, shape.samples, shape.pixels)
        algorithm = bp.mgda(1.0, float(tasks), shape.lower_steps, bp.CG(shape.cg_steps))
        oracles, state = start(problem, algorithm, x, y)
        calls[f"S = {tasks}"] = lambda a=algorithm, o=oracles, s=state: advance(a, o, s, None, None, jnp.int32(steps), 512)
    measure.warm(*calls.values())
    if any(int(call()[3]) != steps for call in calls.values()):
        raise RuntimeError("an upper step failed: its time would mean nothing")
    times = measure.interleaved(calls, rounds)
    ratios = np.percentile(times["S = 5"] / times["S = 1"], [25, 50, 75])
    milliseconds = {name: float(1e3 * np.median(values) / steps) for name, values in times.items()}
    return {"milliseconds": milliseconds, "ratio": float(ratios[1]), "quartiles": [float(ratios[0]), float(ratios[2])]}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # standard output is for the numbers


def measured() -> dict:
    rate = rates()
    speeds = (f"matmul {rate['flops'] / 1e9:.1f} GFLOP/s", f"copy {rate['copied_bytes'] / 1e9:.1f} GB/s")
    say(", ".join((*speeds, f"exp {rate['exponentials'] / 1e6:.0f} M/s")))
    qp = quadratic_program(5, rate)
    say(f"QP, S = 5: {qp['microseconds']:.1f} us, {qp['pivots']} pivots, {qp['percent_of_limit']:.2g} % of the limit")
    return {"rates": rate, "QP, S = 5": qp, "shapes": {name: at_shape(name, shape, rate) for name, shape in SHAPES.items()}}


def at_shape(name: str, shape: Shape, rate: dict) -> dict:
    say(f"{name}: {shape.samples} x {shape.pixels}")
    table = {f"S = {tasks}": parts(shape, tasks, rate) for tasks in (1, 5)}
    for key, rows in table.items():
        say(f"  {key}")
        for part, row in rows.items():
            more = {count: (row[count]["xla"] or np.nan) / row[count]["by_hand"] for count in ("flop", "bytes")}
            say(
                f"    {part:<12} {row['microseconds']:>8.0f} us, {row['percent_of_limit']:3.0f} % of the limit "
                f"({row['bound_by']}), {row['percent_with_exponentials']:3.0f} % + exp; "
                f"XLA counts {more['flop']:.2f} x the FLOP by hand, {more['bytes']:.1f} x the bytes"
            )
    whole: dict = upper_steps(shape) | {"least_ratio": least_ratio(table)}
    text = f"  upper step, S = 5 in steps of S = 1: {whole['ratio']:.2f}, of {whole['milliseconds']['S = 1']:.2f} ms"
    say(f"{text}; a lower step at the limit would make it {whole['least_ratio']:.2f}")
    return {"parts": table, "upper_step": whole}


def least_ratio(table: dict) -> float:
    """A lower step of S = 5 at the limit, against S = 1 as measured."""
    one, five = table["S = 1"]["lower step"], table["S = 5"]["lower step"]
    return five["percent_of_limit"] / 100 * five["microseconds"] / one["microseconds"]


def alone(cores: int) -> None:
    """The child's side of `run`."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    print(json.dumps(measured()))


def run() -> dict:
    """In a process of its own that sees one core only; beside a GPU all of them, which compile."""
    cores = 1 if jax.default_backend() == "cpu" else os.cpu_count()
    command = [sys.executable, "-c", f"from benchmarks.limit import alone; alone({cores})"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)

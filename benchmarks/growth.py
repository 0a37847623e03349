"""Time, memory and compile time of an upper step of hyper-cleaning against everything that can grow, one at a time.

Curves with exponents by least squares on logarithms, over all points and over the last three, where fixed costs weigh least.
Memory is what the compiler plans: arguments, results and temporaries of the compiled chunk. Runs are the mapped runs of
`explore`; devices are the host's cores, divided by force. Draws docs/growth-<device>.png.
Run with: python -m benchmarks growth
"""

import functools
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import bipareto as bp
from benchmarks import measure
from benchmarks.limit import CLASSES, cleaning
from bipareto.distributed import mesh
from bipareto.front import fleet
from bipareto.solver import advance, start

BASE = {"tasks": 5, "lower_steps": 20, "cg_steps": 10, "pixels": 32, "samples": 500, "runs": None}
SWEEPS = {
    "S": ("tasks", (1, 2, 5, 10, 20, 50)),
    "lower_steps": ("lower_steps", (5, 20, 80, 320)),
    "cg_steps": ("cg_steps", (5, 20, 80, 320)),
    "q": ("pixels", (8, 32, 128, 512)),
    "p": ("samples", (125, 500, 2000, 8000)),
    "runs": ("runs", (1, 4, 16, 64, 256)),
}
FEWER = {"S": (1, 5, 20, 50), "runs": (1, 16, 256)}  # on a GPU, where each program compiles for up to ten seconds
DEVICES, DEVICE_RUNS = (1, 2, 4), 32
ROUNDS, LONG_ENOUGH, MOST_STEPS = 5, 0.1, 50
AXES = {
    "S": "objectives S",
    "lower_steps": "lower steps",
    "cg_steps": "CG steps",
    "q": "q, lower variables per task",
    "p": "p, upper variables (training images)",
    "runs": "runs mapped together",
    "devices": f"devices for {DEVICE_RUNS} runs (memory of each)",
}
CURVES = {"milliseconds": ("time", "ms"), "mebibytes": ("memory", "MiB"), "compile_seconds": ("compiling", "s")}


class Point(NamedTuple):
    """A compiled chunk: `call(steps)` takes so many upper steps and says how many were taken."""

    call: Any
    mebibytes: float
    compile_seconds: float


@functools.cache  # the curves cross at the base point
def compiled(**settings: Any) -> Point:
    tasks = settings["tasks"]
    problem, x, y = cleaning(tasks, settings["samples"], settings["pixels"])
    algorithm = bp.wc_mhgd(np.ones(tasks), 1.0, float(tasks), settings["lower_steps"], bp.CG(settings["cg_steps"]))
    oracles, state = start(problem, algorithm, x, y)
    if settings["runs"] is None:
        program, done = advance, 3
        arguments = lambda steps: (algorithm, oracles, state, None, None, jnp.int32(steps), 512)  # noqa: E731
    else:
        program, done = fleet._advance_all, 2
        task = fleet.Task.of(algorithm, oracles, state, None, MOST_STEPS, mesh(None))
        rows = bp.preferences.dirichlet(np.ones(tasks), settings["runs"])
        ships = fleet.Fleet(task, [fleet.Run(i, row, None, state) for i, row in enumerate(rows)], len(rows))
        arguments = lambda steps: ships._arguments(np.full(len(rows), steps))  # noqa: E731
    chunk, seconds = _compiled(program, arguments(1))
    plan = chunk.compiled.memory_analysis()
    size = plan.temp_size_in_bytes + plan.argument_size_in_bytes + plan.output_size_in_bytes
    return Point(lambda steps: chunk(*arguments(steps))[done], size / 2**20, seconds)


def _compiled(program: Any, arguments: tuple) -> tuple[Any, float]:
    """The compiled program, and the least time to trace and compile it from nothing."""
    times, chunk = [], None
    for _ in range(2 if jax.default_backend() == "cpu" else 1):  # on a GPU it takes long, and varies little
        jax.clear_caches()
        fresh: Any = eqx.filter_jit(program.__wrapped__)
        began = time.perf_counter()
        chunk = fresh.lower(*arguments).compile()
        times.append(time.perf_counter() - began)
    return chunk, min(times)


def sweep(key: str, sizes: tuple[int, ...]) -> dict:
    """All sizes compiled, then timed in turn."""
    points = {size: compiled(**BASE | {key: size}) for size in sizes}
    steps = {}
    for size, point in points.items():
        jax.block_until_ready(point.call(1))
        began = time.perf_counter()
        jax.block_until_ready(point.call(1))
        steps[size] = int(np.clip(LONG_ENOUGH / (time.perf_counter() - began), 1, MOST_STEPS))
        if not bool(jnp.all(point.call(steps[size]) == steps[size])):
            raise RuntimeError(f"an upper step failed at {key} = {size}: its time would mean nothing")
    calls = {str(size): lambda p=point, n=steps[size]: p.call(n) for size, point in points.items()}
    times = measure.interleaved(calls, ROUNDS)
    milliseconds = {size: 1e3 * times[str(size)] / steps[size] for size in sizes}
    return {
        "size": [size * CLASSES if key == "pixels" else size for size in sizes],
        "milliseconds": [float(np.median(milliseconds[size])) for size in sizes],
        "quartiles": [np.percentile(milliseconds[size], [25, 75]).tolist() for size in sizes],
        "mebibytes": [points[size].mebibytes for size in sizes],
        "compile_seconds": [points[size].compile_seconds for size in sizes],
    }


def over_devices() -> dict:
    """One process per number of devices, since it is fixed when JAX starts."""
    rows = []
    for count in DEVICES:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}"
        code = f"import json; from benchmarks.growth import sweep; print(json.dumps(sweep('runs', ({DEVICE_RUNS},))))"
        environment = os.environ | {"XLA_FLAGS": flags}
        child = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(child.stdout))
    return {name: [row[name][0] for row in rows] for name in rows[0]} | {"size": list(DEVICES)}


def fitted(curve: dict) -> dict:
    """Exponents over all points and over the last three."""

    def slope(values, last):
        return float(np.polyfit(np.log(curve["size"][last:]), np.log(values[last:]), 1)[0])

    return {name: {"all": slope(curve[name], 0), "last_three": slope(curve[name], -3)} for name in CURVES}


def run() -> dict:
    results: dict[str, dict] = {"base": BASE | {"classes": CLASSES}}
    names = [*SWEEPS, "devices"] if jax.default_backend() == "cpu" else [*SWEEPS]
    for name in names:
        key, sizes = SWEEPS.get(name, ("", ()))
        sizes = sizes if jax.default_backend() == "cpu" else FEWER.get(name, sizes)
        curve = over_devices() if name == "devices" else sweep(key, sizes)
        results[name] = curve | {"exponents": fitted(curve)}
        for key, (label, unit) in CURVES.items():
            numbers = ", ".join(f"{value:.3g}" for value in curve[key])
            power = results[name]["exponents"][key]
            text = f"{name:<12} {curve['size']} {label} {numbers} {unit}"
            print(f"{text}; exponent {power['all']:.2f}, last three {power['last_three']:.2f}", flush=True)
    return results


def draw(results: dict, machine: dict) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(2, 4, figsize=(15, 7.2), layout="constrained")
    panels = list(grid.flat)
    for name, axes in zip(AXES, panels, strict=False):
        if name in results:
            _panel(axes, name, results[name])
    for axes in grid[:, 0]:
        axes.set_ylabel("growth, first point = 1")
    for axes in panels:
        if not axes.has_data():
            axes.axis("off")
    base = results["base"]
    text = (
        "One upper step of hyper-cleaning, float32.\n"
        f"Unless varied: S = {base['tasks']}, {base['lower_steps']} lower steps,\n"
        f"{base['cg_steps']} CG steps, q = {base['pixels'] * base['classes']}, p = {base['samples']}, one run.\n\n"
        "In the legends: value at the first point, and the\nexponent over all points (over the last three).\n\n"
        f"{machine['cpu']}, {machine['cores']} cores, device: {machine['device']},\nJAX {machine['jax']}, {machine['date']}"
    )
    panels[-1].text(0, 0.95, text, va="top", fontsize=10, transform=panels[-1].transAxes)
    file = pathlib.Path(__file__).parents[1] / "docs" / f"growth-{measure.file_name(machine)}.png"
    figure.savefig(file, dpi=110)
    print(f"written: {file}")


def _panel(axes, name: str, curve: dict) -> None:
    from matplotlib.ticker import LogLocator

    size = np.array(curve["size"])
    for (key, (label, unit)), colour, mark in zip(CURVES.items(), ("#0072B2", "#D55E00", "#009E73"), "os^", strict=True):
        values, power = np.array(curve[key]), curve["exponents"][key]
        text = f"{label}: {values[0]:.3g} {unit}, {power['all']:.2f} ({power['last_three']:.2f})"
        axes.loglog(size, values / values[0], color=colour, marker=mark, label=text)
    ideal, text = (size[0] / size, "inverse") if name == "devices" else (size / size[0], "proportional")
    axes.loglog(size, ideal, color="0.5", linewidth=0.8, linestyle=":", label=text)
    axes.set(xlabel=AXES[name])
    axes.set_xticks(size, [str(s) for s in size])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)

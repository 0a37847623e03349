"""How times are taken: rivals interleaved in one process, medians with their spread, the machine named."""

import os
import platform
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np


def machine() -> dict:
    """What the numbers were measured on."""
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        model = platform.processor()
    device = jax.devices()[0]
    return {
        "cpu": model or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "device": device.device_kind if device.platform != "cpu" else "cpu",
        "jax": jax.__version__,
        "python": platform.python_version(),
        "products": float32_products(),
        "date": time.strftime("%Y-%m-%d"),
    }


def float32_products() -> str:
    """How this device multiplies float32 matrices unless told otherwise: "full", or rounded to "TF32" first."""
    a, b = np.random.default_rng(0).normal(size=(2, 512, 512))
    exact = a.astype(np.float32).astype(float) @ b.astype(np.float32).astype(float)
    found = jnp.asarray(a, jnp.float32) @ jnp.asarray(b, jnp.float32)
    return "full" if np.linalg.norm(found - exact) < 1e-5 * np.linalg.norm(exact) else "TF32"


def warm(*calls: Callable[[], object]) -> None:
    """On an accelerator: each call once, all at a time, since compiling for it takes long and one core for each."""
    if jax.default_backend() != "cpu":
        with ThreadPoolExecutor() as pool:
            jax.block_until_ready([running.result() for running in [pool.submit(call) for call in calls]])


def interleaved(rivals: dict[str, Callable[[], object]], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of every call, each rival once per round, after one round that is not counted."""
    times = {name: [] for name in rivals}
    for count in range(rounds + 1):
        for name, call in rivals.items():
            began = time.perf_counter()
            jax.block_until_ready(call())
            if count:
                times[name].append(time.perf_counter() - began)
    return {name: np.array(values) for name, values in times.items()}


def spread(values: np.ndarray) -> str:
    """Median and quartiles, for people."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def file_name(machine: dict) -> str:
    """Of the results of this device."""
    return re.sub(r"\W+", "-", machine["device"].lower())

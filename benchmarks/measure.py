"""How times are taken: rivals interleaved in one process, medians with their spread, the machine named."""

import json
import os
import pathlib
import platform
import re
import time
from collections.abc import Callable

import jax
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
        "date": time.strftime("%Y-%m-%d"),
    }


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


def save(name: str, results: dict) -> None:
    """Write benchmarks/results/<name>-<device>.json."""
    here = machine()
    file = pathlib.Path(__file__).parent / "results" / f"{name}-{file_name(here)}.json"
    file.write_text(json.dumps({"machine": here} | results, indent=1) + "\n")
    print(f"written: {file}")

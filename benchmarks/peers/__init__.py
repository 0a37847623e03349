"""bipareto against JAXopt, PyTorch, TorchOpt, Betty and BOAT: one hypergradient and one upper step of the same mathematics.

A hypergradient is the lower steps from 0 and the Jacobian of all objectives after them. An upper step adds the weights and
the new x; no peer has such weights, so all use ours for that (microseconds). Arrays stay where they were made: on the GPU
where there is one. Products and convolutions of all are in full float32, without TF32.

On a CPU every race is a process of its own, whose libraries see as many cores as it is given. On a GPU cores do not matter,
and one process runs all races, since starting it and compiling take longer than the races.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jax

RACES = (("toy", 1), ("toy", 5), ("cleaning", 1), ("cleaning", 5), ("few_shot", 1), ("few_shot", 5))
ON_TWO_CORES = (("cleaning", 5), ("few_shot", 5))


def run() -> dict:
    if importlib.util.find_spec("torch") is None:
        raise RuntimeError("PyTorch, the reference, is not installed; install the extra `bench`")
    cores_here = len(os.sched_getaffinity(0))
    if jax.default_backend() != "cpu":
        return raced("cuda", cores_here, RACES)
    results = {}
    for cores, races in ((1, RACES), (2, ON_TWO_CORES)):
        for race in races if cores <= cores_here else ():
            results |= raced("cpu", cores, [race])
    return results


def raced(device, cores, races) -> dict:
    """Title -> results of races in one process; those it did not reach have failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "races.json")
        command = [sys.executable, "-m", "benchmarks.peers", str(file), device, str(cores)]
        command += [f"{case},{tasks}" for case, tasks in races]
        environment = os.environ | ({"JAX_PLATFORMS": "cpu"} if device == "cpu" else {})
        code = subprocess.run(command, check=False, env=environment).returncode
        found = json.loads(file.read_text()) if file.exists() else {}
    lost = {"failed": f"the process of this race ended with exit code {code}"}
    return {title: found.get(title, lost) for title in (title_of(device, cores, *race) for race in races)}


def title_of(device, cores, case, tasks) -> str:
    return f"{case}, S = {tasks}" + (f", cores = {cores}" if device == "cpu" else "")

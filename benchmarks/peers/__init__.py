"""bipareto against JAXopt, PyTorch, TorchOpt, Betty and BOAT: one hypergradient and one upper step of the same mathematics.

A hypergradient is the lower steps from 0 and the Jacobian of all objectives after them. An upper step adds the weights and
the new x; no peer has such weights, so all use ours for that (microseconds). Every race is a process of its own, whose
libraries see as many cores as it is given and no accelerator.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

RACES = (
    ("toy", 1, 1),
    ("cleaning", 1, 1),
    ("cleaning", 5, 1),
    ("few_shot", 1, 1),
    ("few_shot", 5, 1),
    ("cleaning", 5, 2),
    ("few_shot", 5, 2),
)


def run() -> dict:
    results = {}
    for case, tasks, cores in RACES:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "race.json")
            command = [sys.executable, "-m", "benchmarks.peers", case, str(tasks), str(cores), str(file)]
            subprocess.run(command, check=True, env=os.environ | {"JAX_PLATFORMS": "cpu"})
            results[f"{case}, S = {tasks}, cores = {cores}"] = json.loads(file.read_text())
    return results

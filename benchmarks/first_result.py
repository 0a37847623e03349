"""How long `make demo` takes, once installed, until it has something to show: a fresh process, nothing compiled before."""

import os
import subprocess
import sys
import tempfile
import time

FIRST, LAST_OF_TABLE = "  0% wrong", "no preference"  # progress is indented, the table is not


def run(steps: int = 200) -> dict:
    """Seconds until the first run is done, and until the table of all runs is printed."""
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    environment["PYTHONUNBUFFERED"] = "1"
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bipareto.experiments.demo", "--out", folder, "--steps", str(steps)]
        began = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as demo:
            for line in demo.stdout or ():
                if line.startswith(FIRST):
                    seconds.setdefault("first run", time.perf_counter() - began)
                elif line.startswith(LAST_OF_TABLE):
                    seconds["table"] = time.perf_counter() - began
                    demo.kill()  # figure and report are not timed
                    break
    if set(seconds) != {"first run", "table"}:
        raise RuntimeError(f"the demo ended before its table, with exit code {demo.returncode}")
    print(f"first run after {seconds['first run']:.1f} s, table after {seconds['table']:.1f} s")
    return {"seconds": seconds, "steps": steps}

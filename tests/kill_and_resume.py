"""Kill a small exploration with SIGKILL at random moments, resume it, compare the bits; prints what happened as JSON.

JAX is imported once and its backend started in every fork, so that a trial takes about a second.
"""

import hashlib
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import bipareto as bp


def configure(folder):
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def explore(directory):
    goals = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    problem = bp.Problem(
        lambda x, y: jnp.sum((y - goals) ** 2, axis=1) + 0.1 * jnp.sum(x**2), lambda x, y: jnp.sum((y - x) ** 2)
    )
    # The weighting that is compiled and traced fastest: a life's time is for steps and files.
    algorithm = bp.HypergradientDescent(bp.GradientDescent(0.2, 3), bp.CG(2), bp.SmoothChebyshev([0.5, 0.5]), 0.01)
    preferences = np.array([[0.5, 0.5], [0.8, 0.2], [0.2, 0.8]])
    options = {"batch": 2, "directory": directory, "resume": True, "save_every": 0.0}
    return bp.explore(problem, algorithm, preferences, jnp.ones(2), jnp.ones(2), 1000, **options)


def digest(front):
    total = hashlib.sha256(front.preferences.tobytes())
    for run in itertools.chain(*front.solutions):
        for leaf in jax.tree.leaves((run.x, run.y, run.values, run.history)):
            total.update(np.asarray(leaf).tobytes())
        total.update(run.message.encode())
    return total.hexdigest()


def child(directory, log):
    """One life of the run: its digest, or why it could not go on, in `log`."""
    try:
        text = digest(explore(directory))
    except BaseException as error:
        text = f"error {type(error).__name__}: {error}"
    log.write_text(text)
    os._exit(0)


def life(directory, log, until):
    """Let a child run for at most `until` seconds; what it wrote, or None where it was killed."""
    log.unlink(missing_ok=True)
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        child(directory, log)
    while time.perf_counter() - began < until:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return log.read_text(), time.perf_counter() - began
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None, until


def main(folder, kills, seed):
    configure(folder)
    rng = random.Random(seed)
    log, directory = folder / "log", folder / "run"
    life(folder / "first", log, 300)
    expected, usual = life(folder / "second", log, 300)
    happened = {"kills": 0, "ended": 0, "same": 0, "errors": [], "records_seen": 0}
    while happened["kills"] < kills:
        text, _ = life(directory, log, rng.uniform(0.05, 1.1 * usual))
        if text is None:
            happened["kills"] += 1
            happened["records_seen"] += (directory / "records.jsonl").exists()
            continue
        happened["ended"] += 1
        happened["same"] += text == expected
        if text.startswith("error"):
            happened["errors"].append(text)
        shutil.rmtree(directory)
    print(json.dumps(happened))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

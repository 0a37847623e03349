"""Many preferences and seeds as one program: every run is a row of a mapped `solve`."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from bipareto import preferences as preference_sets
from bipareto.distributed import agree, mesh
from bipareto.errors import flag, message, positive_number, positive_vector, whole_number
from bipareto.front.fleet import Fleet, Task
from bipareto.front.front import Front, Recipe, checked_names
from bipareto.front.plan import Plan, seed_keys
from bipareto.problem import Problem, SeparableProblem
from bipareto.progress import Progress, Show
from bipareto.solver import Algorithm, start
from bipareto.solver.saving import Saver, run_settings, solutions_from, solutions_part


def explore(
    problem: Problem | SeparableProblem,
    algorithm: Algorithm,
    preferences: Any,
    x0: PyTree,
    y0: PyTree,
    steps: int = 500,
    *,
    seeds: int = 1,
    key: Any = None,
    tolerance: float | None = None,
    continuation: bool = False,
    refine: int = 0,
    names: Sequence[str] | None = None,
    batch: int | None = None,
    devices: Sequence[Any] | None = None,
    progress: Show = None,
    directory: Any = None,
    resume: bool = False,
    save_every: float = 30.0,
) -> Front:
    """Solve for every preference [P, S] and seed, mapped into one compiled program; equal to as many calls of `solve`.

    `algorithm` holds the settings; its own preference is replaced. `preferences`: rows, or a number for so many of
    `preferences.evenly`; None for algorithms that take none. `seeds`: runs per preference for algorithms that draw batches,
    seed i with `jax.random.fold_in(key, i)`. A run that fails is marked in `Front.status` and does not disturb the others.

    `continuation`: visit the preferences along a nearest-neighbour tour, each run from where the one before ended. `refine`:
    so many preferences more, each in the largest gap of the front at that time. `names`: of the objectives.

    `devices`: those to divide the runs over (None: all, of all processes). `batch`: how many runs to map at once (None: as
    many as fit the memory). `progress`, `directory`, `resume`, `save_every`: as in `solve`.
    """
    steps = whole_number("steps", steps, "pass the number of upper steps")
    seeds = whole_number("seeds", seeds, "pass the number of runs per preference")
    remedy = "pass the largest acceptable gap such as 1e-8, or None"
    limit = None if tolerance is None else positive_number("tolerance", tolerance, remedy)
    if not isinstance(algorithm, Algorithm):
        raise TypeError(message("algorithm", "be an algorithm", repr(algorithm), "build one with bp.wc_mhgd(...)"))
    if batch is not None:
        batch = whole_number("batch", batch, "pass how many runs to map at once, or None")
    if seeds > 1 and key is None:
        rule = "be given for more than one seed"
        raise ValueError(message("key", rule, None, "pass key=jax.random.key(0), or seeds=1 for a deterministic algorithm"))
    oracles, state = start(problem, algorithm, x0, y0, key)
    rows = _rows(algorithm, preferences, oracles.objectives)
    names = None if names is None else checked_names(names, oracles.objectives)
    plan = Plan(algorithm, oracles, state, rows, seed_keys(key, seeds), *_order(algorithm, continuation, refine))
    task = Task.of(algorithm, oracles, state, limit, steps, mesh(devices))

    def settings():
        first = algorithm if rows[0] is None else algorithm.prefer(rows[0])
        wanted = {"preferences": None if rows[0] is None else np.stack(rows), "seeds": seeds, "batch": batch}
        wanted |= {"continuation": continuation, "refine": refine, "steps": steps, "tolerance": limit}
        return run_settings(problem, first, oracles, state, key, **wanted)

    with Saver(directory, resume, save_every, settings) as saver, Progress(plan.total * steps, progress, "steps") as line:
        _make(plan, task, saver, line, batch)
    table = None if rows[0] is None else np.stack(plan.rows)
    return Front(table, plan.grid(), algorithm.reference, names, Recipe(problem, algorithm, steps, key, limit))


def _make(plan: Plan, task: Task, saver: Saver, line: Progress, batch: int | None) -> None:
    """All runs of the plan, in batches."""
    width = saver.width(plan.together) or _width(plan, task, batch)
    number = 0
    while runs := plan.next(width):
        fleet = Fleet(task, runs, _divisible(min(width, plan.together), task))
        found = saver.result(number)
        if found is not None:
            solutions = solutions_from(found, plan.oracles, plan.state, fleet.histories(saver), fleet.methods)
        else:
            _sail(fleet, plan, saver, line, number, width)
            solutions = fleet.solutions()
            saver.finish(number, lambda s=solutions: solutions_part(s, plan.oracles, width=width), solutions)
        plan.take(runs, solutions)
        number += 1


def _sail(fleet: Fleet, plan: Plan, saver: Saver, line: Progress, number: int, width: int) -> None:
    """One batch to its end."""
    if (found := saver.checkpoint(number)) is not None:
        fleet.restore(found, saver)
    steps = fleet.task.steps
    while (active := fleet.active).any():
        fleet.advance()
        for i in np.flatnonzero(active):
            saver.records(fleet.runs[i].number, int(fleet.done[i]), fleet.records[i][-1])
        ended = len(plan.solutions) + int((~fleet.active).sum())
        done = len(plan.solutions) * steps + int(np.where(fleet.active, fleet.done, steps).sum())
        line(done, fleet.rows, (ended, plan.total))
        saver.chunk(number, lambda: fleet.snapshot(width=width))


def _rows(algorithm: Algorithm, preferences: Any, objectives: int) -> list[Any]:
    """One preference per row, or [None] for none."""
    takes = algorithm.takes_preference
    if preferences is None:
        if takes:
            remedy = "pass bp.preferences.focused(S), or explore with bp.mgda(...)"
            raise ValueError(message("preferences", "be given for an algorithm that follows one", None, remedy))
        return [None]
    if not takes:
        remedy = "pass preferences=None, or use bp.wc_mhgd(...)"
        raise ValueError(message("preferences", "be None for an algorithm that takes no preference", "preferences", remedy))
    if isinstance(preferences, int):
        preferences = preference_sets.evenly(objectives, preferences)
    table = np.asarray(preferences, float)
    if table.ndim != 2 or table.shape[1] != objectives or not len(table):
        rule = f"be [P, S] with S = {objectives} objectives"
        raise ValueError(message("preferences", rule, f"shape {table.shape}", "see bp.preferences"))
    return [positive_vector(f"preferences[{i}]", row, "see bp.preferences") for i, row in enumerate(table)]


def _order(algorithm: Algorithm, continuation: Any, refine: Any) -> tuple[bool, int]:
    continuation = flag("continuation", continuation)
    refine = whole_number("refine", refine, "pass how many preferences to add, or 0", least=0)
    if (continuation or refine) and not algorithm.takes_preference:
        name, default = ("continuation", False) if continuation else ("refine", 0)
        rule = f"be {default} for an algorithm that takes no preference"
        raise ValueError(message(name, rule, continuation or refine, "use bp.wc_mhgd(...)"))
    return continuation, refine


def _divisible(count: int, task: Task) -> int:
    """Rounded up so that every device gets as many runs."""
    devices = 1 if task.devices is None else task.devices.size
    return -(-count // devices) * devices


def _width(plan: Plan, task: Task, batch: int | None) -> int:
    """How many runs to map at once: what was asked for, or what fits three quarters of the free memory."""
    most = plan.together
    if batch is not None:
        return min(batch, most)
    if task.size == 1:  # convolutions on a CPU are slower mapped than one by one
        return min(_divisible(1, task), most)
    fleet = Fleet(task, plan.next(most), _divisible(most, task))
    devices = 1 if task.devices is None else task.devices.size
    fits = int(0.75 * _free_memory() * devices / max(fleet.bytes_per_run(), 1))
    (short,) = agree(max(0.0, float(most - fits)))
    return max(1, most - int(short))


def _free_memory() -> float:
    """Bytes free for one device; a CPU's forced devices share theirs."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats["bytes_in_use"]
    table = pathlib.Path("/proc/meminfo")
    if table.exists():
        lines = dict(line.split(":") for line in table.read_text().splitlines())
        return 1024 * float(lines["MemAvailable"].split()[0]) / jax.local_device_count()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2 / jax.local_device_count()

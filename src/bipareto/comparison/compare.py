"""`compare`: several methods on one problem, with the same budget, the same grid of step sizes and the same judge."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from bipareto.comparison.judge import Judge, Judged
from bipareto.comparison.race import Budget, race
from bipareto.comparison.result import Comparison, Run, score
from bipareto.errors import message, one_of, positive_number, positive_vector, reference_point, whole_number
from bipareto.front.front import checked_names
from bipareto.front.plan import seed_keys
from bipareto.lower import GradientDescent
from bipareto.oracles import Oracles
from bipareto.problem import Problem, SeparableProblem
from bipareto.solver import Algorithm, start
from bipareto.store import describe

Build = Callable[[float, Any], Algorithm]


class Field(NamedTuple):
    """What all runs of a comparison share; `line(text)` shows progress."""

    oracles: Oracles
    x: Any
    y: Any
    budget: Budget
    judge: Judge
    before: Judged
    measure: Callable[[PyTree, PyTree], dict] | None
    line: Callable[[str], None]


def compare(
    problem: Problem | SeparableProblem,
    methods: Mapping[str, Build],
    x0: PyTree,
    y0: PyTree,
    *,
    budget: float,
    step_sizes: Sequence[float] | Mapping[str, float],
    judge: GradientDescent,
    unit: str = "calls",
    preferences: Any = None,
    reference: Any = None,
    seeds: int = 1,
    key: Any = None,
    points: int = 20,
    names: Sequence[str] | None = None,
    measure: Callable[[PyTree, PyTree], dict] | None = None,
    facts: dict | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Run every method from (x0, y0) until its `budget` of oracle calls (or of seconds, `unit="seconds"`) is spent.

    `methods`: name -> `build(step_size, preference)`. A method that changes with the preference (also one that uses it as
    fixed weights) makes one run per row of `preferences` [P, S], another makes one: each run has the whole budget. Where any
    method draws batches all calls are counted in samples.

    `step_sizes`: a grid, the same for all methods. On a seed of its own each takes the one with the largest hypervolume;
    its runs count afterwards. A mapping name -> step size (`Comparison.chosen` of an earlier one) skips the choice.

    `judge`: the lower solver with which the true values and the exact stationarity gap are taken, `points` times per run and
    outside the budget (see `Judge`). `reference`: the corner of the hypervolume, by default the true values at the start.
    `measure(x, y)`: more numbers [S] of a run's end, by name, at the judge's y. `seeds`: as in `explore`. `facts`: what
    else to keep with the result (JSON).
    """
    spend = positive_number("budget", budget, "pass how many oracle calls, or seconds, each run may spend")
    points = whole_number("points", points, "pass how often to judge each run")
    keys = seed_keys(key, whole_number("seeds", seeds, "pass how often to repeat each run"))
    if len(keys) > 1 and key is None:
        raise ValueError(message("key", "be given for more than one seed", None, "pass key=jax.random.key(0), or seeds=1"))
    built = _built(methods, _grid(step_sizes, methods), preferences)
    every = [algorithm for table in built.values() for row in table.values() for algorithm in row]
    starts = [start(problem, algorithm, x0, y0, key) for algorithm in every]
    oracles, state = starts[0]
    count = oracles.objectives
    names = checked_names(names or [f"phi_{s + 1}" for s in range(count)], count)
    corner = None if reference is None else reference_point(reference, count)
    paid = Budget(float(spend), one_of("unit", unit, ("calls", "seconds")), points, any(a.draws for a in every))
    judging = Judge(judge)
    before = judging(oracles, state.x, state.y)
    if not before.finite:
        remedy = "lower its step size, or look at the losses at x0"
        raise ValueError(message("judge", "find finite values at the start", before.values, remedy))
    corner = before.values if corner is None else corner
    line = _line if (sys.stderr.isatty() if progress is None else progress) else lambda text: None
    field = Field(oracles, state.x, state.y, paid, judging, before, measure, line)
    tuned = {name: _scores(field, name, table, corner, key, len(keys)) for name, table in built.items()}
    chosen = {name: max(found, key=lambda size, f=found: f[size], default=min(built[name])) for name, found in tuned.items()}
    runs = [
        run
        for name, size in chosen.items()
        for seed, each in enumerate(keys)
        for run in _runs(field, name, size, built[name][size], each, seed)
    ]
    rows = None if preferences is None else np.asarray(preferences, float)
    volumes = {name: {size: found[0] for size, found in table.items()} for name, table in tuned.items()}
    start_values, corners = (np.tile(values, (len(keys), 1)) for values in (before.values, corner))
    return Comparison(names, rows, paid._asdict(), chosen, volumes, start_values, corners, runs, facts or {})


def _scores(field: Field, name: str, table: dict, corner: np.ndarray, key: Any, seeds: int) -> dict[float, tuple]:
    """How well a method does with each of its step sizes, on the seed after those that count; empty without a choice."""
    trial = None if key is None else jax.random.fold_in(key, seeds)
    sizes = table if len(table) > 1 else {}
    return {size: score(_runs(field, name, size, row, trial, -1), corner) for size, row in sizes.items()}


def _line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _runs(field: Field, name: str, size: float, row: list[Algorithm], key: Any, seed: int) -> list[Run]:
    """A method with one step size, for every preference."""
    found = []
    for number, algorithm in enumerate(row):
        state = algorithm.init(field.oracles, field.x, field.y, key)
        budget = field.budget if seed >= 0 else field.budget._replace(points=1)
        track, x, y = race(algorithm, field.oracles, state, key, budget, field.judge, field.before)
        layouts = field.oracles.x_layout, field.oracles.y_layout
        ended = [layout.unflatten(flat) for layout, flat in zip(layouts, (x, y), strict=True)]
        more = {} if field.measure is None or seed < 0 else field.measure(*ended)
        measures = {label: np.asarray(values, float) for label, values in more.items()}
        preference = number if len(row) > 1 else None
        found.append(Run(name, size, seed, preference, track, measures))
        values = " ".join(f"{value:.4g}" for value in track.values[-1][:8])
        when = "choosing the step size" if seed < 0 else f"seed {seed}"
        which = "" if preference is None else f", preference {number + 1}/{len(row)}"
        field.line(
            f"{name}, step size {size:g}, {when}{which}: {track.status.name} after {track.steps[-1]} steps,"
            f" {track.seconds[-1]:.1f} s, gap {track.gap[-1]:.2e}, values {values}"
        )
    return found


def _grid(step_sizes: Any, methods: Any) -> dict[str, list[float]]:
    """The step sizes of every method."""
    remedy = "pass a grid such as (0.01, 0.1, 1.0), or a table of one per method"
    if not isinstance(methods, Mapping) or not methods:
        found = repr(methods)
        raise TypeError(message("methods", "map names to build(step_size, preference)", found, "see bp.compare"))
    if isinstance(step_sizes, Mapping):
        if sorted(step_sizes) != sorted(methods):
            raise ValueError(message("step_sizes", f"name {sorted(methods)}", sorted(step_sizes), remedy))
        return {name: [float(positive_number(f"step_sizes[{name}]", step_sizes[name], remedy))] for name in methods}
    if isinstance(step_sizes, str) or not isinstance(step_sizes, Sequence) or not len(step_sizes):
        raise TypeError(message("step_sizes", "be a grid of numbers", repr(step_sizes), remedy))
    sizes = [float(positive_number(f"step_sizes[{i}]", size, remedy)) for i, size in enumerate(step_sizes)]
    if len(set(sizes)) < len(sizes):
        raise ValueError(message("step_sizes", "be different", sizes, remedy))
    return dict.fromkeys(methods, sizes)


def _built(methods: Mapping[str, Build], grid: dict, preferences: Any) -> dict[str, dict[float, list[Algorithm]]]:
    """Every algorithm of the comparison: name -> step size -> one per preference, or one where it makes no difference."""
    given = [] if preferences is None else np.asarray(preferences, float)
    rows = [positive_vector(f"preferences[{i}]", row, "see bp.preferences") for i, row in enumerate(given)] or [None]
    return {
        name: {size: _per_preference(name, [build(size, row) for row in rows]) for size in grid[name]}
        for name, build in methods.items()
    }


def _per_preference(name: str, row: list[Any]) -> list[Algorithm]:
    for algorithm in row:
        if not isinstance(algorithm, Algorithm):
            remedy = "return bp.wc_mhgd(preference, step_size, ...) or another algorithm"
            raise TypeError(message(f"methods[{name}]", "build an algorithm", repr(algorithm), remedy))
    told = [describe("", algorithm) for algorithm in row]
    return row if any(other != told[0] for other in told) else row[:1]

"""The paper's comparisons with other methods: the same data, the same budget, the same grid of step sizes, saved per seed.

Every run may spend as many oracle calls as WC-MHGD does in the paper's K steps. Lower level, batches and series are those of
the experiment for all methods that have them; single loops take the larger step `eta` on the lower level, for they take only
one of each. Methods that minimise a fixed combination (ITD, stocBiO, AmIGO, SOBA) get the preferences as its weights.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import optax

from bipareto import preferences
from bipareto.algorithms import amigo, forum, gmoba, itd, mgda, moco, moml, soba, stocbio
from bipareto.comparison import Comparison, compare
from bipareto.errors import message
from bipareto.experiments import hyper_cleaning, meta_learning
from bipareto.experiments.studies import EXPERIMENTS
from bipareto.hypergradient import AdjointDescent, StochasticNeumann, Unrolled
from bipareto.lower import Decaying, GradientDescent
from bipareto.sampling import Batches
from bipareto.solver import solve
from bipareto.store import difference


def cleaning_methods(settings: hyper_cleaning.Settings) -> dict[str, Callable]:
    """Stochastic methods, on the batches of the experiment."""
    s = settings
    series = StochasticNeumann(s.neumann_terms, s.neumann_step_size, s.neumann_batch)
    batches, once = Batches(s.lower_batch, s.upper_batch, s.cross_batch), Batches(None, s.upper_batch, s.cross_batch)
    lower = (s.lower_step_size, s.lower_steps, series, batches)
    adjoint = AdjointDescent(10, s.neumann_step_size, s.neumann_batch)
    return {
        "WC-MHGD": lambda b, r: hyper_cleaning.algorithm(dataclasses.replace(s, step_size=b), r),
        "MoCo": lambda b, r: moco(b, *lower),
        "MGDA": lambda b, r: mgda(b, *lower),
        "stocBiO": lambda b, r: stocbio(r, b, *lower),
        "AmIGO": lambda b, r: amigo(r, b, s.lower_step_size, 10, adjoint, batches),
        "SOBA": lambda b, r: soba(r, Decaying(b), Decaying(s.neumann_step_size), batches=once),
        "gMOBA": lambda b, r: gmoba(b, s.neumann_step_size, s.neumann_step_size, once),
    }


def meta_methods(settings: meta_learning.Settings) -> dict[str, Callable]:
    """Deterministic methods; FORUM with the settings the paper gives it."""
    s = settings
    lower = (s.lower_step_size, s.lower_steps)
    return {
        "WC-MHGD": lambda b, r: meta_learning.algorithm(dataclasses.replace(s, step_size=b), r),
        "MOML": lambda b, r: moml(b, *lower),
        "FORUM": lambda b, r: forum(b, *lower, rho=2.0, averaging=Decaying(0.5, 1.0)),
        "ITD": lambda b, r: itd(r, b, *lower, Unrolled()),
        "gMOBA": lambda b, r: gmoba(b, s.lower_step_size, s.lower_step_size),
    }


@dataclasses.dataclass(frozen=True)
class Contest:
    """Who meets whom, with which step sizes (as multiples of the experiment's own), and who judges."""

    name: str
    experiment: str
    methods: Callable[[Any], dict[str, Callable]]
    grid: tuple[float, ...]
    judge: GradientDescent
    points: int = 10


CONTESTS = {
    contest.name: contest
    for contest in (
        Contest(
            "deterministic-comparison",
            "deterministic",
            meta_methods,
            (0.3, 1.0, 3.0, 10.0),
            GradientDescent(optax.sgd(0.1, momentum=0.98, nesterov=True), 1000),
        ),
        Contest(
            "stochastic-comparison",
            "stochastic",
            cleaning_methods,
            (0.3, 1.0, 3.0, 10.0),
            GradientDescent(optax.sgd(1.0, momentum=0.8, nesterov=True), 150),
        ),
    )
}


def run(
    contest: Contest, preset: str, file: pathlib.Path, seeds: int | None = None, progress: bool | None = None
) -> Comparison:
    """All seeds of a comparison that `file` does not hold yet; step sizes are chosen on the first, saved after each."""
    experiment = EXPERIMENTS[contest.experiment]
    settings = experiment.presets[preset]
    facts = {"contest": contest.name, "preset": preset, "settings": dataclasses.asdict(settings), "grid": contest.grid}
    facts = json.loads(json.dumps(facts))
    file.parent.mkdir(parents=True, exist_ok=True)
    found = _opened(file, facts)
    images = None
    for seed in range(0 if found is None else len(found.start), settings.seeds if seeds is None else seeds):
        images = experiment.load() if images is None else images
        made = _seed(contest, experiment, settings, images, seed, found, facts, progress)
        found = made if found is None else found.join(made)
        found.save(file)
    assert found is not None
    return found


def _opened(file: pathlib.Path, facts: dict) -> Comparison | None:
    if not file.exists():
        return None
    saved = Comparison.load(file)
    changed = difference({name: saved.facts.get(name) for name in facts}, facts)
    if changed:
        remedy = "delete it, or write to another folder"
        raise ValueError(message(str(file), "hold results of the same settings", "; ".join(changed), remedy))
    return saved


def _seed(
    contest: Contest, experiment: Any, settings: Any, images: Any, seed: int, found: Any, facts: dict, progress: Any
) -> Comparison:
    data = experiment.build(*images, settings, seed)
    methods = contest.methods(settings)
    rows = preferences.focused(settings.tasks, settings.peak)
    key = jax.random.key(seed)

    def measure(x: Any, y: Any) -> dict:
        return experiment.measures(x, y, data)

    if found is None:
        step = solve(data.problem, experiment.algorithm(settings, rows[0]), data.x0, data.y0, 1, key=key, progress=False)
        budget = float(sum(step.oracles) * settings.steps)
    else:
        budget = found.budget["amount"]
    return compare(
        data.problem,
        methods,
        data.x0,
        data.y0,
        budget=budget,
        step_sizes=[settings.step_size * factor for factor in contest.grid] if found is None else found.chosen,
        judge=contest.judge,
        preferences=rows,
        key=key,
        points=contest.points,
        names=experiment.names(settings),
        measure=measure,
        facts=facts,
        progress=progress,
    )

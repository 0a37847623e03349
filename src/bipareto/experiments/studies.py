"""The runs behind the figures of the paper: an experiment, a preset, variants, seeds; saved as plain numbers."""

import dataclasses
import json
import pathlib
import platform
import shutil
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bipareto import preferences
from bipareto.datasets import fc100, mnist
from bipareto.errors import message, one_of
from bipareto.experiments import hyper_cleaning, meta_learning
from bipareto.front import explore
from bipareto.solver import Solution
from bipareto.store import difference, export


@dataclasses.dataclass(frozen=True)
class Variant:
    """One line of a study: a preferred task (None: no preference) and what differs from the preset."""

    label: str
    preferred: int | None
    changes: tuple[tuple[str, Any], ...] = ()


@dataclasses.dataclass(frozen=True)
class Experiment:
    """How to build, run and measure one of the two experiments."""

    presets: dict[str, Any]
    load: Callable[[], Any]
    build: Callable[..., Any]
    algorithm: Callable[..., Any]
    measures: Callable[[Any, Any, Any], dict]
    names: Callable[[Any], list[str]]
    batch: int | None


def _cleaning_measures(x: Any, y: Any, data: Any) -> dict:
    test = tuple(map(jnp.asarray, data.test))
    losses = jax.vmap(lambda model: hyper_cleaning.validation_loss(x, model, test))(y)
    weight = hyper_cleaning.weights(x, data)
    return {
        "test_loss": losses,
        "test_accuracy": hyper_cleaning.accuracy(y, data.test),
        "retrained_accuracy": hyper_cleaning.retrained(x, data),
        "clean_weight": weight.clean,
        "corrupted_weight": weight.corrupted,
    }


def _meta_measures(x: Any, y: Any, data: Any) -> dict:
    return {
        "train_accuracy": meta_learning.accuracy(x, y, data.query),
        "test_accuracy": meta_learning.accuracy(x, y, data.test),
    }


EXPERIMENTS = {
    "stochastic": Experiment(
        hyper_cleaning.PRESETS,
        mnist,
        hyper_cleaning.hyper_cleaning,
        hyper_cleaning.algorithm,
        _cleaning_measures,
        lambda settings: [f"{rate:.0%} wrong" for rate in hyper_cleaning.RATES[settings.tasks]],
        None,
    ),
    "deterministic": Experiment(
        meta_learning.PRESETS,
        fc100,
        meta_learning.meta_learning,
        meta_learning.algorithm,
        _meta_measures,
        lambda settings: [f"task {s + 1}" for s in range(settings.tasks)],
        1,  # convolutions whose kernels are mapped too are slower than one run after the other
    ),
}


@dataclasses.dataclass(frozen=True)
class Study:
    """A name, an experiment, its variants, and what differs from the preset in all of them."""

    name: str
    experiment: str
    variants: tuple[Variant, ...]
    changes: tuple[tuple[str, Any], ...] = ()

    def settings(self, preset: str, variant: Variant | None = None) -> Any:
        presets = EXPERIMENTS[self.experiment].presets
        base = presets[one_of("preset", preset, tuple(presets))]
        return dataclasses.replace(base, **dict(self.changes), **dict(variant.changes if variant else ()))


def run(study: Study, preset: str, file: pathlib.Path, seeds: int | None = None, progress: bool | None = None) -> dict:
    """All seeds of a study that `file` does not hold yet; saved after each."""
    settings = study.settings(preset)
    experiment = EXPERIMENTS[study.experiment]
    results = _opened(study, preset, settings, file)
    images = None
    for seed in range(settings.seeds if seeds is None else seeds):
        if any(found["seed"] == seed for found in results["seeds"]):
            continue
        images = experiment.load() if images is None else images
        results["seeds"].append(_seed(study, preset, experiment, images, seed, file, progress))
        export(file, (json.dumps(results) + "\n").encode())
        shutil.rmtree(_runs(file, seed), ignore_errors=True)
    return results


def _opened(study: Study, preset: str, settings: Any, file: pathlib.Path) -> dict:
    """What is saved of this study, or its empty beginning; refused where it was saved with other settings."""
    head = {
        "study": study.name,
        "experiment": study.experiment,
        "preset": preset,
        "settings": dataclasses.asdict(settings),
        "variants": [dataclasses.asdict(variant) for variant in study.variants],
        "tasks": EXPERIMENTS[study.experiment].names(settings),
    }
    head = json.loads(json.dumps(head))
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        device = jax.devices()[0].device_kind
        return head | {"machine": {"device": device, "jax": jax.__version__, "cpu": platform.machine()}, "seeds": []}
    saved = json.loads(file.read_text())
    changed = difference({name: saved.get(name) for name in head}, head)
    if changed:
        remedy = "delete it, or write to another folder"
        raise ValueError(message(str(file), "hold results of the same settings", "; ".join(changed), remedy))
    return saved


def _runs(file: pathlib.Path, seed: int) -> pathlib.Path:
    return file.with_name(f"{file.stem}-seed-{seed}")


def _seed(
    study: Study, preset: str, experiment: Experiment, images: Any, seed: int, file: pathlib.Path, progress: Any
) -> dict:
    """One seed: variants that differ in their preference only are one mapped program."""
    data = experiment.build(*images, study.settings(preset), seed)
    folder = _runs(file, seed)
    folder.mkdir(exist_ok=True)
    found, seconds = {}, []
    for number, changes in enumerate(dict.fromkeys(variant.changes for variant in study.variants)):
        group = [variant for variant in study.variants if variant.changes == changes]
        settings = study.settings(preset, group[0])
        rows = None if group[0].preferred is None else [_preference(settings, variant) for variant in group]
        began = time.perf_counter()
        front = explore(
            data.problem,
            experiment.algorithm(settings, None if rows is None else rows[0]),
            rows if rows is None else np.stack(rows),
            data.x0,
            data.y0,
            settings.steps,
            key=jax.random.key(seed),
            batch=experiment.batch,
            progress=progress,
            directory=folder / f"{number}",
            resume=True,
        )
        seconds.append(time.perf_counter() - began)
        for variant, (solution,) in zip(group, front.solutions, strict=True):
            found[variant.label] = _numbers(solution, experiment.measures(solution.x, solution.y, data))
    return {"seed": seed, "seconds": seconds, "runs": [found[variant.label] for variant in study.variants]}


def _preference(settings: Any, variant: Variant) -> np.ndarray:
    return preferences.focused(settings.tasks, settings.peak)[variant.preferred]


def _numbers(solution: Solution, measures: dict, points: int = 60) -> dict:
    """A run as plain numbers: its measures, how it ended, and its values and gap at some steps, evenly spread."""
    steps = len(solution.history.gap)
    shown = np.unique(np.linspace(0, steps - 1, min(points, steps)).astype(int))
    return {
        "status": solution.status.name,
        "steps": steps,
        "train_loss": _rounded(solution.values),
        **{name: _rounded(values) for name, values in measures.items()},
        "curve": {
            "step": shown.tolist(),
            "values": _rounded(solution.history.values[shown]),
            "gap": _rounded(solution.history.gap[shown]),
        },
    }


def _rounded(values: Any) -> list:
    """Six digits are more than the standard errors leave; NaN (nothing to measure) as null."""
    array = np.asarray(values, float)
    text = [None if np.isnan(value) else float(f"{value:.6g}") for value in array.ravel()]
    return np.array(text, object).reshape(array.shape).tolist()

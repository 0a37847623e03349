"""The command that compares."""

import importlib.util
import pathlib
from typing import Any

from bipareto.cli import machine, methods, store
from bipareto.cli.kinds import refusal
from bipareto.cli.parse import layered
from bipareto.cli.runs import kept_folder, names_of, rows_of
from bipareto.cli.show import Outcome
from bipareto.comparison import Comparison, compare


def run_compare(settings: Any, command: str) -> Outcome:
    given = layered(settings)
    taken = _comparable(given)
    machine.prepare("x64" in given)
    shared = {name: value for name, value in given.items() if name not in methods.METHOD}
    made = store.prepare("compare", {**shared, "algorithm": given["algorithms"][0]})
    usual = {**made.setup.defaults, **given}

    def builder(name: str) -> Any:
        own = {option: value for option, value in given.items() if option in taken[name]}

        def build(step_size: float, preference: Any) -> Any:
            fixed = {} if preference is None or "weights" not in taken[name] else {"weights": tuple(preference)}
            options = {**fixed, **own, "step_size": step_size}
            return methods.build(name, options, made.setup.defaults, made.objectives, preference)[0]

        return build

    sizes = tuple(factor * usual.get("step_size", 0.1) for factor in (0.1, 0.3, 1.0, 3.0))
    with kept_folder(settings, command, made.options) as folder:
        comparison = compare(
            made.setup.problem,
            {name: builder(name) for name in given["algorithms"]},
            made.setup.x0,
            made.setup.y0,
            budget=given["budget"],
            step_sizes=given.get("step_sizes", sizes),
            unit=given.get("unit", "calls"),
            preferences=rows_of(made, given, None),
            seeds=given.get("seeds", 1),
            key=made.key,
            names=names_of(made),
            progress=False if settings.quiet else None,
        )
        if folder is not None:
            folder.mkdir(exist_ok=True)
            comparison.save(folder / "comparison.json")
            store.write(folder, "compare", command, {**made.options, **given})
            _draw(comparison, folder)
    saved = [] if folder is None else [f"saved in {folder}"]
    document = {"command": command, "folder": None if folder is None else str(folder), "objectives": comparison.names}
    document["start"] = comparison.start
    document["methods"] = {name: _measured(comparison, name) for name in comparison.methods}
    return Outcome("\n".join([comparison.table(), *saved]), document)


def _draw(comparison: Comparison, folder: pathlib.Path) -> None:
    """The pictures of a comparison, where they can be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        return
    positive = all((comparison.best(name) > 0).all() for name in comparison.methods)
    kinds = ["calls", "seconds", *(["radar"] if len(comparison.names) > 2 and positive else [])]
    for kind in kinds:
        comparison.plot(kind).savefig(folder / f"{kind}.png", dpi=110)


def _comparable(given: dict[str, Any]) -> dict[str, set[str]]:
    """The options each algorithm of a comparison takes; refuses settings that do not fit one."""
    for name, remedy in (("algorithm", "use --algorithms"), ("step_size", "use --step-sizes"), ("steps", "use --budget")):
        if name in given:
            raise refusal("--" + name.replace("_", "-"), "be left out of a comparison", given[name], remedy)
    for name, example in (("algorithms", "wc_mhgd mgda moml"), ("budget", "10000")):
        if name not in given:
            raise refusal(f"--{name}", "be given", None, f"pass --{name} {example}")
    taken = {name: {o for group in methods.accepted(name).values() for o in group} for name in given["algorithms"]}
    every = set().union(*taken.values())
    methods.refuse("these algorithms", [o for o in given if o in methods.METHOD and o not in every], given, every)
    return taken


def _measured(comparison: Comparison, name: str) -> dict[str, Any]:
    """Every measure [seeds, ...] of a method, and the step size it was run with."""
    measures = {kind: getattr(comparison, kind)(name) for kind in ("best", "gap", "hypervolume", "igd_plus")}
    return {"step_size": comparison.chosen[name], **measures}

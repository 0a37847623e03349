"""Algorithms by name, built from the options they take; an option that one does not take is refused."""

import inspect
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from bipareto import algorithms
from bipareto.cli.kinds import refusal
from bipareto.cli.options import options
from bipareto.cli.settings import Method
from bipareto.hypergradient import CG, AdjointDescent, Neumann, StochasticNeumann, Unrolled
from bipareto.sampling import Batches
from bipareto.solver import Algorithm

# Options of each hypergradient, and what the library calls them.
_STEPS, _SIZE, _BATCH = "hypergradient_steps", "hypergradient_step_size", "hypergradient_batch"
_HYPERGRADIENTS = {
    "cg": (CG, {_STEPS: "steps"}),
    "unrolled": (Unrolled, {}),
    "neumann": (Neumann, {_STEPS: "terms", _SIZE: "step_size"}),
    "stochastic-neumann": (StochasticNeumann, {_STEPS: "terms", _SIZE: "step_size", _BATCH: "batch"}),
    "adjoint-descent": (AdjointDescent, {_STEPS: "steps", _SIZE: "step_size", _BATCH: "batch"}),
}
_FIXED = {
    "aid": "cg", "itd": "unrolled", "moml": "unrolled", "stocbio": "stochastic-neumann", "amigo": "adjoint-descent",
}  # fmt: skip
_GROUPS = {
    "hypergradient": ("hypergradient", _STEPS, _SIZE, _BATCH),
    "batches": ("lower_batch", "upper_batch", "cross_batch"),
}
METHOD = tuple(name for name in options(Method) if name != "algorithm")


def accepted(name: str) -> dict[str, tuple[str, ...]]:
    """The options an algorithm takes, by the parameter they make up."""
    parameters = inspect.signature(getattr(algorithms, name)).parameters
    return {parameter: _GROUPS.get(parameter, (parameter,)) for parameter in parameters if parameter != "preference"}


def follows_preference(name: str) -> bool:
    return "preference" in inspect.signature(getattr(algorithms, name)).parameters


def build(
    name: str, given: Mapping[str, Any], defaults: Mapping[str, Any], objectives: int, preference: Any = None
) -> tuple[Algorithm, dict[str, Any]]:
    """The algorithm, and the options it was built from. `given` by the user; `defaults`: the problem's, where they apply."""
    takes = accepted(name)
    chosen = {option for group in takes.values() for option in group}
    refuse(name, [option for option in given if option in METHOD and option not in chosen], given, chosen)
    used = {option: value for option, value in {**defaults, **given}.items() if option in chosen}
    arguments = {parameter: used[parameter] for parameter in takes if parameter in used and parameter not in _GROUPS}
    if "weights" in takes:
        used["weights"] = arguments["weights"] = used.get("weights", (1 / objectives,) * objectives)
    if len(arguments.get("reference", ())) == 1:
        arguments["reference"] = arguments["reference"][0]
    if "batches" in takes:
        sizes = {option.removesuffix("_batch"): used[option] for option in _GROUPS["batches"] if option in used}
        arguments["batches"] = Batches(**sizes) if sizes else None
    if "hypergradient" in takes:
        arguments["hypergradient"], kept = _hypergradient(name, given, defaults)
        used = {option: value for option, value in used.items() if option not in _GROUPS["hypergradient"]} | kept
    if follows_preference(name):
        arguments["preference"] = np.full(objectives, 1 / objectives) if preference is None else preference
    return getattr(algorithms, name)(**arguments), {"algorithm": name, **used}


def refuse(name: str, wrong: list[str], given: Mapping[str, Any], chosen: Collection[str]) -> None:
    if wrong:
        flag = "--" + wrong[0].replace("_", "-")
        remedy = f"{name} takes {', '.join(sorted(chosen))}" if chosen else "name one with --algorithm"
        raise refusal(flag, f"be left out for {name}", given[wrong[0]], remedy)


def _hypergradient(name: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The part and its options. Those of the problem's defaults belong to the kind that they name, and to no other."""
    usual = defaults.get("hypergradient", "cg")
    if name in _FIXED and usual != _FIXED[name]:
        usual, defaults = _FIXED[name], {}
    kind = given.get("hypergradient", usual)
    if name in _FIXED and kind != usual:
        raise refusal("--hypergradient", f"be {usual} for {name}", kind, "leave it out")
    if kind != usual:
        defaults = {}
    part, names = _HYPERGRADIENTS[kind]
    refuse(f"the hypergradient {kind}", [o for o in (_STEPS, _SIZE, _BATCH) if o in given and o not in names], given, names)
    used = {option: value for option, value in {**defaults, **given}.items() if option in names}
    return part(**{names[option]: value for option, value in used.items()}), {"hypergradient": kind, **used}

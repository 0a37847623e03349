"""Problems by name: the built-in ones with their presets, and those of a user's file or module."""

import difflib
import importlib
import importlib.util
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from bipareto.cli.kinds import Refused, refusal
from bipareto.cli.options import options
from bipareto.cli.settings import COMMANDS, PROBLEMS
from bipareto.datasets import fc100, mnist
from bipareto.experiments import hyper_cleaning, meta_learning, small
from bipareto.setups import Setup
from bipareto.wording import message

DESCRIPTIONS = {
    "digits": "clean a thousand embedded digits whose labels are wrong at five rates (the demo)",
    "quadratic": "two quadratic objectives whose front is known exactly",
    "hyper-cleaning": "the paper's stochastic experiment on MNIST; presets paper, tuned, quick",
    "meta-learning": "the paper's deterministic experiment on FC100; presets paper, tuned, quick",
}


def build(name: Any, preset: str | None, seed: int) -> Setup:
    """The setup that --problem names."""
    if name is None:
        remedy = "pass --problem with one of these, or with file.py:name of a bp.Setup"
        raise Refused(message("--problem", "be one of " + ", ".join(PROBLEMS), "nothing", remedy))
    setup = _built_in(name, preset, seed) if ":" not in name else _of_user(name, preset)
    _check_defaults(setup)
    return setup


def located(name: str) -> str:
    """The name as it can be found again from another folder: files by their whole path."""
    file, colon, inside = name.rpartition(":")
    return f"{os.path.abspath(file)}:{inside}" if colon and file.endswith(".py") else name


def _built_in(name: str, preset: str | None, seed: int) -> Setup:
    if name in ("digits", "quadratic"):
        _no_preset(name, preset)
        return _digits(seed) if name == "digits" else _quadratic()
    make = {"hyper-cleaning": _hyper_cleaning, "meta-learning": _meta_learning}[name]
    return make(preset or "tuned", seed)


def _digits(seed: int) -> Setup:
    data = small.digits_cleaning(seed)
    defaults = {**small.DIGITS, "steps": 200, "preferences": "focused", "peak": 0.8}
    return Setup(data.problem, data.x0, data.y0, _rates(small.RATES), defaults=defaults)


def _quadratic() -> Setup:
    defaults = {"step_size": 0.5, "lower_step_size": 0.25, "lower_steps": 20, "steps": 100, "preferences": 9}
    return Setup(*small.quadratic(), ("distance to A", "distance to B"), defaults=defaults)


def _hyper_cleaning(preset: str, seed: int) -> Setup:
    made = hyper_cleaning.PRESETS[preset]
    data = hyper_cleaning.hyper_cleaning(*mnist(), made, seed)
    defaults = _common(made) | {
        "hypergradient": "stochastic-neumann",
        "hypergradient_steps": made.neumann_terms,
        "hypergradient_step_size": made.neumann_step_size,
        "hypergradient_batch": made.neumann_batch,
        "lower_batch": made.lower_batch,
        "upper_batch": made.upper_batch,
        "cross_batch": made.cross_batch,
    }
    return Setup(data.problem, data.x0, data.y0, _rates(hyper_cleaning.RATES[made.tasks]), defaults=defaults)


def _meta_learning(preset: str, seed: int) -> Setup:
    made = meta_learning.PRESETS[preset]
    data = meta_learning.meta_learning(*fc100(), made, seed)
    names = tuple(f"task {s + 1}" for s in range(made.tasks))
    return Setup(data.problem, data.x0, data.y0, names, defaults=_common(made) | {"hypergradient": "unrolled", "batch": 1})


def _common(made: Any) -> dict[str, Any]:
    shared = ("steps", "step_size", "lower_step_size", "lower_steps", "u", "peak")
    return {"preferences": "focused"} | {name: getattr(made, name) for name in shared}


def _rates(rates: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(f"{rate:.0%} wrong" for rate in rates)


def _no_preset(name: str, preset: str | None) -> None:
    if preset is not None:
        rule = f"be left out for the problem {name}"
        raise refusal("--preset", rule, preset, "hyper-cleaning and meta-learning have presets")


def _of_user(name: str, preset: str | None) -> Setup:
    _no_preset(name, preset)
    file, _, inside = name.rpartition(":")
    module = _from_file(file) if file.endswith(".py") else _from_module(file)
    if not hasattr(module, inside):
        near = difflib.get_close_matches(inside, vars(module), 1)
        remedy = f"did you mean {near[0]!r}?" if near else "name a bp.Setup, or a function that returns one"
        raise refusal("--problem", f"name something in {file}", inside, remedy)
    found = getattr(module, inside)
    if callable(found) and not isinstance(found, Setup):
        found = _guarded(found, f"{inside}() of {file}")
    if not isinstance(found, Setup):
        remedy = "return bp.Setup(problem, x0, y0)"
        raise refusal("--problem", "name a bp.Setup or a function that returns one", found, remedy)
    return found


def _from_file(file: str) -> Any:
    path = pathlib.Path(file).absolute()
    if not path.is_file():
        raise refusal("--problem", "name an existing file", file, "pass file.py:name")
    spec = importlib.util.spec_from_file_location(f"bipareto_problem_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    _reachable(str(path.parent))  # as `python file.py` would have it
    _guarded(lambda: spec.loader.exec_module(module), file)  # pyright: ignore[reportOptionalMemberAccess]
    return module


def _from_module(name: str) -> Any:
    _reachable(os.getcwd())
    if not name or _guarded(lambda: importlib.util.find_spec(name), name) is None:
        raise refusal("--problem", "name an installed module or a file", name, "pass file.py:name or module:name")
    return _guarded(lambda: importlib.import_module(name), name)


def _reachable(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _guarded(function: Callable[[], Any], where: str) -> Any:
    """What a user's code returns; where it fails, one line that says where."""
    try:
        return function()
    except (Exception, SystemExit) as error:
        trace, line = error.__traceback__, None
        while trace is not None:
            line = f"{pathlib.Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
            trace = trace.tb_next
        found = f"{type(error).__name__}: {error} ({line})"
        raise Refused(
            message("--problem", f"load {where}", found, "run the file by itself to see where it fails")
        ) from error


def _check_defaults(setup: Setup) -> None:
    known = {name: option for cls in COMMANDS.values() for name, option in options(cls).items() if option.stored}
    for name, value in setup.defaults.items():
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            remedy = f"did you mean {near[0]!r}?" if near else "use the names of the command's options"
            raise refusal("defaults", "hold settings by their names", name, remedy)
        known[name].kind.check(f"defaults[{name!r}]", value)

"""The commands that look: list, doctor."""

import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import time
from typing import Any

import jax
import numpy as np

from bipareto import algorithms
from bipareto.cli import machine, methods, problems
from bipareto.cli.settings import ALGORITHMS, PROBLEMS
from bipareto.cli.show import Outcome
from bipareto.datasets import fc100, mnist
from bipareto.datasets.files import given_folder
from bipareto.experiments.reproduce import FIGURES
from bipareto.experiments.small import quadratic, quadratic_optimum
from bipareto.solver import solve

_EXTRAS = {
    "cli": "tyro rich", "plot": "matplotlib", "report": "plotly", "serve": "starlette uvicorn", "data": "pooch",
    "metrics": "moocore", "evolution": "pymoo",
}  # fmt: skip


def run_list(settings: Any, command: str) -> Outcome:
    tables = {
        "problems": {name: problems.DESCRIPTIONS[name] for name in PROBLEMS},
        "algorithms": {name: f"{text}; takes {', '.join(methods.accepted(name))}" for name, text in ALGORITHMS.items()},
        "figures": {name: figure.claim for name, figure in FIGURES.items()},
    }
    chosen = {name: table for name, table in tables.items() if settings.what in (None, name)}
    lines = []
    for title, table in chosen.items():
        width = max(map(len, table)) + 2
        lines += ["", title, *(f"  {name:<{width}} {text}" for name, text in table.items())]
    return Outcome("\n".join(lines[1:]), chosen)


def run_doctor(settings: Any, command: str) -> Outcome:
    machine.prepare(False)
    exact = _self_check()
    report: dict[str, Any] = {"versions": machine.versions(), "devices": [str(device) for device in jax.devices()]}
    report["extras"] = {name: _installed(packages.split()) for name, packages in _EXTRAS.items()}
    report["data"] = {"mnist": _place(mnist), "fc100": _place(fc100)}
    report["compile cache"] = str(machine.cache_folder() or f"off, or no folder to write ({machine.SWITCH})")
    report["self-check"] = exact["text"]
    lines = []
    for title, table in report.items():
        rows = table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else [("", table)]
        lines += [title, *(f"  {name:<10} {text}".rstrip() for name, text in rows)]
    failure = "" if exact["healthy"] else f"the self-check failed: {exact['text']}"
    return Outcome("\n".join(lines), report | {"healthy": exact["healthy"]}, failure)


def _self_check() -> dict[str, Any]:
    """A small problem solved and compared with its exact answer."""
    preference = np.array([0.7, 0.3])
    began = time.perf_counter()
    solution = solve(*_case(preference), steps=200, progress=False)
    error = float(np.max(np.abs(solution.values - quadratic_optimum(preference))))
    healthy = error < 1e-3
    spent = time.perf_counter() - began
    verdict = "right" if healthy else "WRONG: reinstall jax, and tell us if that does not help"
    return {"healthy": healthy, "text": f"{verdict} (off the exact answer by {error:.1e}, {spent:.1f} s)"}


def _case(preference: np.ndarray) -> tuple[Any, ...]:
    problem, x0, y0 = quadratic()
    return problem, algorithms.wc_mhgd(preference, 0.5, 0.25, 20), x0, y0


def _installed(packages: list[str]) -> str:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        return f"absent: no {', '.join(missing)}"
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)


def _place(data: Any) -> str:
    """Where the files of a data set lie, or where they would come from; they are verified when they are read."""
    source = importlib.import_module(data.__module__).SOURCE
    folders = []
    try:
        folders.append(given_folder(source.name, None))
    except FileNotFoundError as error:
        return str(error)
    if importlib.util.find_spec("pooch"):
        import pooch

        folders.append(pathlib.Path(pooch.os_cache("bipareto")) / source.name)
    for folder in folders:
        if folder is not None and folder.is_dir() and os.listdir(folder):
            return f"in {folder}"
    return f"absent; downloaded from {source.mirrors[0]} when first used, or set BIPARETO_DATA to its folder"

"""The commands that compute: solve, explore, reproduce."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from bipareto import preferences
from bipareto.algorithms import HypergradientDescent
from bipareto.cli import machine, show, store
from bipareto.cli.kinds import Refused, refusal
from bipareto.cli.parse import layered
from bipareto.cli.show import Outcome
from bipareto.distributed import is_first
from bipareto.front import Front, explore
from bipareto.solver import Solution, solve
from bipareto.weighting import SmoothChebyshev, WeightedChebyshev
from bipareto.wording import message


def run_solve(settings: Any, command: str) -> Outcome:
    given = layered(settings)
    machine.prepare("x64" in given, settings.distributed)
    wanted = given.get("preference")
    made = store.prepare("solve", given, wanted)
    if wanted is not None and not made.algorithm.takes_preference:
        raise refusal("--preference", "be left out for an algorithm that follows none", wanted, "use wc_mhgd")
    names = names_of(made)
    found = made.options
    with kept_folder(settings, command, found) as folder, show.progress(settings.quiet, names) as progress:
        solution = solve(
            made.setup.problem,
            made.algorithm,
            made.setup.x0,
            made.setup.y0,
            found["steps"],
            key=made.key,
            tolerance=found.get("tolerance"),
            evaluate_every=given.get("evaluate_every"),
            progress=progress,
            directory=folder,
            resume=settings.resume,
            save_every=30.0 if settings.save_every is None else settings.save_every,
        )
        front = Front(_own_preference(made), [[solution]], made.algorithm.reference, names)
        _save(front, folder, settings, command, found)
    text = [_heading(solution), *(f"  {n:<24} {v:.6g}" for n, v in zip(names, solution.values, strict=True))]
    failure = f"the run failed: {solution.message}" if solution.status.failed else ""
    return Outcome("\n".join([*text, *_next(folder)]), _document(front, command, found, folder), failure)


def run_explore(settings: Any, command: str) -> Outcome:
    given = layered(settings)
    machine.prepare("x64" in given, settings.distributed)
    made = store.prepare("explore", given)
    found = made.options
    rows = rows_of(made, given, found.get("preferences", "focused") if made.algorithm.takes_preference else None)
    names = names_of(made)
    with kept_folder(settings, command, found) as folder, show.progress(settings.quiet, names) as progress:
        front = explore(
            made.setup.problem,
            made.algorithm,
            rows,
            made.setup.x0,
            made.setup.y0,
            found["steps"],
            seeds=found.get("seeds", 1),
            key=made.key,
            tolerance=found.get("tolerance"),
            continuation=found.get("continuation", False),
            refine=found.get("refine", 0),
            names=names,
            batch=found.get("batch"),
            devices=machine.devices(settings.devices),
            progress=progress,
            directory=folder,
            resume=settings.resume,
            save_every=30.0 if settings.save_every is None else settings.save_every,
        )
        _save(front, folder, settings, command, found)
    failure = f"all runs failed, the first: {front.solutions[0][0].message}" if front.failed.all() else ""
    return Outcome("\n".join([front.table(), *_next(folder)]), _document(front, command, found, folder), failure)


def run_reproduce(settings: Any, command: str) -> Outcome:
    from bipareto.experiments.reproduce import FIGURES, reproduce

    if settings.name is None:
        raise refusal("NAME", "be given", None, "see bipareto list figures")
    machine.prepare(False)
    pictures = []
    for name in FIGURES if settings.name == "all" else [settings.name]:
        shown = False if settings.quiet else None
        picture = reproduce(name, settings.preset or "tuned", settings.out or "results", settings.seeds, shown)
        pictures.append(str(picture))
        print(picture, flush=True)
    return Outcome("", {"command": command, "figures": pictures})


def names_of(made: store.Prepared) -> tuple[str, ...]:
    return made.setup.names or tuple(f"phi_{s + 1}" for s in range(made.objectives))


def _own_preference(made: store.Prepared) -> np.ndarray | None:
    """[1, S], or None for an algorithm that follows none."""
    weighting = made.algorithm.weighting if isinstance(made.algorithm, HypergradientDescent) else None
    follows = isinstance(weighting, (WeightedChebyshev, SmoothChebyshev))
    return np.asarray(weighting.preference, float)[None] if follows else None


def rows_of(made: store.Prepared, given: dict[str, Any], usual: Any) -> np.ndarray | None:
    """The preferences that were asked for, else the `usual` ones for an algorithm that follows one."""
    wanted = given.get("preferences", usual)
    if "peak" in given and wanted != "focused":
        raise refusal("--peak", "come with --preferences focused", given["peak"], "leave it out")
    if wanted is None:
        return None
    if wanted == "focused":
        return preferences.focused(made.objectives, made.options.get("peak", max(0.8, 1 / made.objectives)))
    if isinstance(wanted, int):
        return preferences.evenly(made.objectives, wanted)
    lengths = {len(row) for row in wanted}
    if lengths != {made.objectives}:
        rule = f"have {made.objectives} numbers in every row, one per objective"
        raise Refused(message("--preferences", rule, sorted(lengths), "add or remove numbers"))
    return np.array(wanted, float)


@contextlib.contextmanager
def kept_folder(settings: Any, command: str, options: dict[str, Any]) -> Iterator[pathlib.Path | None]:
    """The folder of --out, its parents made. Where nothing was written into them, an error leaves none behind."""
    if settings.out is None:
        if getattr(settings, "resume", False):
            raise refusal("--out", "be given to resume", None, "name the folder of the run")
        yield None
        return
    folder = pathlib.Path(settings.out)
    resumes = getattr(settings, "resume", None)  # a comparison cannot
    if resumes is not True and any((folder / name).exists() for name in ("settings.json", store.COMMAND)):
        remedy = "name another folder" + ("" if resumes is None else ", or add --resume to go on with it")
        raise refusal("--out", "be a new folder", f"a run in {folder}", remedy)
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        yield folder
    except KeyboardInterrupt:
        if folder.is_dir() and is_first():
            store.write(folder, type(settings).__name__.lower(), command, options)
        raise
    except BaseException:
        for path in created:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def _save(front: Front, folder: pathlib.Path | None, settings: Any, command: str, options: dict[str, Any]) -> None:
    """A front that lies there already may have grown on the live page: it is left alone."""
    if folder is not None and is_first() and not (folder / store.FRONT).exists():
        front.save(folder / store.FRONT, x=True)
        store.write(folder, type(settings).__name__.lower(), command, options)


def _heading(solution: Solution) -> str:
    gap = f", gap {solution.history.gap[-1]:.2e}" if len(solution.history.gap) else ""
    spent = f"{solution.seconds:.1f} s (and {solution.compile_seconds:.1f} s of compiling)"
    return f"{solution.status.name} after {len(solution.history.gap)} steps, {spent}{gap}"


def _next(folder: pathlib.Path | None) -> list[str]:
    return [] if folder is None else ["", f"saved in {folder}; next: bipareto report|serve|certify {folder}"]


def _document(front: Front, command: str, options: dict[str, Any], folder: pathlib.Path | None) -> dict[str, Any]:
    return {
        "command": command,
        "settings": options,
        "folder": None if folder is None else str(folder),
        "objectives": front.objective_names,
        "preferences": front.preferences,
        "values": front.values,
        "status": [[status.name for status in row] for row in front.status],
        "nondominated": front.nondominated(),
        "gap": [[run.history.gap[-1] if len(run.history.gap) else np.nan for run in row] for row in front.solutions],
        "steps": [[len(run.history.gap) for run in row] for row in front.solutions],
        "seconds": [[run.seconds for run in row] for row in front.solutions],
        "oracles": [[run.oracles._asdict() for run in row] for row in front.solutions],
        "versions": machine.versions(),
    }

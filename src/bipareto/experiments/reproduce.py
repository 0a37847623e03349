"""The paper's figures, one name each: run what is missing, save it, draw from what is saved.

python -m bipareto.experiments.reproduce NAME [--preset tuned] [--out results]
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from typing import Any

from bipareto.comparison import Comparison
from bipareto.errors import one_of
from bipareto.experiments import contests
from bipareto.experiments.geometry import geometry
from bipareto.experiments.studies import Study, Variant, run
from bipareto.store import CorruptFile, export


@dataclasses.dataclass(frozen=True)
class Figure:
    """What the paper claims with it, the runs behind it, and how they are drawn."""

    claim: str
    study: Study | None
    drawing: str


def _each(tasks: int) -> tuple[Variant, ...]:
    return tuple(Variant(f"prefers {s + 1}", s) for s in range(tasks))


def _of(setting: str, values: tuple, preferred: int | None) -> tuple[Variant, ...]:
    symbol = {"u": "u", "lower_steps": "D"}[setting]
    return tuple(Variant(f"{symbol} = {value:g}", preferred, ((setting, value),)) for value in values)


def _studies() -> dict[str, tuple[str, Study]]:
    best, larger, deeper = (
        "each objective is best under its own preference",
        "a larger u serves the preferred objective more",
        "a larger D converges faster",
    )
    free = "without a preference the runs end at an arbitrary stationary point"
    det, sto = "deterministic", "stochastic"
    none = (Variant("no preference", None),)
    ten = (("tasks", 10),)
    extreme = (("peak", 0.96),)
    found = {
        f"{det}-preferences": (best, Study("", det, _each(5))),
        f"{det}-extreme": (best, Study("", det, _each(5), extreme)),
        f"{det}-u": (larger, Study("", det, _of("u", (1.0, 5.0, 10.0, 20.0), 0), extreme)),
        f"{det}-depth": (deeper, Study("", det, _of("lower_steps", (8, 16, 32), 0))),
        f"{det}-none-5": (free, Study("", det, none)),
        f"{det}-none-10": (free, Study("", det, none, ten)),
        f"{sto}-preferences": (best, Study("", sto, _each(5))),
        f"{sto}-u": (larger, Study("", sto, _of("u", (1e-8, 1e-7, 1e-6, 0.1, 1.0, 10.0, 20.0), 4))),
        f"{sto}-depth": (deeper, Study("", sto, _of("lower_steps", (50, 100, 200), 4))),
        f"{sto}-none-5": (free, Study("", sto, none)),
        f"{sto}-none-10": (free, Study("", sto, none, ten)),
    }
    return {name: (claim, dataclasses.replace(study, name=name)) for name, (claim, study) in found.items()}


_DRAWINGS = {"preferences": "radars", "extreme": "radars", "u": "radars", "depth": "curves", "none": "alone"}
FIGURES = {name: Figure(claim, study, _DRAWINGS[name.split("-")[1]]) for name, (claim, study) in _studies().items()}
FIGURES["deterministic-comparison"] = Figure("a larger part of the front than MOML and FORUM", None, "contest")
FIGURES["stochastic-comparison"] = Figure("better than MoCo in all five objectives", None, "contest")
FIGURES["geometry"] = Figure("u turns the direction from the r-scaled minimum norm to the worst objective", None, "geometry")


def reproduce(
    name: str, preset: str = "tuned", out: Any = "results", seeds: int | None = None, progress: bool | None = None
) -> pathlib.Path:
    """Make the figure `name` in the folder `out`/`preset`; what is saved there is not computed again."""
    from bipareto.experiments import figures  # only drawing needs matplotlib

    figure = FIGURES[one_of("name", name, tuple(FIGURES))]
    file = pathlib.Path(out) / preset / f"{name}.json"
    picture = file.with_suffix(".png")
    if name in contests.CONTESTS:
        contests.run(contests.CONTESTS[name], preset, file, seeds, progress)
        figures.contest(Comparison.load(file)).savefig(picture, dpi=110)
        return picture
    if figure.study is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        export(file, (json.dumps(geometry(), indent=1) + "\n").encode())
    else:
        run(figure.study, preset, file, seeds, progress)
    getattr(figures, figure.drawing)(_read(file)).savefig(picture, dpi=110)
    return picture


def _read(file: pathlib.Path) -> dict:
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        raise CorruptFile(f"`{file}` must hold saved results; found {error}; delete it and run again") from error


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bipareto.experiments.reproduce", description=__doc__)
    parser.add_argument("name", choices=[*FIGURES, "all"], metavar="NAME", help=", ".join([*FIGURES, "all"]))
    parser.add_argument("--preset", default="tuned", choices=["paper", "tuned", "quick"])
    parser.add_argument("--out", default="results", help="folder for results and figures")
    parser.add_argument("--seeds", type=int, default=None, help="how many (default: the preset's)")
    arguments = parser.parse_args()
    for name in FIGURES if arguments.name == "all" else [arguments.name]:
        try:
            print(reproduce(name, arguments.preset, arguments.out, arguments.seeds), flush=True)
        except (ValueError, OSError, ModuleNotFoundError) as error:
            print(error, file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    main()

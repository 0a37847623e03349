"""What a folder named by --out holds beside the run's own files: the command, its settings, the front, certificates."""

import dataclasses
import json
import pathlib
from typing import Any, NamedTuple

import jax

from bipareto.cli import machine, methods, problems
from bipareto.cli.kinds import Refused
from bipareto.cli.options import options
from bipareto.cli.settings import COMMANDS
from bipareto.front import Front
from bipareto.front.front import Recipe
from bipareto.oracles import bind
from bipareto.setups import Setup
from bipareto.solver import Algorithm
from bipareto.store import export
from bipareto.wording import message

COMMAND, FRONT, CERTIFICATES = "command.json", "front.npz", "certificates.json"


class Prepared(NamedTuple):
    """A problem and its algorithm, built from settings; `options`: all that were used."""

    setup: Setup
    algorithm: Algorithm
    options: dict[str, Any]
    objectives: int

    @property
    def key(self) -> Any:
        return jax.random.key(self.options["seed"])


def prepare(kind: str, given: dict[str, Any], preference: Any = None) -> Prepared:
    """The problem and the algorithm that the `given` settings of a command describe, completed by the problem's own."""
    setup = problems.build(given.get("problem"), given.get("preset"), given.get("seed", 0))
    objectives = bind(setup.problem, setup.x0, setup.y0).objectives
    if setup.algorithm is not None and "algorithm" not in given:
        methods.refuse("the setup's own algorithm", [name for name in given if name in methods.METHOD], given, ())
        algorithm, used = setup.algorithm, {}
        if preference is not None and algorithm.takes_preference:
            algorithm = algorithm.prefer(preference)
    else:
        name = given.get("algorithm", setup.defaults.get("algorithm", "wc_mhgd"))
        algorithm, used = methods.build(name, given, setup.defaults, objectives, preference)
    known = [name for name in options(COMMANDS[kind]) if name not in methods.METHOD]
    rest = {name: value for name, value in {**setup.defaults, **given}.items() if name in known}
    found = {"seed": 0, "steps": 500} | rest | used | {"problem": problems.located(given["problem"])}
    return Prepared(setup, algorithm, found, objectives)


def write(folder: pathlib.Path, kind: str, command: str, settings: dict[str, Any]) -> None:
    facts = {"command": command, "kind": kind, "settings": settings, "versions": machine.versions()}
    export(folder / COMMAND, (json.dumps(facts, indent=1) + "\n").encode())


def read(folder: pathlib.Path, x0: Any = None, y0: Any = None) -> tuple[Front, dict[str, Any]]:
    """The front and what `write` wrote, with the certificates where there are any: none of runs that came later."""
    found = facts(folder)
    front = Front.load(folder / FRONT, x0, y0)
    if (folder / CERTIFICATES).is_file():
        certificates = _json(folder / CERTIFICATES, list)[: front.failed.size]
        found["certificates"] = certificates + [None] * (front.failed.size - len(certificates))
    return front, found


def facts(folder: pathlib.Path) -> dict[str, Any]:
    """What `write` wrote of a run that has ended."""
    if not (folder / COMMAND).is_file():
        remedy = "name a folder that bipareto solve or explore wrote with --out"
        raise Refused(message(str(folder), "hold a finished run", "none", remedy))
    found = _json(folder / COMMAND)
    if found.get("kind") == "compare":
        raise Refused(message(str(folder), "hold a run", "a comparison", "read its comparison.json"))
    if not (folder / FRONT).is_file():
        remedy = f"go on with: {str(found.get('command')).removesuffix(' --resume')} --resume"
        raise Refused(message(str(folder), "hold a finished run", "one that was interrupted", remedy))
    return found


def rebuilt(folder: pathlib.Path) -> tuple[Front, Prepared, dict[str, Any]]:
    """The front with its variables and the problem and algorithm that made it, so that it can go on."""
    found = facts(folder)
    given = _checked(found, folder)
    machine.prepare(bool(given.get("x64")))
    made = prepare(found["kind"], given)
    front, found = read(folder, made.setup.x0, made.setup.y0)
    recipe = Recipe(made.setup.problem, made.algorithm, made.options["steps"], made.key, given.get("tolerance"))
    return dataclasses.replace(front, recipe=recipe), made, found


def _checked(found: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    try:
        known = options(COMMANDS[found["kind"]])
        return {name: known[name].kind.check(name, value) for name, value in found["settings"].items()}
    except (KeyError, AttributeError, TypeError, Refused) as error:
        remedy = "restore it from a copy, or run the command again"
        raise Refused(message(str(folder / COMMAND), "hold the settings of a run", error, remedy)) from None


def _json(file: pathlib.Path, kind: type = dict) -> Any:
    try:
        found = json.loads(file.read_text())
        if isinstance(found, kind):
            return found
        raise ValueError(f"a {type(found).__name__}")
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(message(str(file), "be whole", error, "restore it from a copy, or run the command again")) from None

"""From the words of a command line to typed settings; everything wrong with them is one line."""

import contextlib
import dataclasses
import difflib
import io
import itertools
import re
import tomllib
from typing import Any

import tyro

import bipareto
from bipareto.cli.kinds import Refused, refusal
from bipareto.cli.options import flag_name, options
from bipareto.cli.settings import COMMANDS
from bipareto.wording import message


def overview() -> str:
    """What `bipareto --help` prints."""
    rows = [f"  {name:<10} {cls.__doc__}" for name, cls in COMMANDS.items()]
    return "\n".join(
        [
            "usage: bipareto COMMAND [OPTIONS]",
            "",
            "Multi-objective bilevel learning: solve for a preference, explore the Pareto front, certify, look.",
            "",
            *rows,
            "",
            "bipareto COMMAND --help tells a command's options. A first look:",
            "  bipareto explore --problem quadratic --preferences 9 --out front",
        ]
    )


def parse(arguments: list[str]) -> tuple[str, Any] | None:
    """The command and its settings; None where help was all that was asked for."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return None
    if arguments[0] == "--version":
        print(bipareto.__version__)
        return None
    name, *rest = arguments
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        remedy = f"did you mean {near[0]!r}?" if near else "see bipareto --help"
        raise Refused(message("command", "be one of " + ", ".join(COMMANDS), repr(name), remedy))
    settings = _through_tyro(name, rest)
    return None if settings is None else (name, settings)


def _through_tyro(name: str, words: list[str]) -> Any:
    _refuse_missing(name, words)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            settings, unknown = tyro.cli(COMMANDS[name], prog=f"bipareto {name}", args=words, return_unknown_args=True)
    except SystemExit as end:
        if not end.code:
            return None
        raise Refused(_one_line(said.getvalue(), name)) from None
    if unknown:
        raise _unknown(name, unknown)
    return settings


def _refuse_missing(name: str, words: list[str]) -> None:
    """Flags whose value is missing, since another flag or nothing follows."""
    flags = {flag_name(field, option): option.kind.metavar for field, option in options(COMMANDS[name]).items()}
    for word, after in itertools.pairwise([*words, None]):
        if word is not None and flags.get(word) and (after is None or after.startswith("--")):
            raise Refused(message(word, "be followed by a value", "nothing", f"pass {word} {flags[word]}"))


def _one_line(box: str, name: str) -> str:
    """What tyro says in a box, without its borders, title and advice."""
    lines = [line.strip("│╭╮╰╯─|+- ") for line in box.splitlines()]
    _, *inside = [line for line in lines if line] or [""]
    ends = [i for i, line in enumerate(inside) if line.startswith(("For full helptext", "Argument helptext"))]
    return f"{' '.join(inside[: min(ends, default=None)])} See bipareto {name} --help"


def _unknown(name: str, tokens: list[str]) -> Refused:
    token = next((word for word in tokens if re.match(r"-+[^\d.]", word)), tokens[0]).split("=")[0]
    if not token.startswith("-"):
        return refusal(f"bipareto {name}", "be followed by options", token, f"see bipareto {name} --help")
    flags = {command: [flag_name(*pair) for pair in options(cls).items()] for command, cls in COMMANDS.items()}
    near = difflib.get_close_matches(token, flags[name], 1, 0.7)
    others = [command for command, names in flags.items() if token in names]
    if near:
        remedy = f"did you mean {near[0]}?"
    elif others:
        remedy = f"{token} belongs to bipareto {others[0]}"
    else:
        remedy = f"see bipareto {name} --help"
    return refusal(f"bipareto {name}", "be given options that it knows", token, remedy)


def layered(settings: Any) -> dict[str, Any]:
    """What the settings file and the flags say, the flags last; only what is part of a run's settings."""
    known = {name: option for name, option in options(type(settings)).items() if option.stored}
    given = {name: value for name, value in dataclasses.asdict(settings).items() if name in known and value is not None}
    given = {name: value for name, value in given.items() if value is not False}
    return ({} if settings.config is None else _from_file(settings.config, known)) | given


def _from_file(path: str, known: dict[str, Any]) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no TOML, or no UTF-8
        raise Refused(message("--config", "be a readable TOML file", f"{path} ({error})", "correct it")) from None
    found = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            remedy = f"did you mean {near[0]}?" if near else "its keys are the names of the command's options"
            raise Refused(message(path, "hold settings of this command", repr(key), remedy))
        if name in found:
            raise Refused(message(path, f"set {name} once", "two spellings of it", "keep one"))
        found[name] = known[name].kind.check(f"{key} in {path}", value)
    return found

"""`bipareto`: one command, one exit code. 0: done; 1: the run failed; 2: wrong input, one line; 130: interrupted, saved."""

import contextlib
import importlib
import os
import shlex
import sys
import warnings
from collections.abc import Sequence

EXTRA = "`cli` must be installed for the command line; found no tyro or rich; run: pip install 'bipareto[cli]'"
_HOMES = {
    "list": "looking", "doctor": "looking", "solve": "runs", "explore": "runs", "compare": "comparing", "reproduce": "runs",
    "certify": "folders", "report": "folders", "serve": "folders",
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print(f"warning: {_line(message)}", file=sys.stderr)
        try:
            return _run(arguments)
        except KeyboardInterrupt:
            print(_interrupted(arguments), file=sys.stderr)
            return 130
        except BrokenPipeError:  # the reader of our output has gone: nothing is left to say, not even at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except Exception as error:
            if os.environ.get("BIPARETO_TRACEBACK"):
                raise
            print(_line(f"bipareto failed unexpectedly: {type(error).__name__}: {error}"), file=sys.stderr)
            print("set BIPARETO_TRACEBACK=1 to see where", file=sys.stderr)
            return 1


def _run(arguments: list[str]) -> int:
    try:
        from bipareto.cli.kinds import Refused
        from bipareto.cli.parse import parse
    except ModuleNotFoundError:
        print(EXTRA, file=sys.stderr)
        return 2
    try:
        parsed = parse(arguments)
        if parsed is None:
            return 0
        name, settings = parsed
        wanted = getattr(settings, "json", False)
        with contextlib.redirect_stdout(sys.stderr if wanted else sys.stdout):  # a user's file may print
            home = importlib.import_module(f"bipareto.cli.{_HOMES[name]}")
            outcome = getattr(home, f"run_{name}")(settings, shlex.join(["bipareto", *arguments]))
        return importlib.import_module("bipareto.cli.show").finish(wanted, outcome)
    except Exception as error:
        # The library words what is wrong with an input alike; anything else is a fault of ours.
        told = isinstance(error, Refused) or str(error).startswith("`")
        if isinstance(error, BrokenPipeError) or not (told or isinstance(error, OSError)):
            raise
        print(_line(error), file=sys.stderr)
        return 2


def _interrupted(arguments: list[str]) -> str:
    if arguments[0] not in ("solve", "explore"):
        return "interrupted; call again to go on"
    if not any(word == "--out" or word.startswith("--out=") for word in arguments):
        return "interrupted; with --out DIR a run is saved and can be resumed"
    again = arguments if "--resume" in arguments else [*arguments, "--resume"]
    return f"interrupted; go on with: {shlex.join(['bipareto', *again])}"


def _line(text: object) -> str:
    return " ".join(str(text).split())

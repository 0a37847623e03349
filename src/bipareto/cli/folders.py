"""The commands that work on what --out kept: certify, report, serve."""

import importlib
import json
import pathlib
from typing import Any

from bipareto.cli import store
from bipareto.cli.kinds import Refused, refusal
from bipareto.cli.show import Outcome
from bipareto.store import export, jsonable
from bipareto.theory import certify
from bipareto.wording import message


def run_certify(settings: Any, command: str) -> Outcome:
    folder = _given(settings.folder, "FOLDER")
    front, made, _ = store.rebuilt(folder)
    rows: list[Any] = [None] * len(front.solutions) if front.preferences is None else list(front.preferences)
    texts, found = [], []
    for row, runs in zip(rows, front.solutions, strict=True):
        method = made.algorithm if row is None else made.algorithm.prefer(row)
        label = "no preference" if row is None else "preference " + " ".join(f"{entry:.4f}" for entry in row)
        for seed, run in enumerate(runs):
            if run.status.failed:
                found.append(None)
                texts.append(f"{label}, seed {seed}: {run.message}")
            else:
                certificate = certify(made.setup.problem, method, run)  # pyright: ignore[reportArgumentType]
                found.append(certificate.to_dict())
                texts.append(f"{label}, seed {seed}\n{certificate}")
    document = jsonable(found)
    export(folder / store.CERTIFICATES, (json.dumps(document, indent=1) + "\n").encode())
    return Outcome("\n\n".join(texts), {"command": command, "folder": str(folder), "certificates": document})


def run_report(settings: Any, command: str) -> Outcome:
    folders = [_given(name, "FOLDERS") for name in settings.folders or (None,)]
    found = [store.read(folder) for folder in folders]
    report = _report()
    pairs = zip(folders, found, strict=True)
    runs = [report.Run(name=folder.resolve().name, front=front, facts=facts) for folder, (front, facts) in pairs]
    target = pathlib.Path(settings.to) if settings.to else folders[0] / "report.html"
    if not target.parent.is_dir() or target.is_dir():
        raise refusal("--to", "be a file in an existing folder", str(target), "create the folder, or name a file")
    path = report.write_report(runs, target)
    return Outcome(f"report: {path}", {"command": command, "report": str(path)})


def run_serve(settings: Any, command: str) -> Outcome:
    folder = _given(settings.folder, "FOLDER")
    store.facts(folder)
    report = _report()
    front, _, facts = store.rebuilt(folder)
    given = {name: getattr(settings, name) for name in ("host", "port", "time_limit", "steps")}
    report.serve(
        front,
        save=lambda grown: grown.save(folder / store.FRONT, x=True),
        facts={**facts, "name": folder.resolve().name},
        allow_remote=settings.allow_remote,
        open_browser=settings.open_browser,
        **{name: value for name, value in given.items() if value is not None},
    )
    return Outcome("", {})


def _given(name: str | None, parameter: str) -> pathlib.Path:
    if name is None:
        raise refusal(parameter, "be given", None, "name a folder that --out named")
    return pathlib.Path(name)


def _report() -> Any:
    try:
        return importlib.import_module("bipareto.report")
    except ModuleNotFoundError as error:
        remedy = "run: pip install 'bipareto[report,serve]'"
        raise Refused(message("bipareto.report", "be installed", f"no module {error.name}", remedy)) from None

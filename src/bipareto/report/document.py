"""The page as one document: markup, style, scripts and data, from the package's own files and plotly's."""

import base64
import functools
import hashlib
import html
import importlib.resources
import pathlib
import re
import string
from collections.abc import Sequence
from typing import Any

from bipareto.errors import message
from bipareto.report.data import Run, page_data, to_json
from bipareto.store import export

SCRIPTS = ("choice.js", "parts.js", "parallel.js", "charts.js", "tables.js", "live.js", "page.js")
# Plotly makes an empty style element and fills it through the style sheet's own interface: only its emptiness is allowed.
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
POLICY = (
    "default-src 'none'; script-src {scripts}; style-src {styles}; img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def write_report(runs: Sequence[Run], path: Any) -> pathlib.Path:
    """Write one self-contained HTML file that shows the fronts of `runs`; it is written whole or not at all."""
    export(path, report(runs).encode())
    return pathlib.Path(path)


def report(runs: Sequence[Run]) -> str:
    """The text of that file. Its policy lets run and look only what is written in it, and nothing be fetched."""
    data = page_data(runs)
    plotly, scripts, style = plotly_script(), "\n".join(map(asset, SCRIPTS)), asset("page.css")
    policy = POLICY.format(scripts=f"{_hashed(plotly)} {_hashed(scripts)}", styles=f"{_hashed(style)} {EMPTY_STYLE}")
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    data_block = f'<script type="application/json" id="data">{to_json(data)}</script>'
    return page(_title(runs), head, f"{data_block}\n<script>{plotly}</script>\n<script>{scripts}</script>")


def live_page(title: str) -> str:
    """The same page with its parts as files of the server."""
    files = "\n".join(f'<script src="assets/{name}"></script>' for name in ("plotly.js", *SCRIPTS))
    return page(title, '<link rel="stylesheet" href="assets/page.css">', files)


def page(title: str, head: str, scripts: str) -> str:
    # Plotly adds the style of its maps, that no chart here needs and the policy forbids, unless an element has its name.
    unused = "".join(f'<template id="{name}"></template>' for name in sorted(set(_STYLE_NAMES.findall(plotly_script()))))
    parts = {"title": html.escape(title), "head": head + unused, "scripts": scripts}
    return string.Template(asset("page.html")).substitute(parts)


def asset(name: str) -> str:
    return (importlib.resources.files("bipareto.report") / "assets" / name).read_text(encoding="utf-8")


@functools.cache
def plotly_script() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        text = message("plotly", "be installed for reports", "no such package", "pip install plotly")
        raise ModuleNotFoundError(text) from None
    return get_plotlyjs().replace("</script", "<\\/script")


_STYLE_NAMES = re.compile(r'getElementById\("([0-9a-f]{64})"\)')


def _title(runs: Sequence[Run]) -> str:
    return " and ".join(run.name for run in runs) if len(runs) < 3 else f"{len(runs)} runs"


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

"""The shape of the code itself: imports point one way, files and functions stay small, importing stays cheap."""

import ast
import pathlib
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(__file__).parents[1] / "src" / "bipareto"
ORDER = [
    "wording",
    "errors",
    "status",
    "layout",
    "shapes",
    "precision",
    "problem",
    "oracles",
    "lower",
    "sampling",
    "spectrum",
    "hypergradient",
    "simplex",
    "weighting",
    "progress",
    "distributed",
    "store",
    "solver",
    "algorithms",
    "preferences",
    "metrics",
    "front",
    "comparison",
    "theory",
    "setups",
    "public",
    "datasets",
    "report",
    "experiments",
    "report",
    "cli",
    "__main__",
]
FILES = sorted(SOURCE.rglob("*.py"))


def imported(tree):
    """Names of the package's modules that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "bipareto":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("bipareto.")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_upward_and_files_stay_small(file):
    text = file.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) <= 300
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            assert not body or body[-1].end_lineno - body[0].lineno < 45, node.name
    name = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    if name != "__init__":
        assert name in ORDER
        assert all(ORDER.index(other) <= ORDER.index(name) for other in imported(tree))


def test_only_the_oracles_differentiate():
    calls = (
        "jax.grad",
        "jax.vjp",
        "jax.jvp",
        "jax.linearize",
        "jax.jacobian",
        "jax.jacrev",
        "jax.jacfwd",
        "jax.hessian",
    )
    calls += ("jax.value_and_grad", "jax.checkpoint", "jax.linear_transpose")
    users = {file.relative_to(SOURCE).parts[0] for file in FILES for call in calls if call + "(" in file.read_text()}
    assert users == {"oracles"}


def test_importing_does_not_pull_in_the_extras():
    extras = (
        "matplotlib",
        "rich",
        "tyro",
        "plotly",
        "starlette",
        "pooch",
        "moocore",
        "pymoo",
        "flax",
        "scipy.optimize",
    )
    code = f"import sys, bipareto; bipareto.solve; print([name for name in {extras} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""The settings of every command as frozen dataclasses. None: not given, so that a preset or the library decides."""

import math
from typing import Annotated, Any

from bipareto.cli import kinds
from bipareto.cli.options import Option, command, switch

PROBLEMS = ("digits", "quadratic", "hyper-cleaning", "meta-learning")
PRESETS = ("paper", "tuned", "quick")
ALGORITHMS = {
    "wc_mhgd": "weighted Chebyshev, the paper's: follows a preference",
    "mgda": "shortest direction, no preference",
    "linear": "weighted sum of the objectives",
    "aid": "AID-BiO: weighted sum, conjugate gradients",
    "itd": "ITD-BiO: weighted sum, through the lower steps",
    "stocbio": "stocBiO: weighted sum, stochastic Neumann series",
    "amigo": "AmIGO: weighted sum, adjoint kept and improved",
    "soba": "SOBA: weighted sum, a single loop",
    "stable": "STABLE: weighted sum, averaged derivatives, small lower levels only",
    "moml": "MOML: shortest direction, through the lower steps",
    "gmoba": "gMOBA: shortest direction, a single loop",
    "moco": "MoCo: tracked hypergradients and weights",
    "forum": "FORUM: first order only",
}
HYPERGRADIENTS = ("cg", "unrolled", "neumann", "stochastic-neumann", "adjoint-descent")
FIGURES = (
    "geometry",
    *(f"deterministic-{kind}" for kind in ("preferences", "extreme", "u", "depth", "none-5", "none-10", "comparison")),
    *(f"stochastic-{kind}" for kind in ("preferences", "u", "depth", "none-5", "none-10", "comparison")),
)

_STEP = kinds.number(0.1)
_BATCH = kinds.whole(1, 64)
_FOLDER = kinds.text("DIR", "be a folder", "pass a folder such as runs/first")
_ROWS = kinds.preference_rows()


@command
class Target:
    """What is solved."""

    problem: Annotated[
        str | None,
        Option(
            kinds.problem(*PROBLEMS),
            f"{', '.join(PROBLEMS)}, or a bp.Setup of yours (or a function that returns one) as file.py:name or module:name",
        ),
    ] = None
    preset: Annotated[str | None, Option(kinds.word(*PRESETS), "paper, tuned or quick, for the paper's two problems")] = None
    config: Annotated[
        str | None,
        Option(
            kinds.text("FILE.toml", "be a TOML file", "pass a file"),
            "settings as TOML; flags come before them",
            stored=False,
        ),
    ] = None
    x64: Annotated[bool, switch("double precision", stored=True)] = False
    seed: Annotated[int | None, Option(kinds.whole(0, 0), "of the batches and of built-in data; 0 by default")] = None
    steps: Annotated[int | None, Option(kinds.whole(1, 500), "upper steps")] = None
    tolerance: Annotated[float | None, Option(kinds.number(1e-8), "stop at this stationarity gap")] = None


@command
class One:
    """One preference."""

    preference: Annotated[
        tuple[float, ...] | None,
        Option(kinds.numbers("0.2 0.8"), "one number per objective, larger: more important; equal by default"),
    ] = None
    evaluate_every: Annotated[int | None, Option(kinds.whole(1, 20), "steps between values of the full data")] = None


@command
class Many:
    """Many preferences."""

    preferences: Annotated[
        Any,
        Option(_ROWS, "how many, spread evenly; or focused: one per objective; or rows such as 0.2,0.8 0.5,0.5"),
    ] = None
    peak: Annotated[float | None, Option(kinds.number(0.8, below=1.0), "share of the preferred objective, for focused")] = (
        None
    )
    seeds: Annotated[int | None, Option(kinds.whole(1, 3), "runs per preference, with batches of their own")] = None
    continuation: Annotated[bool, switch("start each run where the nearest preference ended", stored=True)] = False
    refine: Annotated[int | None, Option(kinds.whole(0, 5), "preferences to add in the largest gaps")] = None
    batch: Annotated[int | None, Option(kinds.whole(1, 8), "runs to map at once")] = None
    devices: Annotated[
        int | None, Option(kinds.whole(1, 2), "how many devices share the runs; all by default", stored=False)
    ] = None


@command
class Race:
    """Algorithms side by side."""

    algorithms: Annotated[tuple[str, ...] | None, Option(kinds.words(*ALGORITHMS), "which to compare")] = None
    budget: Annotated[float | None, Option(kinds.number(10_000.0), "for each run, in the unit")] = None
    unit: Annotated[str | None, Option(kinds.word("calls", "seconds"), "calls of oracles, or seconds")] = None
    step_sizes: Annotated[
        tuple[float, ...] | None,
        Option(kinds.numbers("0.03 0.1 0.3"), "tried for every algorithm; 0.1, 0.3, 1 and 3 times the problem's by default"),
    ] = None
    preferences: Annotated[Any, Option(_ROWS, "as in explore; none by default")] = None
    peak: Annotated[float | None, Option(kinds.number(0.8, below=1.0), "as in explore")] = None
    seeds: Annotated[int | None, Option(kinds.whole(1, 3), "repetitions")] = None


@command
class Method:
    """How it is solved. Every algorithm takes some of these."""

    algorithm: Annotated[str | None, Option(kinds.word(*ALGORITHMS), ", ".join(ALGORITHMS))] = None
    step_size: Annotated[float | None, Option(_STEP, "of the upper steps")] = None
    lower_step_size: Annotated[float | None, Option(_STEP, "of the lower steps")] = None
    lower_steps: Annotated[int | None, Option(kinds.whole(1, 32), "lower steps per upper step")] = None
    u: Annotated[
        float | str | None,
        Option(kinds.word_or_number(10.0, "prox", "certified"), "stationarity against preference (wc_mhgd)"),
    ] = None
    reference: Annotated[
        tuple[float, ...] | None,
        Option(kinds.numbers("0 0", -math.inf), "point the preference measures from: one number, or one per objective"),
    ] = None
    average: Annotated[
        float | None, Option(kinds.number(0.9, zero=True, below=1.0), "share of the past in the values the weights see")
    ] = None
    hypergradient: Annotated[str | None, Option(kinds.word(*HYPERGRADIENTS), ", ".join(HYPERGRADIENTS))] = None
    hypergradient_steps: Annotated[int | None, Option(kinds.whole(1, 10), "its steps, or terms of its series")] = None
    hypergradient_step_size: Annotated[float | None, Option(_STEP, "its step size, below 2/L")] = None
    hypergradient_batch: Annotated[int | None, Option(_BATCH, "samples for each of its steps")] = None
    lower_batch: Annotated[int | None, Option(_BATCH, "samples per lower step; batches make the run stochastic")] = None
    upper_batch: Annotated[int | None, Option(_BATCH, "samples per objective")] = None
    cross_batch: Annotated[int | None, Option(_BATCH, "samples for the cross derivatives")] = None
    weights: Annotated[
        tuple[float, ...] | None,
        Option(kinds.numbers("0.5 0.5", zero=True), "of the objectives, for scalarised algorithms; equal by default"),
    ] = None
    adjoint_step_size: Annotated[float | None, Option(_STEP, "of the adjoint (soba, gmoba)")] = None
    tau: Annotated[float | None, Option(kinds.number(0.5), "share of the new sample (stable)")] = None
    bound: Annotated[float | None, Option(kinds.number(10.0), "of the norm of J (stable)")] = None
    convexity: Annotated[float | None, Option(kinds.number(1e-3), "least curvature of the lower level (stable)")] = None
    rho: Annotated[float | None, Option(kinds.number(0.5, zero=True), "forum: fall of the lower gap; moco: ridge")] = None
    averaging: Annotated[float | None, Option(_STEP, "share of new multipliers (forum)")] = None
    tracking: Annotated[float | None, Option(_STEP, "step of the tracked hypergradients (moco)")] = None
    weights_step: Annotated[float | None, Option(_STEP, "step of the weights (moco)")] = None


@command
class Folder:
    """Where results go."""

    out: Annotated[str | None, Option(_FOLDER, "folder for checkpoints and results", stored=False)] = None


@command
class Keep:
    """How the run is kept."""

    resume: Annotated[bool, switch("go on with the run in --out, or read it where it has ended")] = False
    save_every: Annotated[
        float | None, Option(kinds.number(30.0, zero=True), "seconds between checkpoints; 30 by default", stored=False)
    ] = None
    distributed: Annotated[bool, switch("join the processes of a cluster's job (Slurm, Open MPI, Kubernetes)")] = False


@command
class Output:
    """What a command prints."""

    json: Annotated[bool, switch("print one JSON document on standard output and nothing else")] = False
    quiet: Annotated[bool, switch("no progress")] = False


# Fields come in the order of the bases from right to left, and so does the help.
@command
class Solve(Output, Keep, Folder, Method, One, Target):
    """Solve a problem for one preference."""


@command
class Explore(Output, Keep, Folder, Method, Many, Target):
    """Solve a problem for many preferences: a Pareto front."""


@command
class Compare(Output, Folder, Method, Race, Target):
    """Compare algorithms on one problem with equal budgets."""


@command
class Reproduce(Output):
    """Make a figure of the paper: run what is missing, save it, draw it."""

    name: Annotated[str | None, Option(kinds.word(*FIGURES, "all"), "see: bipareto list figures", positional=True)] = None
    preset: Annotated[str | None, Option(kinds.word(*PRESETS), "paper, tuned or quick; tuned by default")] = None
    out: Annotated[str | None, Option(_FOLDER, "folder for results and figures; results by default")] = None
    seeds: Annotated[int | None, Option(kinds.whole(1, 3), "how many; the preset's by default")] = None


@command
class Certify(Output):
    """Enclose the true stationarity gap of every run in a folder."""

    folder: Annotated[str | None, Option(_FOLDER, "what --out named", positional=True)] = None


@command
class Report(Output):
    """Write the report of one folder or several as a self-contained HTML file."""

    folders: Annotated[
        tuple[str, ...] | None,
        Option(kinds.texts("DIR [DIR ...]", "be folders", "pass what --out named"), "what --out named", positional=True),
    ] = None
    to: Annotated[
        str | None,
        Option(kinds.text("FILE.html", "be a file", "pass a name such as report.html"), "report.html in the first folder"),
    ] = None


@command
class Serve:
    """Open a folder's front as a live page: choose, solve again, export."""

    folder: Annotated[str | None, Option(_FOLDER, "what --out named", positional=True)] = None
    host: Annotated[str | None, Option(kinds.text("HOST", "be an address", "pass 127.0.0.1"), "127.0.0.1 by default")] = None
    port: Annotated[int | None, Option(kinds.whole(0, 8000, 65535), "a free one by default")] = None
    allow_remote: Annotated[bool, switch("let other machines connect")] = False
    time_limit: Annotated[float | None, Option(kinds.number(600.0), "seconds for one solve; 600 by default")] = None
    steps: Annotated[int | None, Option(kinds.whole(1, 100), "upper steps of one solve; those of the run by default")] = None
    open_browser: Annotated[bool, switch("open the page")] = False


@command
class List(Output):
    """Problems, algorithms and figures by name."""

    what: Annotated[
        str | None,
        Option(kinds.word("problems", "algorithms", "figures"), "problems, algorithms or figures", positional=True),
    ] = None


@command
class Doctor(Output):
    """Look at this machine: devices, versions, data; solve a small problem and compare with its exact answer."""


COMMANDS: dict[str, type] = {
    "list": List, "solve": Solve, "explore": Explore, "compare": Compare, "reproduce": Reproduce, "certify": Certify,
    "report": Report, "serve": Serve, "doctor": Doctor,
}  # fmt: skip

"""The results of one device as rows for people: what, measured, aim, and whether it was met. Numbers in, words out.

A number that misses its aim is bold; beside it stands by how much, and why. Ratios are judged as printed, to two decimals.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.judge import Aim, Judge, Row, ratio, two

PEERS = ("JAXopt", "PyTorch", "PyTorch, channels last", "TorchOpt", "BOAT", "Betty")
CASES = {"toy": (1, 5), "cleaning": (1, 5), "few_shot": (1, 5)}
SHAPES = ("digits", "MNIST, batch of 1,000", "MNIST, 20,000 images")
CURVES = ("S", "lower_steps", "cg_steps", "q", "p", "runs", "devices")

# Why an aim is missed, on a CPU and on a GPU; shown only where it is.
WHY = {
    "JAXopt": (
        "its temporaries are fewer, since it takes task after task",
        "`hypergradient` spends 1 ms on checks; upper steps are ahead",
    ),
    "PyTorch": ("toy and S = 1 are the same matrix products in both, the CNN the same convolutions", ""),
    "PyTorch, channels last": ("convolutions are most of the time in both", ""),
    "TorchOpt": ("as PyTorch", ""),
    "BOAT": ("as PyTorch", ""),
    "Betty": ("as PyTorch", ""),
    "solve": ("", "a fixed cost of some 15 ms per call, and the launches that record and check"),
    "objectives": ("five times the FLOP, and S = 1 alone comes to 35 to 70 % of this core's matmul rate", ""),
    "minibatch": ("", "the norm of every gradient is taken, a launch of its own"),
    "simplex_qp": ("", "a pivot is a dozen launches, each waiting for the one before: 50 µs"),
}


class Line(NamedTuple):
    """What makes a row: `text(judge, part, *aims)` writes what was measured."""

    group: str
    part: str
    what: str
    text: Callable[..., str]
    aims: tuple[Aim, ...] = ()
    gpu_aims: tuple[Aim, ...] | None = None
    why: str = ""


def rows(results: dict) -> list[Row]:
    """In the order of the table; parts that failed or were not measured say so."""
    gpu = on_gpu(results)
    made = []
    for line in LINES:
        part = results.get(line.part)
        aims = line.gpu_aims if gpu and line.gpu_aims is not None else line.aims
        judge, measured, met, missed = Judge(), "not measured", None, ""
        if part is not None and "failed" in part:
            measured = f"failed: {part['failed']}"
        elif part is not None:
            measured = line.text(judge, part, *aims)
            met, missed = judge.verdict(WHY.get(line.why, ("", ""))[gpu])
        made.append(Row(line.group, line.what, measured, ", ".join(map(str, aims)), met, missed))
    return made


def on_gpu(results: dict) -> bool:
    return any(part["machine"]["device"] != "cpu" for part in results.values())


def race_of(peers: dict, case: str, tasks: int) -> dict | None:
    """On one core of a CPU, or on a GPU."""
    title = f"{case}, S = {tasks}"
    return peers.get(f"{title}, cores = 1", peers.get(title))


def peer_text(peer: str, judge: Judge, part: dict, aim: Aim) -> str:
    """Upper steps, hypergradients in brackets; a wrong answer has no time."""
    reasons, errors, cells = [], [], []
    for case, sizes in CASES.items():
        found = [_raced(peer, race_of(part, case, tasks), judge, aim, reasons, errors) for tasks in sizes]
        cells.append(", ".join(found))
    if reasons and not (judge.found or errors):
        return f"absent: {reasons[0]}"
    wrong = f"; wrong: off by {two(max(errors))} times its length" if errors else ""
    return " · ".join(cells) + wrong


def _raced(peer, race, judge, aim, reasons, errors) -> str:
    if race is None:
        return "–"
    if "failed" in race:
        judge.incomplete = True
        return "failed"
    reasons += [race["absent"][peer]] if peer in race["absent"] else []
    step, slope = (race[what].get(peer) for what in ("upper step", "hypergradient"))
    if step is None or slope is None:
        return "–"
    if step["wrong"] or slope["wrong"]:
        errors.append(max(step["difference"], slope["difference"]))
        return "wrong"
    return f"{judge(step['ratio']['median'], aim)} ({judge(slope['ratio']['median'], aim)})"


def solve_text(judge, part, aim) -> str:
    step, chunk = part["ms_per_step"]["solve"], part["ratio"]["compiled chunk"]
    return f"{judge(part['ratio']['solve'], aim)} ({two(step)} ms a step; its compiled part alone {ratio(chunk)})"


def minibatch_text(judge, part, aim) -> str:
    return f"{judge(part['ratio'], aim)} ({two(part['ms_per_lower_step']['library'])} ms a step)"


def limit_text(oracle: str, judge, part) -> str:
    tables = [part["shapes"][shape]["parts"] for shape in SHAPES if shape in part["shapes"]]
    return (
        " · ".join(", ".join(two(table[s][oracle]["percent_of_limit"]) for s in ("S = 1", "S = 5")) for table in tables)
        + " %"
    )


def program_text(judge, part) -> str:
    found = part["QP, S = 5"]
    return f"{two(found['percent_of_limit'])} % ({two(found['microseconds'])} µs: {found['pivots']} pivots, one by one)"


def objectives_text(judge, part, aim) -> str:
    steps = [shape["upper_step"] for shape in part["shapes"].values()]
    text = " · ".join(judge(step["ratio"], aim) for step in steps)
    least = " · ".join(ratio(step["least_ratio"]) for step in steps)
    return text if judge.met else f"{text} (were S = 5 at the limit: {least})"


def explored_text(judge, part, aim) -> str:
    return ", ".join(judge(part[problem]["ratio"], aim) for problem in ("digits", "quadratic"))


def separable_text(judge, part, aim) -> str:
    one, ten, joint = (part[name] for name in ("S = 1, separable", "S = 10, separable", "S = 10, joint"))
    counts = judge(ten["hvp"] / one["hvp"], aim, f"{ten['hvp']} against {one['hvp']}")
    times = f"{two(ten['ms_per_step'])} ms against {two(joint['ms_per_step'])} ms"
    return f"{counts} ({joint['hvp']} if not said to be separable; a step of S = 10 takes {times})"


def qp_text(judge, part, five, hundred) -> str:
    small, large = (max(part[size]["microseconds"].values()) for size in ("5", "100"))
    return f"{judge(small, five, f'{two(small)} µs')}, {judge(large / 1e3, hundred, f'{two(large / 1e3)} ms')}"


def demo_text(judge, part, aim) -> str:
    first, last = part["seconds"]["first run"], part["seconds"]["table"]
    return f"{judge(last, aim, f'{two(last)} s')} (the first of its runs after {two(first)} s)"


def compilation_text(judge, part) -> str:
    return f"{two(part['trace'])} s + {two(part['compile'])} s"


def flat_text(judge, part, aim) -> str:
    few, many = part["CG"]["10"], part["CG"]["1000"]
    return f"{two(few / 2**20)} MiB, {judge(many / few, aim, f'{two(many / 2**20)} MiB')}"


def unrolled_text(judge, part) -> str:
    return ", ".join(f"{two(part[name]['1000'] / 2**20)} MiB" for name in ("Unrolled", "checkpointed"))


def growth_text(curve: str, judge, part) -> str:
    exponents = {name: part[name]["exponents"][curve]["all"] for name in CURVES if name in part}
    return ", ".join(f"{name} {round(value, 2) + 0.0:.2f}" for name, value in exponents.items())


PEER = (
    "Their time, in ours, on one core or the GPU, for one upper step (one hypergradient): "
    "S = 1, S = 5 of the toy · of cleaning · of the few-shot CNN"
)
LIMIT = "Against the limit of one core or the GPU: S = 1, S = 5 of cleaning digits · MNIST, batch of 1,000 · MNIST, 20,000"
MANY = "Many objectives, many runs"
COST = "Before the first result, and memory"
GROWTH = "Growth with S, `lower_steps`, `cg_steps`, q, p, mapped runs, devices: fitted exponents"
SLOWER, THRICE, FIVEFOLD = ((Aim(bound, least=True),) for bound in (1.0, 3.0, 5.0))
EAGER = {"PyTorch": FIVEFOLD, "PyTorch, channels last": FIVEFOLD}
LINES = (
    *(
        Line(
            PEER,
            "peers",
            peer,
            functools.partial(peer_text, peer),
            SLOWER if peer == "JAXopt" else THRICE,
            EAGER.get(peer),
            peer,
        )
        for peer in PEERS
    ),
    Line(
        LIMIT,
        "overhead",
        "`solve`, in a hand-written jitted loop with the same oracle calls (the demo's 200 steps)",
        solve_text,
        (Aim(1.1),),
        why="solve",
    ),
    Line(
        LIMIT,
        "stochastic",
        "minibatch lower steps, in a hand-written scan (5 models of 784 × 10, batch 1,000)",
        minibatch_text,
        (Aim(1.1),),
        why="minibatch",
    ),
    *(
        Line(LIMIT, "limit", f"{oracle}, share of its matmul or copy rate", functools.partial(limit_text, oracle))
        for oracle in ("lower step", "product H v", "product J v")
    ),
    Line(LIMIT, "limit", "`simplex_qp`, S = 5, share of its matmul rate", program_text),
    Line(
        MANY,
        "limit",
        "upper step of separable cleaning, S = 5 in those of S = 1 (the three shapes above)",
        objectives_text,
        (Aim(2),),
        why="objectives",
    ),
    Line(
        MANY,
        "exploration",
        "25 preferences explored, in single runs: digits, small quadratic",
        explored_text,
        (Aim(25),),
        (Aim(6),),
    ),
    Line(
        MANY,
        "separability",
        "Hessian-vector products of a separable problem in 5 steps, S = 10 against S = 1",
        separable_text,
        (Aim(1, " ×"),),
    ),
    Line(
        MANY,
        "simplex_qp",
        "`simplex_qp` inside jit, float64, slowest of six families: S = 5, S = 100",
        qp_text,
        (Aim(50, " µs"), Aim(5, " ms")),
        why="simplex_qp",
    ),
    Line(COST, "demo", "`make demo`, once installed: its table", demo_text, (Aim(60, " s"),)),
    Line(COST, "compilation", "the demo's step: tracing + compiling, once", compilation_text),
    Line(COST, "memory", "`CG` at 10 and at 1,000 lower steps", flat_text, (Aim(1, " ×"),)),
    Line(COST, "memory", "`Unrolled` at 1,000 lower steps, with `checkpoint=True`", unrolled_text),
    *(
        Line(GROWTH, "growth", what, functools.partial(growth_text, curve))
        for what, curve in (
            ("time of an upper step", "milliseconds"),
            ("memory", "mebibytes"),
            ("compile time", "compile_seconds"),
        )
    ),
)

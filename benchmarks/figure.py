"""One picture of what was measured on a device: peers, percentages of the limit, growth."""

import pathlib
import textwrap

from benchmarks.judge import ratio
from benchmarks.rows import CASES, CURVES, PEERS, SHAPES, on_gpu, race_of
from bipareto.front import looks

NAMES = {"toy": "toy", "cleaning": "hyper-cleaning", "few_shot": "few-shot CNN"}
ORACLES = {"lower step": "lower step", "product H v": "Hessian-vector\nproduct H v", "product J v": "cross product\nJ v"}
SIZES = {"S": "objectives S", "p": "p (upper variables)", "q": "q (lower variables)", "runs": "mapped runs"}

BELOW = {"fontsize": 8, "loc": "upper center", "bbox_to_anchor": (0.45, -0.1), "ncols": 2}


def draw(results: dict, title: str, file: pathlib.Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = {"peers": peers, "limit": limit, "growth": growth}
    figure, grid = plt.subplots(1, 3, figsize=(16, 7), layout="constrained", width_ratios=(1.3, 1, 1))
    for (part, panel), axes in zip(panels.items(), grid, strict=True):
        found = results.get(part, {"failed": "not measured"})
        if "failed" in found:
            axes.text(0.5, 0.5, textwrap.fill(f"{part}: {found['failed']}", 40), ha="center", transform=axes.transAxes)
            axes.axis("off")
        else:
            panel(axes, found, on_gpu(results))
    machine = next(results[part]["machine"] for part in panels if part in results)
    figure.suptitle(f"{title}, JAX {machine['jax']}, {machine['date']}", fontsize=13)
    figure.savefig(file, dpi=110)
    plt.close(figure)
    print(f"written: {file}")


def peers(axes, part: dict, gpu: bool) -> None:
    """Bars from 1: upper steps; diamonds: hypergradients; wrong answers hatched."""
    place, ticks, ratios, shown = 0.0, {}, [], set()
    for case, tasks in ((case, tasks) for case, sizes in CASES.items() for tasks in sizes):
        race = race_of(part, case, tasks) or {"failed": ""}
        names = [] if "failed" in race else [peer for peer in PEERS if peer in race["upper step"]]
        ticks[place + (len(names) - 1) / 2] = f"{NAMES[case]}\nS = {tasks}" + ("" if names else "\n(no results)")
        for peer in names:
            ratios += _bar(axes, place, peer, race)
            place += 1
        shown |= set(names)
        place += 1
    aim = 5 if gpu else 3
    axes.set_xscale("log")
    axes.set_xlim(min([0.8, *ratios]) * 0.85, max([aim, *ratios]) * 1.5)
    axes.axvline(1, color="0.2", linewidth=1.2)
    axes.axvline(aim, color="0.2", linewidth=1.2, linestyle="--")
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.invert_yaxis()
    axes.set(xlabel="their time / our time for one upper step (log scale)", title="Against peers: right of 1 we are faster")
    low, high = axes.get_xlim()
    marks = [mark for mark in (0.2, 0.5, 0.7, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500) if low <= mark <= high]
    axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
    axes.minorticks_off()
    axes.grid(axis="x", alpha=0.3)
    axes.legend(handles=_peer_legend(shown, f"{aim} ×: aim for PyTorch" + ("" if gpu else " peers")), **BELOW)


def _bar(axes, place: float, peer: str, race: dict) -> list[float]:
    """The two ratios it shows."""
    step, slope = (race[what][peer]["ratio"]["median"] for what in ("upper step", "hypergradient"))
    wrong, colour = race["upper step"][peer]["wrong"], looks.COLOURS[PEERS.index(peer)]
    look = {"facecolor": "white", "hatch": "////"} if wrong else {"facecolor": colour}
    axes.barh(place, step - 1, left=1, edgecolor=colour, **look)
    axes.plot(slope, place, "D", color="0.2", markersize=4, markerfacecolor="white")
    text, end = ratio(step) + (" wrong" if wrong else ""), max(step, slope, 1)
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    axes.annotate(text, (end, place), (5, 0), textcoords="offset points", va="center", fontsize=7, bbox=behind)
    return [step, slope]


def _peer_legend(shown: set[str], aim: str) -> list:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    dark = {"color": "0.2"}
    return [
        *(Patch(color=colour, label=peer) for peer, colour in zip(PEERS, looks.COLOURS, strict=False) if peer in shown),
        Patch(facecolor="white", edgecolor="0.4", hatch="////", label="its answer is wrong"),
        Line2D([], [], marker="D", markerfacecolor="white", linestyle="", markersize=4, label="one hypergradient", **dark),
        Line2D([], [], label="1 ×: aim for JAXopt", **dark),
        Line2D([], [], linestyle="--", label=aim, **dark),
    ]


def limit(axes, part: dict, gpu: bool) -> None:
    shapes = [shape for shape in SHAPES if shape in part["shapes"]]
    for row, oracle in enumerate(ORACLES):
        for index, shape in enumerate(shapes):
            for tasks, hatch in ((1, "///"), (5, "")):
                value = part["shapes"][shape]["parts"][f"S = {tasks}"][oracle]["percent_of_limit"]
                place = 8 * row + 2 * index + (tasks == 5)
                look = {"facecolor": "white", "hatch": hatch} if hatch else {"facecolor": looks.COLOURS[index]}
                label = f"{shape}, S = {tasks}" if row == 0 else None
                axes.barh(place, value, edgecolor=looks.COLOURS[index], label=label, **look)
                axes.text(value + 1, place, f"{value:.2g}", va="center", fontsize=8)
    axes.set_yticks([8 * row + len(shapes) - 0.5 for row in range(len(ORACLES))], list(ORACLES.values()))
    axes.invert_yaxis()
    place = "this GPU" if gpu else "this core"
    axes.set(xlim=(0, 100), xlabel=f"% of the limit: matmul or copy rate of {place}", title="Against the limit")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(**BELOW)


def growth(axes, part: dict, gpu: bool) -> None:
    names = [name for name in CURVES if name in part and name != "devices"]
    widest = 1.0
    for index, name in enumerate(names):
        sizes, times = part[name]["size"], part[name]["milliseconds"]
        power = part[name]["exponents"]["milliseconds"]["all"]
        label = f"{SIZES.get(name, name)}, {sizes[0]} to {sizes[-1]}: exponent {power:.2f}"
        axes.loglog([size / sizes[0] for size in sizes], [t / times[0] for t in times], label=label, **looks.style(index))
        widest = max(widest, sizes[-1] / sizes[0])
    axes.loglog([1, widest], [1, widest], color="0.5", linestyle=":", label="proportional")
    axes.set(xlabel="size, first = 1", ylabel="time of an upper step, first = 1", title="Growth of an upper step's time")
    axes.set_ylim(top=4 * widest)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper left")

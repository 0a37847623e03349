"""The demo's figure, drawn from its saved numbers only."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours: told apart with any colour vision.
COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "x")


def draw(results: dict) -> Figure:
    """Left: the loss of every task under every preference. Right: what the images weigh, by how often they mislead."""
    figure, (losses, weights) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    rates = [100 * rate for rate in results["rates"]]
    runs = dict(results["runs"])
    losses.plot(rates, runs.pop("not cleaned")["losses"], color="0.6", linestyle=":", label="not cleaned")
    for index, (name, run) in enumerate(runs.items()):
        style = {"color": COLOURS[index], "marker": MARKERS[index], "markersize": 5, "linewidth": 1.5}
        if index == len(rates):
            style["linestyle"] = "--"
        losses.plot(rates, run["losses"], label=name, **style)
        if index < len(rates):
            losses.plot(rates[index], run["losses"][index], "o", ms=13, mfc="none", mec=COLOURS[index], mew=1.5)
        weights.plot(range(len(rates)), run["weight_by_rate"], **style)
    _label(losses, weights, rates)
    figure.legend(*losses.get_legend_handles_labels(), loc="outside lower center", ncols=7, title="preferred task")
    return figure


def _label(losses: Axes, weights: Axes, rates: list[float]) -> None:
    losses.set_xlabel("wrong labels of the task [%]")
    losses.set_ylabel("validation loss [nats]")
    losses.set_xticks(rates)
    losses.set_title("Each preference lowers its own task (ring)")
    weights.set_ylabel("mean weight σ(x) of the images")
    weights.set_xlabel("rate from which on the label is wrong [%]")
    weights.set_xticks(range(len(rates)), [f"{rate:.0f}" for rate in rates[1:]] + ["never"])
    weights.set_ylim(-0.03, 1.03)
    weights.set_title("What was learned: whom to trust")
    for axes in (losses, weights):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)

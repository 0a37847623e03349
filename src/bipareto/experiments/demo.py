"""`make demo`: clean digits whose labels are wrong at five rates, once under each preference and once without any.

Prints a table of validation losses (rows: preferences), saves the numbers, a figure and a report in `demo-results`.
"""

import argparse
import json
import pathlib
import time

import jax
import numpy as np

from bipareto import preferences
from bipareto.algorithms import mgda, wc_mhgd
from bipareto.experiments.demo_figure import draw
from bipareto.experiments.hyper_cleaning import Split, accuracy
from bipareto.experiments.small import DIGITS, RATES, SIZES, digits_cleaning
from bipareto.front import Front
from bipareto.hypergradient import hypergradient
from bipareto.lower import GradientDescent
from bipareto.report import Run, write_report
from bipareto.solver import Solution, solve
from bipareto.store import environment


def run(steps: int = 200, seed: int = 0) -> tuple[dict, list[Solution]]:
    """All runs of the demo, as plain numbers and as they are."""
    problem, x0, y0, train, noisy, _, test, _ = digits_cleaning(seed)
    runs = {f"{rate:.0%} wrong": r for rate, r in zip(RATES, preferences.focused(len(RATES), peak=0.8), strict=True)}
    before, _ = hypergradient(problem, x0, y0, lower=GradientDescent(DIGITS["lower_step_size"], steps=2000))
    table, solutions = {"not cleaned": {"losses": before.tolist()}}, []
    for name, preference in {**runs, "no preference": None}.items():
        algorithm = mgda(**DIGITS) if preference is None else wc_mhgd(preference, **DIGITS)
        began = time.perf_counter()
        solution = solve(problem, algorithm, x0, y0, steps=steps)
        if solution.status.failed:
            raise SystemExit(f"{name}: {solution.message}")
        print(f"  {name:<14} {time.perf_counter() - began:5.1f} s, gap {solution.history.gap[-1]:.1e}", flush=True)
        solutions.append(solution)
        table[name] = {
            "losses": solution.values.tolist(),
            "test_accuracy": accuracy(solution.y, test).tolist(),
            "weight_by_rate": _weights(solution.x, train, noisy),
            "gap": solution.history.gap.tolist(),
        }
    return {"rates": RATES, "steps": steps, "seed": seed, "runs": table}, solutions


def report_of(results: dict, solutions: list[Solution]) -> list[Run]:
    """What the report shows: the runs under a preference as one front, the one without as another."""
    names = tuple(f"loss, {rate:.0%} wrong [nats]" for rate in RATES)
    settings = {**DIGITS, "hypergradient": "CG(steps=10)", "steps": results["steps"], "seed": results["seed"]}
    command = f"python -m bipareto.experiments.demo --steps {results['steps']} --seed {results['seed']}"
    facts = {"settings": settings, "versions": environment(), "command": command}
    preferred = Front(preferences.focused(len(RATES), peak=0.8), [[one] for one in solutions[:-1]], names=names)
    return [Run("WC-MHGD", preferred, facts), Run("MGDA", Front(None, [solutions[-1:]], names=names), facts)]


def _weights(x: jax.Array, train: Split, noisy: np.ndarray) -> list[float]:
    """Mean weight of the images by the rate from which on their label is wrong; last: of those that are never wrong."""
    wrong_in = np.sum(noisy != train.labels, axis=0)
    weight = np.asarray(jax.nn.sigmoid(x))
    return [float(weight[wrong_in == len(RATES) - rate].mean()) for rate in range(1, len(RATES))] + [
        float(weight[wrong_in == 0].mean())
    ]


def table(results: dict) -> str:
    """Losses; the lowest of every column carries a star."""
    rows = {name: run["losses"] for name, run in results["runs"].items()}
    lowest = np.min(list(rows.values()), axis=0)
    header = f"{'preferred task':<16}" + "".join(f"{f'{rate:.0%} wrong':>12}" for rate in results["rates"])
    lines = [header]
    for name, losses in rows.items():
        cells = [f"{loss:.4f}" + ("*" if loss == low else " ") for loss, low in zip(losses, lowest, strict=True)]
        lines.append(f"{name:<16}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bipareto.experiments.demo", description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo-results"), help="folder for the results")
    parser.add_argument("--steps", type=int, default=200, help="upper steps of each run")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the wrong labels")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps must be >= 1; found {arguments.steps}")
    arguments.out.mkdir(parents=True, exist_ok=True)

    print(f"Hyper-cleaning of {SIZES[0]} handwritten digits, {len(RATES)} tasks whose labels are wrong at different rates.")
    print(f"{arguments.steps} upper steps of WC-MHGD for each preferred task, then without a preference (MGDA):")
    results, solutions = run(arguments.steps, arguments.seed)
    (arguments.out / "hyper_cleaning.json").write_text(json.dumps(results, indent=1))
    print(f"\nLoss on clean validation images; * lowest of its column:\n\n{table(results)}\n")
    figure = arguments.out / "hyper_cleaning.png"
    draw(json.loads((arguments.out / "hyper_cleaning.json").read_text())).savefig(figure, dpi=150)
    report = write_report(report_of(results, solutions), arguments.out / "report.html")
    print(f"Numbers: {arguments.out / 'hyper_cleaning.json'}\nFigure:  {figure}\nReport:  {report}")


if __name__ == "__main__":
    main()

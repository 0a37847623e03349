"""`python -m benchmarks.summary`: the README's table and the figures, from the results of all devices."""

import importlib.util
import json
import pathlib
import sys

from benchmarks.judge import Row
from benchmarks.rows import LINES, on_gpu, rows

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DEVICES = ("cpu", "nvidia-h200")  # the first columns; other devices follow
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PICTURED = {"peers", "limit", "growth"}


def measured() -> dict[str, dict]:
    """Device -> its results; the folder also holds results of studies, which are no parts of `make bench`."""
    parts = {line.part for line in LINES}
    files = sorted(RESULTS.glob("*.json"), key=lambda file: (file.stem not in DEVICES, file.stem))
    found = {file.stem: json.loads(file.read_text()) for file in files}
    return {name: results for name, results in found.items() if parts & set(results)}


def report(devices: dict[str, dict]) -> str:
    """Markdown: hardware, versions and dates, one table, the figures."""
    lines = [
        "✓ aim met; ✗ missed: the numbers in bold, by how much, and why. Two aims: on a CPU / on a GPU. Times compared are "
        "medians of interleaved rounds, in float32 unless said, ratios judged "
        "as printed; peers' answers are checked against float64 first.",
        "",
    ]
    lines += [
        f"- **{title(results)}**: {where(results)} ([all numbers](benchmarks/results/{name}.json))"
        for name, results in devices.items()
    ]
    lines += ["", *table({title(results): rows(results) for results in devices.values()})]
    for name, results in devices.items():
        if pictured(results):
            text = f"Peers, limit and growth on {title(results)}"
            lines += ["", f"![{text}](docs/benchmarks-{name}.png)"]
    curves = [
        f"[{title(results)}](docs/growth-{name}.png)"
        for name, results in devices.items()
        if "S" in results.get("growth", {})
    ]
    if curves:
        lines += ["", f"Growth of time, memory and compile time, curve by curve: {', '.join(curves)}."]
    return "\n".join(lines)


def title(results: dict) -> str:
    """Of a device."""
    machine = newest(results)
    return machine["device"] if on_gpu(results) else f"{machine['cores']} cores, {machine['cpu']}"


def newest(results: dict) -> dict:
    return max((part["machine"] for part in results.values()), key=lambda machine: machine["date"])


def where(results: dict) -> str:
    """Versions and dates; parts may be measured at different times."""
    machines = [part["machine"] for part in results.values()]
    jax, python = (", ".join(sorted({machine[key] for machine in machines})) for key in ("jax", "python"))
    dates = sorted({machine["date"] for machine in machines})
    text = f"JAX {jax}, Python {python}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}"
    versions = {
        peer: version for race in results.get("peers", {}).values() for peer, version in race.get("versions", {}).items()
    }
    peers = ", ".join(f"{peer} {version}" for peer, version in versions.items())
    beside = f"beside {newest(results)['cpu']}; " if on_gpu(results) else ""
    return f"{beside}{text}" + (f"; {peers}" if peers else "")


def table(devices: dict[str, list[Row]]) -> list[str]:
    """Lines of Markdown: one column per device, its rows side by side, groups under a heading of their own."""
    lines = [f"| what | aim | {' | '.join(devices)} |", f"|---|---|{'---|' * len(devices)}"]
    group = ""
    for found in zip(*devices.values(), strict=True):
        if found[0].group != group:
            group = found[0].group
            lines.append(f"| **{group}** | | {' | ' * (len(found) - 1)}|")
        aims = list(dict.fromkeys(row.aim for row in found))
        aim = aims[0] if len(aims) == 1 else " / ".join(row.aim for row in found)
        lines.append(f"| {found[0].what} | {aim} | {' | '.join(map(cell, found))} |")
    return lines


def cell(row: Row) -> str:
    if row.measured == "not measured":
        return "–"
    mark = {None: "", True: "✓ ", False: "✗ "}[row.met]
    return mark + row.measured.replace("|", "/") + (f"; {row.missed}" if row.missed else "")


def pictured(results: dict) -> bool:
    """Whether there is something to draw."""
    return any(part in results and "failed" not in results[part] for part in PICTURED)


def rewritten(readme: str, text: str) -> str:
    """The README with `text` between the marks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(
            f"README.md must hold the lines {BEGIN} and {END}, in this order; found no such pair; put them back"
        )
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main() -> None:
    devices = measured()
    text = report(devices)
    readme = ROOT / "README.md"
    readme.write_text(rewritten(readme.read_text(), text))
    print(f"\n{text}\n\nwritten: {readme}")
    if importlib.util.find_spec("matplotlib") is None:
        print("no figures: matplotlib is not installed", file=sys.stderr)
        return
    from benchmarks import figure, growth

    for name, results in devices.items():
        if pictured(results):
            figure.draw(results, title(results), ROOT / "docs" / f"benchmarks-{name}.png")
        if "S" in results.get("growth", {}):
            growth.draw(results["growth"], results["growth"]["machine"])


if __name__ == "__main__":
    main()

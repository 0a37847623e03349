"""`make bench`: run all benchmarks on this machine and write benchmarks/results/<device>.json."""

import json
import pathlib
import re

from benchmarks import exploration, measure, overhead, simplex_qp, stochastic, structure

PARTS = {
    "overhead": overhead.run,
    "separability": structure.separability,
    "memory": structure.memory,
    "compilation": structure.compilation,
    "exploration": exploration.run,
    "simplex_qp": simplex_qp.run,
    "stochastic": stochastic.run,
}


def main() -> None:
    results = {"machine": measure.machine()}
    print(results["machine"])
    for name, part in PARTS.items():
        print(f"\n{name}")
        results[name] = part()
    folder = pathlib.Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    file = folder / (re.sub(r"\W+", "-", results["machine"]["device"].lower()) + ".json")
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten: {file}")


if __name__ == "__main__":
    main()

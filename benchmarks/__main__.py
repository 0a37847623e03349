"""`make bench`: run all benchmarks on this machine and write benchmarks/results/<device>.json."""

import json
import pathlib

from benchmarks import exploration, growth, limit, measure, overhead, simplex_qp, stochastic, structure

PARTS = {
    "overhead": overhead.run,
    "separability": structure.separability,
    "memory": structure.memory,
    "compilation": structure.compilation,
    "exploration": exploration.run,
    "simplex_qp": simplex_qp.run,
    "stochastic": stochastic.run,
    "limit": limit.run,
    "growth": growth.run,
}


def main() -> None:
    results = {"machine": measure.machine()}
    print(results["machine"])
    for name, part in PARTS.items():
        print(f"\n{name}")
        results[name] = part()
    folder = pathlib.Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    file = folder / f"{measure.file_name(results['machine'])}.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten: {file}")
    growth.draw(results["growth"], results["machine"])


if __name__ == "__main__":
    main()

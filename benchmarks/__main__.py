"""`make bench`: run all benchmarks on this machine and write benchmarks/results/<device>.json.

`python -m benchmarks NAME ...` runs the named ones and keeps what the file holds of the others.
"""

import json
import pathlib
import sys

from benchmarks import exploration, growth, limit, measure, overhead, peers, simplex_qp, stochastic, structure

PARTS = {
    "overhead": overhead.run,
    "separability": structure.separability,
    "memory": structure.memory,
    "compilation": structure.compilation,
    "exploration": exploration.run,
    "simplex_qp": simplex_qp.run,
    "stochastic": stochastic.run,
    "peers": peers.run,
    "limit": limit.run,
    "growth": growth.run,
}


def main() -> None:
    names = sys.argv[1:] or list(PARTS)
    if unknown := set(names) - set(PARTS):
        sys.exit(f"names must be among {', '.join(PARTS)}; found {', '.join(unknown)}")
    machine = measure.machine()
    print(machine)
    folder = pathlib.Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    file = folder / f"{measure.file_name(machine)}.json"
    results = json.loads(file.read_text()) if sys.argv[1:] and file.exists() else {}
    results["machine"] = machine
    for name in names:
        print(f"\n{name}")
        results[name] = PARTS[name]()
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten: {file}")
    if "growth" in names:
        growth.draw(results["growth"], machine)


if __name__ == "__main__":
    main()

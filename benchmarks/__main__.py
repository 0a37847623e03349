"""`make bench`: run all benchmarks on this machine, write benchmarks/results/<device>.json, the README's table and figures.

`python -m benchmarks NAME ...` runs the named ones; what the file holds of the others stays. The file is written after
every part. A part that fails is recorded as such, the others still run, and the exit code is 1.
"""

import json
import os
import pathlib
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence

from benchmarks import (
    exploration,
    first_result,
    growth,
    limit,
    measure,
    overhead,
    peers,
    simplex_qp,
    stochastic,
    structure,
    summary,
)

PARTS: dict[str, Callable[[], dict]] = {
    "demo": first_result.run,
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


def attempted(part: Callable[[], dict]) -> dict:
    """What the part measured, or why it could not."""
    try:
        return part()
    except subprocess.CalledProcessError as error:  # its own text names this machine's folders; the process said why
        return {"failed": f"a process ended with exit code {error.returncode}"}
    except Exception as error:  # whatever went wrong, the other parts are still worth measuring
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}


def measured(parts: dict[str, Callable[[], dict]], file: pathlib.Path, machine: dict) -> bool:
    """Run the parts, written to the file one by one. Whether all of them were measured."""
    results = json.loads(file.read_text()) if file.exists() else {}
    began = time.perf_counter()
    for number, (name, part) in enumerate(parts.items(), 1):
        print(f"\n{name}: part {number} of {len(parts)}, {time.perf_counter() - began:.0f} s so far", flush=True)
        results[name] = attempted(part) | {"machine": machine}
        unfinished = file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(results, indent=1) + "\n")
        unfinished.replace(file)
        for failure in failures(results[name]):
            print(f"{name} failed: {failure}", flush=True)
    print(f"\ndone in {time.perf_counter() - began:.0f} s, written: {file}")
    return not any(failures(results[name]) for name in parts)


def failures(part: dict) -> list[str]:
    """Of the part itself, or of single races in it."""
    return [piece["failed"] for piece in (part, *part.values()) if isinstance(piece, dict) and "failed" in piece]


def main(arguments: Sequence[str] = ()) -> None:
    if unknown := set(arguments) - set(PARTS):
        sys.exit(f"names must be among {', '.join(PARTS)}; found {', '.join(sorted(unknown))}")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # some parts are processes that share the GPU with this
    machine = measure.machine()
    print(machine)
    summary.RESULTS.mkdir(exist_ok=True)
    file = summary.RESULTS / f"{measure.file_name(machine)}.json"
    try:
        whole = measured({name: PARTS[name] for name in arguments or PARTS}, file, machine)
    except KeyboardInterrupt:
        print(f"\nstopped; the parts measured so far are in {file}")
        sys.exit(130)
    summary.main()
    sys.exit(not whole)


if __name__ == "__main__":
    main(sys.argv[1:])

"""`python -m benchmarks.peers CASE TASKS CORES FILE`: one race, written to FILE."""

import json
import os
import pathlib
import sys


def main() -> None:
    case, tasks, cores, file = sys.argv[1:]
    allowed = sorted(os.sched_getaffinity(0))
    if int(cores) > len(allowed):
        sys.exit(f"`cores` must be at most {len(allowed)} on this machine; found {cores}")
    os.sched_setaffinity(0, allowed[: int(cores)])

    from benchmarks.peers import race  # its libraries count the cores when they are imported

    pathlib.Path(file).write_text(json.dumps(race.run(case, int(tasks), int(cores))))


if __name__ == "__main__":
    main()

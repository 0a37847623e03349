"""`python -m benchmarks.peers FILE DEVICE CORES CASE,TASKS ...`: races, written to FILE one by one. DEVICE: cpu or cuda."""

import json
import os
import pathlib
import sys
import traceback

from benchmarks.peers import title_of


def main() -> None:
    file, device, count, *races = sys.argv[1:]
    allowed, cores = sorted(os.sched_getaffinity(0)), int(count)
    if cores > len(allowed):
        sys.exit(f"`cores` must be at most {len(allowed)} on this machine; found {cores}")
    os.sched_setaffinity(0, allowed[:cores])

    from benchmarks.peers import race  # its libraries count the cores when they are first used

    found = {}
    for case, tasks in (text.split(",") for text in races):
        title = title_of(device, cores, case, int(tasks))
        try:
            found[title] = race.run(title, case, int(tasks), cores, device)
        except Exception as error:  # the other races are still worth running
            traceback.print_exc()
            found[title] = {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
        pathlib.Path(file).write_text(json.dumps(found))


if __name__ == "__main__":
    main()

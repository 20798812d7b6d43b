"""``python -m benchmarks``: train every workload with every contender in turn, and compare."""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.contenders import CONTENDERS
from benchmarks.measure import training_process
from benchmarks.report import Figures, as_markdown, machine, write_page
from benchmarks.workloads import WORKLOADS


def main() -> None:
    """Measure, print the tables as Markdown, and write what was measured as JSON."""
    options = _options()
    figures: Figures = {"throughput": {}, "start": {}}
    for workload in options.workloads:
        print(f"{workload} ...", file=sys.stderr, flush=True)
        figures["throughput"][workload] = measure_throughput(workload, options.alternations)
    if not options.no_start:
        figures["start"] = measure_start(options.alternations)
    found: dict[str, Any] = {"machine": machine(), "alternations": options.alternations, **figures}
    options.json.write_text(json.dumps(found, indent=1) + "\n")
    tables = as_markdown(figures)
    print(tables)
    is_whole = options.workloads == list(WORKLOADS) and not options.no_start
    if options.page and is_whole:
        write_page(options.page, tables, found["machine"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("--alternations", type=int, default=5, metavar="N")
    parser.add_argument("--json", type=Path, default=Path("benchmarks.json"), metavar="FILE")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="a page to put the tables of a whole run into"
    )
    parser.add_argument("--no-start", action="store_true", help="leave out the time to start")
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"of: {', '.join(WORKLOADS)}"
    )
    options = parser.parse_args()
    if unknown := set(options.workloads) - WORKLOADS.keys():
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    options.workloads = options.workloads or list(WORKLOADS)
    return options


def measure_throughput(workload: str, alternations: int) -> dict[str, list[float]]:
    """Batches per second of each contender, in turn, after one training that is not counted."""
    found: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    with contextlib.ExitStack() as stack:
        processes = {
            name: stack.enter_context(training_process(name, WORKLOADS[workload].ranks))
            for name in CONTENDERS
        }
        for process in processes.values():
            process.train(workload)
        for _ in range(alternations):
            for name, process in processes.items():
                found[name].append(process.train(workload)["batches_per_second"])
    return found


def measure_start(alternations: int) -> dict[str, dict[str, list[float]]]:
    """Seconds from the start of a process to its first batch, its peak memory, and imports."""
    found: dict[str, dict[str, list[float]]] = {
        "seconds to the first batch": {name: [] for name in CONTENDERS},
        "peak memory in MiB": {name: [] for name in CONTENDERS},
        "import in ms": {name: [] for name in _IMPORTS},
    }
    for _ in range(alternations):
        for name in CONTENDERS:
            with training_process(name) as process:
                result = process.train("digits CNN", batches=60, warm_up=1)
            found["seconds to the first batch"][name].append(result["seconds_to_first_batch"])
            found["peak memory in MiB"][name].append(result["peak_mib"])
        for name, statement in _IMPORTS.items():
            found["import in ms"][name].append(_milliseconds(statement))
    return found


_IMPORTS = {
    "nothing": "pass",
    "det_compat": "import det_compat",
    "torch": "import torch",
    "det_compat.pytorch": "import det_compat.pytorch",
    "pytorch_lightning": "import pytorch_lightning",
    "det_compat.to_lightning": "from det_compat import to_lightning",
}


def _milliseconds(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()

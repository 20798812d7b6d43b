"""``python -m benchmarks``: measure every part in turn, and compare."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import growth, resuming, saving, starts
from benchmarks.contenders import CONTENDERS
from benchmarks.measure import TrainingProcess, training_process
from benchmarks.plots import draw
from benchmarks.report import as_markdown, machine, write_page
from benchmarks.workloads import WORKLOADS, Workload

Part = Callable[[argparse.Namespace], Any]


def main() -> None:
    """Measure, print the tables as Markdown, and write what was measured as JSON."""
    options = _options()
    found: dict[str, Any] = {
        "machine": machine(),
        "alternations": options.alternations,
        "quick": options.quick,
    }
    for name in options.parts:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found[name] = PARTS[name](options)
        # Whoever ends it has what is measured so far.
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    print(as_markdown(found))
    is_whole = options.parts == list(PARTS) and options.workloads == list(WORKLOADS)
    if options.page and is_whole and not options.quick:
        # The tables and the plots of a page are of the one file that lies beside it.
        (options.page.with_name("benchmarks.json")).write_text(json.dumps(found, indent=1) + "\n")
        draw(found, options.page.parent)
        write_page(options.page, found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("--alternations", type=int, default=3, metavar="N")
    parser.add_argument("--json", type=Path, default=Path("benchmarks.json"), metavar="FILE")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="a page to put the tables of a whole run into"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="leave out the others"
    )
    parser.add_argument(
        "--quick", action="store_true", help="only the small sizes; the page is left as it is"
    )
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"of: {', '.join(WORKLOADS)}"
    )
    options = parser.parse_args()
    if unknown := set(options.workloads) - WORKLOADS.keys():
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    if options.workloads:
        options.parts = ["throughput"]
    options.workloads = options.workloads or list(WORKLOADS)
    return options


def measure_throughput(
    workloads: Sequence[str], alternations: int
) -> dict[str, dict[str, list[float]]]:
    """Batches per second of each contender, in turn, after a short training that is not counted."""
    found: dict[str, dict[str, list[float]]] = {}
    for ranks in sorted({WORKLOADS[name].ranks for name in workloads}):
        with contextlib.ExitStack() as stack:
            processes = {
                name: stack.enter_context(training_process(name, ranks)) for name in CONTENDERS
            }
            for name in (name for name in workloads if WORKLOADS[name].ranks == ranks):
                found[name] = _in_turn(processes, WORKLOADS[name], alternations)
    return found


def _in_turn(
    processes: Mapping[str, TrainingProcess], workload: Workload, alternations: int
) -> dict[str, list[float]]:
    few = workload.warm_up + (workload.batches - workload.warm_up) // 4
    for process in processes.values():
        process.train(workload.name, batches=few - few % workload.aggregation)
    found: dict[str, list[float]] = {name: [] for name in processes}
    for _ in range(alternations):
        for name, process in processes.items():
            found[name].append(process.train(workload.name)["batches_per_second"])
    return found


#: The parts of a run, in their order.
PARTS: dict[str, Part] = {
    "throughput": lambda options: measure_throughput(options.workloads, options.alternations),
    "start": lambda options: starts.in_small_process(
        "benchmarks.starts", str(options.alternations)
    ),
    "growth": lambda options: growth.measure_growth(
        [*growth.GROWTH], largest=10 if options.quick else sys.maxsize
    ),
    "saving": lambda options: saving.measure_saving(100 if options.quick else sys.maxsize),
    "resuming": lambda options: resuming.measure_resumes(10_000 if options.quick else sys.maxsize),
    "tools": lambda options: starts.in_small_process(
        "benchmarks.tools", str(10 if options.quick else sys.maxsize)
    ),
}


if __name__ == "__main__":
    main()

"""Run Determined's own tests under both: ``python -m tests.determined [--only PART]``.

It takes the path of a checkout of Determined's repository at 0.38.1 from ``DETERMINED_SOURCE``;
none of its files is a part of this project.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.determined.comparison import Comparison, compare, reasons
from tests.determined.running import PARTS, run, workplace


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.determined", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; more than once")
    parser.add_argument("--logs", type=Path, help="a folder for what pytest prints")
    args = parser.parse_args()
    source = os.environ.get("DETERMINED_SOURCE")
    if not source:
        print(
            "skipped: Determined's tests are not a part of this project. Set DETERMINED_SOURCE to "
            "a checkout of its repository at 0.38.1"
        )
        return 0
    with tempfile.TemporaryDirectory(prefix="determined-tests-") as folder:
        harness = workplace(Path(source), Path(folder))
        logs = args.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        found = {part: _compared(harness, part, logs) for part in args.only or PARTS}
    print(table(found))
    return int(any(one.unexplained or one.stale for one in found.values()))


def _compared(harness: Path, part: str, logs: Path) -> Comparison:
    print(f"{part} ...", file=sys.stderr, flush=True)
    slug = part.replace(" ", "-")
    outcomes = [
        run(harness, PARTS[part], aliases=aliases, log=logs / f"{slug}-{name}.log")
        for name, aliases in (("real", False), ("alias", True))
    ]
    return compare(*outcomes, reasons())


def table(found: dict[str, Comparison]) -> str:
    """The parts with their counts, the reasons, and what has none."""
    lines = ["part                  real   both   only real   only here"]
    rows = {**found, "all": _sum(found)}
    for part, one in rows.items():
        only = len(one.explained) + len(one.unexplained)
        counts = f"{one.real:7}{len(one.both):7}{only:12}{len(one.gained):12}"
        lines.append(f"{part:20}{counts}")
    whole = rows["all"]
    for reason, count in Counter(whole.explained.values()).most_common():
        lines.append(f"{count:4} only real: {reason}")
    lines += [f"UNEXPLAINED {test}: {why}" for test, why in whole.unexplained.items()]
    lines += [f"STALE the list explains what passes: {pattern}" for pattern in whole.stale]
    return "\n".join(lines)


def _sum(found: dict[str, Comparison]) -> Comparison:
    whole = Comparison()
    for one in found.values():
        whole.both += one.both
        whole.gained += one.gained
        whole.stale += one.stale
        whole.explained |= one.explained
        whole.unexplained |= one.unexplained
    return whole


if __name__ == "__main__":
    sys.exit(main())

"""``make matrix``: the tests with the lowest and the newest versions that pyproject.toml allows.

Each end gets an environment of its own in ``$MATRIX_DIR`` (``.matrix``), which is built where it is
missing. torch from PyPI brings its CUDA packages, about 3 GB; an index with CPU builds will do as
well: ``PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make matrix``.
"""

import argparse
import itertools
import os
import sys
from pathlib import Path

from tests.matrix.environments import ENDS, build
from tests.matrix.outcome import TITLE, Outcome, run_tests, write_page

ROOT = Path(__file__).parents[2]


def main() -> int:
    options = parsed()
    folder = Path(os.environ.get("MATRIX_DIR", ROOT / ".matrix")).resolve()
    outcomes = []
    pythons = itertools.cycle(options.python or [sys.executable])
    for end, python in zip(options.only or ENDS, pythons, strict=False):
        inside = build(end, folder / end, python)
        outcomes.append(run_tests(end, inside, folder, options.pytest_args))
    print(TITLE, *map(Outcome.row, outcomes), sep="\n")
    if options.page is not None:
        write_page(options.page, outcomes)
    return 0 if all(outcome.is_green for outcome in outcomes) else 1


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--only", action="append", choices=ENDS, help="one end, and not both")
    parser.add_argument(
        "--python", action="append", help="the Python of the environments; one for each end, if two"
    )
    parser.add_argument("--page", type=Path, help="a page to put the table into")
    parser.add_argument("pytest_args", nargs="*", help="what pytest is given, after --")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""What the tests said in an environment, as a row of the table in docs/compatibility.md."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import xml.etree.ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
START, END = "<!-- matrix -->", "<!-- end of matrix -->"
TITLE = (
    "| Date | Python | torch | Lightning | Tests | Passed | Failed | Skipped |\n"
    "|---|---|---|---|---|---|---|---|"
)
_VERSIONS = """
import json, platform, torch, pytorch_lightning
print(json.dumps([platform.python_version(), torch.__version__, pytorch_lightning.__version__]))
"""


class Outcome(NamedTuple):
    """The versions of an environment, the tests that ran in it, and how they ended."""

    date: str
    versions: Sequence[str]
    tests: str
    passed: int
    failed: int
    skipped: int

    @property
    def is_green(self) -> bool:
        return self.passed > 0 and self.failed == 0

    def row(self) -> str:
        counts = map(str, (self.passed, self.failed, self.skipped))
        return f"| {' | '.join((self.date, *self.versions, self.tests, *counts))} |"


def run_tests(end: str, python: str, folder: Path, arguments: Sequence[str]) -> Outcome:
    """Run the tests with ``python``; a report of them stays in ``folder``."""
    report = folder / f"{end}.xml"
    report.unlink(missing_ok=True)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [python, "-m", "pytest", f"--junitxml={report}", *arguments]
    subprocess.run(command, cwd=ROOT, env=env, check=False)
    asked = subprocess.run([python, "-c", _VERSIONS], capture_output=True, text=True, check=True)
    versions: list[str] = json.loads(asked.stdout)
    paths = [argument for argument in arguments if argument.startswith("tests")]
    names = ", ".join(f"`{path}`" for path in paths) or "all"
    return Outcome(str(datetime.date.today()), versions, names, *counted(report))


def counted(report: Path) -> tuple[int, int, int]:
    """The tests that passed, failed and were skipped, by a report of pytest; (0, 1, 0) for none."""
    if not report.exists():
        return 0, 1, 0
    suites = xml.etree.ElementTree.parse(report).getroot().iter("testsuite")
    totals = [
        [int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")]
        for suite in suites
    ]
    tests, failures, errors, skipped = (sum(column) for column in zip(*totals, strict=True))
    return tests - failures - errors - skipped, failures + errors, skipped


def write_page(page: Path, outcomes: Sequence[Outcome]) -> None:
    """Put the table between its marks in ``page``."""
    text = page.read_text()
    table = "\n".join([START, TITLE, *map(Outcome.row, outcomes), END])
    pattern = f"{re.escape(START)}.*{re.escape(END)}"
    page.write_text(re.sub(pattern, lambda _: table, text, flags=re.S))

"""Writes docs/migration-coverage.md: how far ``check``, ``migrate`` and ``verify`` get.

The trials are those of the examples and of tests/parity/trials that run on det_compat::

    python docs/make_migration_coverage.py
"""

from __future__ import annotations

import functools
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "parity")]

from cases import CASES

from det_compat.adapters.verify.verdict import Pair, Verdict, verify_all
from det_compat.catalog.status import Status
from det_compat.check.checker import check
from det_compat.config import read_config
from det_compat.migrate.migration import migrate
from det_compat.migrate.results import FileResult

BATCHES = 14
TRIALS = ROOT / "tests" / "parity" / "trials"
EXAMPLES = {
    "examples/digits/model_def.py": "DigitsTrial",
    "examples/determined-0.12/model_def.py": "WineTrial",
    "examples/pedl/model_def.py": "HalfDigitsTrial",
}
REFUSED = ("refusals", "endings")


@dataclass
class Row:
    """One trial: where it is, what it is given, what became of its file."""

    name: str
    pair: Pair
    result: FileResult
    has_unknown: bool
    verdict: Verdict = field(default_factory=Verdict)


def rows(folder: Path) -> list[Row]:
    """Every trial, migrated into ``folder``."""
    found = []
    for example, cls in EXAMPLES.items():
        path = ROOT / example
        config = read_config(path.with_name("const.yaml"))
        target = folder / path.parent.name
        results = written(path.parent, target)
        pair = Pair(
            (path, cls), (target / path.name, cls), config.hyperparameters.constants(), config.raw
        )
        found.append(row(f"{example}:{cls}", pair, results))
    target = folder / "parity" / "trials"
    results = written(TRIALS, target)
    for trial, hparams in parity_trials().items():
        module, _, cls = trial.partition(":")
        file = f"{module}.py"
        given = {"global_batch_size": 4, **hparams}
        pair = Pair((TRIALS / file, cls), (target / file, cls), given)
        found.append(row(f"tests/parity/trials/{file}:{cls}", pair, results))
    return found


def row(name: str, pair: Pair, results: dict[Path, FileResult]) -> Row:
    """A trial, before it is verified."""
    path = pair.old[0]
    return Row(name, pair, results[path], path in unknown_in(path.parent))


@functools.cache
def unknown_in(folder: Path) -> set[Path]:
    """The files of a folder in which ``check`` does not know something."""
    findings = check([str(folder)]).findings
    unknown = (found for found in findings if found.support.status is Status.UNKNOWN)
    return {Path(found.place.file).resolve() for found in unknown}


def written(source: Path, target: Path) -> dict[Path, FileResult]:
    """The migrated files of a folder, written to another."""
    target.mkdir(parents=True)
    results = {file.path: file for file in migrate([str(source)], "lightning").files}
    for path, result in results.items():
        (target / path.relative_to(source)).write_bytes(result.after)
    return results


def parity_trials() -> dict[str, dict]:
    """The trials that train on one rank with the hyperparameters of their first case."""
    found: dict[str, dict] = {}
    for case in CASES:
        for trial in (case.trial, case.older):
            is_plain = case.aggregation == 1 and not case.differs
            if trial and is_plain and not trial.startswith(REFUSED):
                found.setdefault(trial, case.hparams)
    return found


def share(part: int, whole: int) -> str:
    """A count, as a part and in percent."""
    return f"{part} of {whole} ({part / whole:.0%})"


def table(found: list[Row]) -> str:
    """The document."""
    ran = [row for row in found if not row.verdict.original_error]
    whole = len(ran)
    shares = {
        "`check` classifies every reference of its file (no unknown)": sum(
            not r.has_unknown for r in ran
        ),
        "`migrate --to lightning` leaves no `# MIGRATE:` comment in its file": sum(
            not r.result.marks for r in ran
        ),
        "the migrated file imports without Determined and det_compat": sum(
            r.verdict.imports for r in ran
        ),
        "the migrated module trains": sum(r.verdict.trains for r in ran),
        "`verify` says identical": sum(r.verdict.is_identical for r in ran),
    }
    lines = [
        "# Migration coverage",
        "",
        "Made by `python docs/make_migration_coverage.py`. The trials are those of `examples/` and",
        f"of `tests/parity/trials`, trained for {BATCHES} batches on one rank, with a validation",
        "after each epoch. Those of the tests were written to be unusual, and most are part of a",
        "hierarchy of classes. What is left at the top level of a file keeps all trials of that",
        "file from being imported; a function that still needs Determined imports it by itself.",
        "",
        f"{len(found)} trials, of which {whole} run and {len(found) - whole} are refused as they",
        "are by Determined (wrong arguments, on purpose).",
        "",
        "| Of those that run | Share |",
        "|---|---|",
        *(f"| {name} | {share(count, whole)} |" for name, count in shares.items()),
        "",
        "| Trial | MIGRATE comments in its file | Verdict |",
        "|---|---|---|",
        *(f"| `{r.name}` | {r.result.marks} | {brief(r.verdict)} |" for r in ran),
        "",
    ]
    return "\n".join(lines)


def brief(verdict: Verdict) -> str:
    """A verdict in a cell of a table."""
    text = str(verdict).split(" (/")[0].replace("|", "/").replace("\n", " ")
    return text if len(text) < 160 else f"{text[:157]}..."


def main() -> None:
    """Write the document."""
    with tempfile.TemporaryDirectory() as folder:
        found = rows(Path(folder))
        verdicts = verify_all([row.pair for row in found], batches=BATCHES)
        for row, verdict in zip(found, verdicts, strict=True):
            row.verdict = verdict
        (ROOT / "docs" / "migration-coverage.md").write_text(table(found))


if __name__ == "__main__":
    main()

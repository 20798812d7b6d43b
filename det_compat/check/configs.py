"""Experiment configs beside the code, read by det_compat.config."""

import re
from pathlib import Path

from det_compat.analysis.source import MAX_BYTES, Position, Unreadable, printable
from det_compat.catalog.status import Status, Support
from det_compat.check.report import Finding, Report

# An experiment config has these keys at its top level, and hardly any other YAML has two of them.
_KEYS = re.compile(
    r"^(?:entrypoints?|searcher|hyperparameters|records_per_epoch|min_validation_period"
    r"|min_checkpoint_period|scheduling_unit|batches_per_step|checkpoint_storage"
    r"|max_restarts)\s*:",
    re.MULTILINE,
)
_ENOUGH = 2


def is_yaml(path: Path) -> bool:
    """Whether a file is named as YAML."""
    return path.suffix in (".yaml", ".yml")


def looks_like_config(text: str) -> bool:
    """Whether YAML looks like an experiment config."""
    return len(set(_KEYS.findall(text))) >= _ENOUGH


def check(path: Path, report: Report) -> bool:
    """Add what a config asks for to the report; False if the file is no experiment config."""
    try:
        # A larger one is refused where it is read as a script.
        text = "" if path.stat().st_size > MAX_BYTES else path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        report.unreadable.append(Unreadable(Position(printable(path)), str(error)))
        return True
    if not looks_like_config(text):
        return False
    _explain(path, report)
    return True


def _explain(path: Path, report: Report) -> None:
    # Importing yaml takes long, and most trees of code have no config.
    from det_compat.config.document import ConfigError
    from det_compat.config.keys.explain import explain
    from det_compat.config.keys.table import Fate
    from det_compat.config.loading import load

    statuses = {Fate.REFUSED: Status.REFUSED, Fate.IGNORED: Status.DIFFERENT}

    def add(key: str, line: int | None, column: int | None, support: Support) -> None:
        position = Position(printable(path), 0, line or 1, column or 1)
        report.findings.append(Finding(position, f"config: {key}".rstrip(": "), support))

    try:
        rows = explain(load(path))
    except ConfigError as error:
        for problem in error.problems:
            note = f"found {problem.found}, expected {problem.expected}"
            add(problem.key, problem.line, problem.column, Support(Status.REFUSED, note))
        return
    for row in rows:
        add(row.key, row.line, 1, Support(statuses.get(row.fate, Status.SAME), row.becomes))

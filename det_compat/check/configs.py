"""Experiment configs beside the code, read by det_compat.config."""

from __future__ import annotations

import re
from pathlib import Path

from det_compat.check.findings import (
    Finding,
    Place,
    Report,
    Status,
    Support,
    Unreadable,
    printable,
    start_of,
)

# What an experiment config has at its top level, and little else does.
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
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        report.unreadable.append(Unreadable(start_of(path), str(error)))
        return True
    if not looks_like_config(text):
        return False
    _explain(path, report)
    return True


def _explain(path: Path, report: Report) -> None:
    # yaml takes its time to import, and most trees of code have no config
    from det_compat.config.errors import ConfigError
    from det_compat.config.keys.explain import explain
    from det_compat.config.keys.table import Fate
    from det_compat.config.loading import load

    statuses = {Fate.REFUSED: Status.REFUSED, Fate.IGNORED: Status.DIFFERENT}
    try:
        rows = explain(load(path))
    except ConfigError as error:
        for problem in error.problems:
            note = f"found {problem.found}, expected {problem.expected}"
            _add(path, report, (problem.line, problem.column), problem.key, Status.REFUSED, note)
        return
    for row in rows:
        status = statuses.get(row.fate, Status.SAME)
        _add(path, report, (row.line, 1), row.key, status, row.becomes)


def _add(
    path: Path,
    report: Report,
    where: tuple[int | None, int | None],
    key: str,
    status: Status,
    note: str,
) -> None:
    line, column = where
    place = Place(printable(path), 0, line or 1, column or 1)
    report.findings.append(Finding(place, f"config: {key}".rstrip(": "), Support(status, note)))

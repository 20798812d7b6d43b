"""Small trees of code, written to disk and checked."""

from __future__ import annotations

import textwrap
from pathlib import Path

from det_compat.check.checker import check
from det_compat.check.report import Report


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def check_files(folder: Path, files: dict[str, str]) -> Report:
    write(folder, files)
    return check([str(folder)])


def check_code(folder: Path, code: str) -> Report:
    return check_files(folder, {"model_def.py": code})


def statuses(report: Report) -> dict[str, str]:
    """The status of every name that was found."""
    return {found.name: found.support.status.value for found in report.findings}


def names(report: Report) -> set[str]:
    return set(statuses(report))


def on_context(report: Report) -> set[str]:
    """The attributes of a context that were found."""
    prefix = "PyTorchTrialContext."
    return {name.removeprefix(prefix) for name in names(report) if name.startswith(prefix)}

"""Writes migrated files, if git has what was there before."""

import subprocess
from pathlib import Path

from det_compat.migrate.results import Migration
from det_compat.shared.durable_files import atomic_write


def refusals(migration: Migration) -> list[tuple[Path, str]]:
    """The files that must not be written, since what is there would be lost, and why."""
    return [
        (file.path, reason)
        for file in migration.changed
        if (reason := _reason(file.path, is_new=not file.before))
    ]


def _reason(path: Path, is_new: bool) -> str:
    if is_new:
        return "there is such a file already" if path.exists() else ""
    tracked = _git(path, "ls-files", "--error-unmatch")
    if tracked is None:
        return "it is not under version control"
    return "it has changes that are not committed" if _git(path, "status", "--porcelain") else ""


def _git(path: Path, *command: str) -> str | None:
    """What git says of a file; None if it fails or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(path.absolute().parent), *command, "--", path.name],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def write(migration: Migration) -> None:
    """Write every file that changes."""
    for file in migration.changed:
        mode = file.path.stat().st_mode if file.path.exists() else None
        with atomic_write(file.path) as output:
            output.write(file.after)
        if mode is not None:
            file.path.chmod(mode)

"""``migrate --verify``: the migrated trials, trained before they are written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from det_compat.analysis.tree import SKIPPED
from det_compat.migrate.configs import config_of, trial_arguments
from det_compat.migrate.results import FileResult, Migration

if TYPE_CHECKING:
    from det_compat.adapters.verify.verdict import Pair, Verdict


def verify_migration(
    paths: Sequence[str],
    migration: Migration,
    hparams: dict[str, Any] | None,
    config: str | None,
    batches: int,
) -> list[tuple[str, Verdict]]:
    """Compare every trial that was rewritten; the verdicts, by ``file:class``."""
    from det_compat.adapters.verify.verdict import verify_all

    with tempfile.TemporaryDirectory(prefix="det-compat-migrate-") as folder:
        pairs = [
            _pair(file, name, copy, hparams, config)
            for file, copy in _copies(paths, migration, Path(folder))
            for name in file.trials
        ]
        names = [f"{pair.old[0]}:{pair.old[1]}" for pair in pairs]
        return [*zip(names, verify_all(pairs, batches=batches), strict=True)] if pairs else []


def _pair(
    file: FileResult, name: str, copy: Path, hparams: dict[str, Any] | None, config: str | None
) -> Pair:
    from det_compat.adapters.verify.verdict import Pair

    given = config
    if given is None and (beside := config_of(file.path, name)) is not None:
        given = beside.file
    values, exp_conf = trial_arguments(hparams, given)
    return Pair((file.path, name), (copy, name), values, exp_conf)


def _copies(
    paths: Sequence[str], migration: Migration, folder: Path
) -> list[tuple[FileResult, Path]]:
    """The migrated files in a tree of their own; whatever else is there is linked to."""
    after = {file.path.resolve(): file for file in migration.files}
    found = []
    for number, given in enumerate(map(Path, paths)):
        root = (given if given.is_dir() else given.parent).resolve()
        target = folder / str(number) / root.name
        _mirror(root, target, after)
        found += [
            (file, target / path.relative_to(root))
            for path, file in after.items()
            if file.is_changed and path.suffix == ".py" and path.is_relative_to(root)
        ]
    return found


def _mirror(root: Path, target: Path, after: dict[Path, FileResult]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(root):
        path = Path(entry.path)
        if entry.name in SKIPPED:
            continue
        if entry.is_dir(follow_symlinks=False):
            _mirror(path, target / entry.name, after)
        elif path.suffix == ".py" and path in after:
            (target / entry.name).write_bytes(after[path].after)
        else:
            (target / entry.name).symlink_to(path)

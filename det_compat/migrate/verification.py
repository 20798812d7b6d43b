"""``migrate --verify``: the migrated trials, trained before they are written."""

from __future__ import annotations

import ast
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from det_compat.analysis.given.written import written_hparams
from det_compat.analysis.tree import SKIPPED
from det_compat.migrate.configs import configs_of, trial_arguments
from det_compat.migrate.results import FileResult, Migration

if TYPE_CHECKING:
    from det_compat.adapters.verify.verdict import Pair, Verdict


def verify_migration(
    paths: Sequence[str],
    migration: Migration,
    hparams: dict[str, Any] | None,
    configs: Sequence[str],
    batches: int,
    package: str | None = None,
) -> list[tuple[str, Verdict]]:
    """Compare every trial that was rewritten, with each of its configs.

    ``package`` is the one that the code has Lightning from; None for the one that is there.

    Returns:
        The verdicts, by ``file:class`` and the name of the config.
    """
    from det_compat.adapters.verify.verdict import Pair, verify_all

    with tempfile.TemporaryDirectory(prefix="det-compat-migrate-") as folder:
        bases = _bases(migration)
        scripts = [
            ast.parse(file.before) for file in migration.files if file.trials or file.is_changed
        ]
        found = [
            (f"{file.path}:{name}{label}", Pair((file.path, name), (copy, name), *arguments))
            for file, copy in _copies(paths, migration, Path(folder))
            for name in file.trials
            if name not in bases or _is_started(file.path, name)
            for label, arguments in _arguments(file.path, name, hparams, configs, scripts)
        ]
        verdicts = (
            verify_all([pair for _, pair in found], batches=batches, package=package)
            if found
            else []
        )
        both = zip(found, verdicts, strict=True)
        return [(label, _explained(verdict, pair)) for (label, pair), verdict in both]


def _explained(verdict: Verdict, pair: Pair) -> Verdict:
    """A verdict that says what the original may have lacked."""
    if not verdict.original_error or pair.hparams or pair.exp_conf:
        return verdict
    error = f"{verdict.original_error}; no config tells its hyperparameters, --hparams may"
    return replace(verdict, original_error=error)


def _bases(migration: Migration) -> set[str]:
    """The classes that others derive from, which may have no part of a trial that these add."""
    trees = [ast.parse(file.after) for file in migration.files if file.trials]
    classes = (n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef))
    return {ast.unparse(base).rpartition(".")[2] for node in classes for base in node.bases}


def _is_started(path: Path, name: str) -> bool:
    """Whether a config starts a class: one without an entrypoint may mean any in its folder."""
    return any(config.entrypoint is not None for config in configs_of(path, name))


def _arguments(
    path: Path,
    name: str,
    hparams: dict[str, Any] | None,
    configs: Sequence[str],
    scripts: Sequence[ast.Module],
) -> list[tuple[str, tuple[dict[str, Any], dict[str, Any] | None]]]:
    """What to train a trial with, and how to name it: the configs that are given, or all it has.

    What a config of a script does not say, or there is none, one of the scripts may have written.
    """
    own = configs_of(path, name)
    starts = [getattr(each.entrypoint, "trial", each.entrypoint) for each in own]
    by_script = not any(f"{each}".endswith(f":{name}") for each in starts)
    written = written_hparams(scripts, name) if by_script and not configs else None
    found = []
    for file in configs or [each.file for each in own if each.file]:
        space, config = trial_arguments(hparams, file)
        found.append((f" ({Path(file).name})", ({**(written or {}), **space}, config)))
    return found or [("", trial_arguments(hparams or written, None))]


def outcome(verdict: Verdict) -> str:
    """A verdict in the words of ``migrate``."""
    if verdict.is_identical:
        return f"verified: {verdict.what_is_same}"
    if verdict.original_error:
        return f"not verified, because the original failed: {verdict.original_error}"
    if verdict.migrated_error:
        return f"differs: the module failed: {verdict.migrated_error}"
    if verdict.unrepeated:
        return f"not verified, because {verdict.unrepeated}"
    if verdict.difference:
        return f"differs: {verdict.difference}"
    return "not verified, because the original trained no batch"


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
            # The heir of a trial may need no change itself.
            if file.trials and path.suffix == ".py" and path.is_relative_to(root)
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

"""Migrates the files below some paths, each as far as it can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import libcst as cst

from det_compat.analysis.relevant import is_relevant
from det_compat.analysis.source import Source, parsed, read
from det_compat.analysis.tree import list_files
from det_compat.migrate.results import FileResult, Migration
from det_compat.migrate.to_context.passes import Context
from det_compat.migrate.to_context.pedl_names import PedlNames
from det_compat.migrate.to_det_compat import DetCompat
from det_compat.migrate.to_lightning.passes import Lightning
from det_compat.migrate.tree import line_length
from det_compat.migrate.tree.facts import Analysis

_Target: TypeAlias = DetCompat | PedlNames | Context | Lightning

#: The passes over the whole tree, in order.
TARGETS: dict[str, tuple[type[_Target], ...]] = {
    "det_compat": (DetCompat,),
    "context": (PedlNames, Context),
    "lightning": (PedlNames, Context, Lightning),
}
# a file that is too odd for a transformation must not stop the others
_FAILURES = (
    cst.ParserSyntaxError,
    cst.CSTValidationError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)


def migrate(paths: Sequence[str], to: str) -> Migration:
    """Rewrite the files below ``paths`` for a target, one of TARGETS; nothing is written.

    Trials of older generations go to Lightning through the context API.
    """
    found = _sources(paths)
    texts = {path: source.path.read_bytes() for path, source in found.items()}
    results = {path: FileResult(path, text, text) for path, text in texts.items()}
    for step in TARGETS[to]:
        results = _step(step, found, results)
    migration = Migration(notebooks=_notebooks(paths))
    migration.files = [
        _with_unreadable(found[path], _with_short_lines(result)) for path, result in results.items()
    ]
    return migration


def _with_short_lines(result: FileResult) -> FileResult:
    if not result.is_changed:
        return result
    tree = line_length.apply(cst.parse_module(result.after), result.before)
    return replace(result, after=tree.bytes)


def _sources(paths: Sequence[str]) -> dict[Path, Source]:
    listing = list_files(paths)
    for path, reason in listing.problems:
        raise OSError(f"{path}: {reason}")
    files = [(path, root) for path, root in listing.files if path.suffix == ".py"]
    return {path: read(path, root) for path, root in files}


def _notebooks(paths: Sequence[str]) -> list[Path]:
    files = list_files(paths).files
    found = [read(path, root) for path, root in files if path.suffix == ".ipynb"]
    return [source.path for source in found if is_relevant(source)]


def _with_unreadable(source: Source, result: FileResult) -> FileResult:
    if result.problem or not source.unreadable:
        return result
    return FileResult(source.path, result.before, result.before, source.unreadable[0].reason)


def _step(
    step: type[_Target],
    sources: dict[Path, Source],
    results: dict[Path, FileResult],
) -> dict[Path, FileResult]:
    texts = {path: result.after for path, result in results.items() if not result.problem}
    current = {path: parsed(path, sources[path].root, text) for path, text in texts.items()}
    target = step(Analysis(current.values()), texts)
    return {path: _apply(target, result) for path, result in results.items()}


def _apply(target: _Target, result: FileResult) -> FileResult:
    if result.problem:
        return result
    path, before = result.path, result.before
    if path in target.problems:
        return FileResult(path, before, before, target.problems[path])
    try:
        after = target.migrated(path)
        if after is None:
            return result
        compile(after, str(path), "exec")
    except _FAILURES as error:
        kind = type(error).__name__
        return FileResult(path, before, before, f"cannot be rewritten: {kind} {error}".strip())
    trials = (*result.trials, *target.trials(path))
    return FileResult(path, before, after, trials=tuple(dict.fromkeys(trials)))

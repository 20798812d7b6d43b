"""Trials that are written in another way are migrated: the same comes out, or a mark."""

from __future__ import annotations

import ast
import functools
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

from det_compat.adapters.verify.verdict import Pair, verify_all
from det_compat.migrate.migration import migrate
from tests.attacks.rewordings import reworded

PARITY = Path(__file__).parents[1] / "parity"
#: As many are verified in the same two processes, whose imports take longer than their training.
AT_ONCE = 12
BATCHES = 14


def attack(draw: Random, folder: Path) -> None:
    """Reword, migrate and verify a dozen of the trials of tests/parity.

    Raises:
        AssertionError: one that trains, and is the same where it is not reworded, differs without
            a mark.
    """
    tried: list[tuple[str, str, Pair]] = []
    for number in range(AT_ONCE):
        trial = draw.choice([*trials()])
        source, cls = alone(trial)
        text, names = reworded(source, cls, draw)
        pair = migrated(text, cls, trials()[trial], folder / str(number))
        if names and pair is not None:
            tried.append((trial, ", ".join(names), pair))
    verdicts = verify_all([pair for *_, pair in tried], batches=BATCHES)
    wrong = [
        f"{trial}, {names}: {verdict}\n{pair.old[0].read_text()}"
        for (trial, names, pair), verdict in zip(tried, verdicts, strict=True)
        if not verdict.is_identical and not verdict.original_error and _is_right(trial, folder)
    ]
    assert not wrong, "\n".join(wrong)


def unmarked(source: str, home: Path) -> str:
    """What becomes of a trial in a folder of its own; ``""`` if something of it is left."""
    home.mkdir(parents=True)
    (home / "model_def.py").write_text(source)
    (file,) = migrate([str(home)], "lightning").files
    assert not file.problem, f"{file.problem}\n{source}"
    return "" if file.marks else file.after.decode()


@functools.cache
def trials() -> dict[str, dict[str, Any]]:
    """The trials that train on one rank, with the hyperparameters of their first case."""
    sys.path.insert(0, str(PARITY))
    try:
        from cases import CASES
    finally:
        sys.path.remove(str(PARITY))
    found: dict[str, dict[str, Any]] = {}
    for case in CASES:
        for trial in (case.trial, case.older):
            if trial and case.aggregation == 1 and not case.differs:
                found.setdefault(trial, {"global_batch_size": 4, **case.hparams})
    return found


def alone(trial: str) -> tuple[str, str]:
    """The source of a trial with all that it needs of its file and of base.py, and its name."""
    module, _, cls = trial.partition(":")
    files = [PARITY / "trials" / f"{name}.py" for name in ("base", module)]
    tree = ast.parse("\n".join(path.read_text() for path in dict.fromkeys(files)))
    imports = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
    others = [n for n in tree.body if n not in imports]
    needed = {cls}
    for node in reversed(others):
        if needed & {*_defined(node)}:
            needed |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    kept = [n for n in others if needed & {*_defined(n)}]
    return ast.unparse(ast.Module([*_outer(imports, needed), *kept], [])), cls


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return [node.name]
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return [n.id for n in names if isinstance(n.ctx, ast.Store)]


def _outer(imports: list[ast.Import | ast.ImportFrom], needed: set[str]) -> list[ast.stmt]:
    """The imports from outside of tests/parity that something needs."""
    kept: dict[str, ast.stmt] = {}
    for node in imports:
        names = [a for a in node.names if (a.asname or a.name).partition(".")[0] in needed]
        if isinstance(node, ast.ImportFrom):
            if (node.module or "").startswith("trials") or not names:
                continue
            one: ast.stmt = ast.ImportFrom(node.module, names, node.level)
        elif names:
            one = ast.Import(names)
        else:
            continue
        kept[ast.unparse(one)] = one
    return sorted(kept.values(), key=lambda n: "__future__" not in ast.unparse(n))


def migrated(
    source: str,
    cls: str,
    hparams: dict[str, Any],
    home: Path,
    config: dict[str, Any] | None = None,
) -> Pair | None:
    """A trial before and after, with its experiment config; None if something is marked."""
    return _pair({"model_def.py": source}, cls, hparams, home, config)


def migrated_files(sources: dict[str, str], config: dict[str, Any], home: Path) -> Pair | None:
    """As ``migrated``, for the trial of a config and the files that it imports.

    ``NUMBER`` in their names is what tells them from those of other trials: both processes import
    the files of all.
    """
    text = json.dumps((sources, config)).replace("NUMBER", home.name)
    sources, config = json.loads(text)
    cls = config["entrypoint"].rpartition(":")[2]
    return _pair(sources, cls, config["hyperparameters"], home, config)


def _pair(
    sources: dict[str, str],
    cls: str,
    hparams: dict[str, Any],
    home: Path,
    config: dict[str, Any] | None,
) -> Pair | None:
    """``sources`` are the files by name; the trial is in the first."""
    old, new = home / "old", home / "new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    for name, source in sources.items():
        (old / name).write_text(source)
    if config is not None:
        (old / "const.yaml").write_text(json.dumps(config))
    files = migrate([str(old)], "lightning").files
    for file in files:
        assert not file.problem, f"{file.problem}\n{file.before.decode()}"
        (new / file.path.name).write_bytes(file.after)
    name = next(iter(sources))
    has_marks = any(file.marks for file in files)
    return None if has_marks else Pair((old / name, cls), (new / name, cls), hparams, config)


@functools.cache
def _is_right(trial: str, folder: Path) -> bool:
    """Whether a trial that is not reworded comes out the same, without a mark."""
    source, cls = alone(trial)
    pair = migrated(source, cls, trials()[trial], folder / trial.replace(":", "-"))
    return pair is not None and verify_all([pair], batches=BATCHES)[0].is_identical

"""The trial classes below a folder, found without running them, and what they read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from det_compat.analysis.generations import TrialClass
from det_compat.analysis.inference import Inference
from det_compat.analysis.scopes import Scope
from det_compat.analysis.source import read
from det_compat.analysis.tree import list_files
from det_compat.first_config.hyperparameters import Reading, readings

_EVALUATING = ("evaluate_batch", "evaluate_full_dataset")


@dataclass(frozen=True)
class FoundTrial:
    """A trial class that can be trained.

    Attributes:
        name: of the class.
        file: where it is.
        folder: where its module is imported from.
        metrics: names of validation metrics that it returns literally.
        hparams: the hyperparameters that it reads.
    """

    name: str
    file: Path
    folder: Path
    metrics: tuple[str, ...]
    hparams: tuple[Reading, ...]

    @property
    def entrypoint(self) -> str:
        """``module:Class``, as seen from ``folder``."""
        parts = self.file.relative_to(self.folder).with_suffix("").parts
        module = parts[:-1] if parts[-1] == "__init__" else parts
        return f"{'.'.join(module)}:{self.name}"


def find_trials(folder: Path) -> list[FoundTrial]:
    """The trial classes below ``folder`` that det_compat trains, in the order of their files."""
    files = [(path, root) for path, root in list_files([str(folder)]).files if path.suffix == ".py"]
    inference = Inference([read(path, root) for path, root in files])
    classes = [scope for code in inference.codes for scope in code.classes]
    trials = [
        scope
        for scope in classes
        if inference.hierarchy.is_trial(scope)
        and TrialClass(scope, inference.hierarchy).generation is not None
        and scope.parent is not None
        and scope.parent.kind == scope.module.kind
    ]
    nodes = {scope.node for scope in trials}
    # Functions beside a trial may be its own; another trial's methods are not.
    modules = [(code.module, [*_others(code.module, nodes)]) for code in inference.codes]
    found = [_found(scope, inference, modules) for scope in trials]
    return sorted(found, key=lambda trial: (str(trial.file), trial.name))


def _others(module: Scope, trials: set[ast.AST | None]) -> Iterator[ast.AST]:
    for tree in module.source.trees:
        yield from (node for node in tree.body if node not in trials)


def _found(
    scope: Scope, inference: Inference, modules: list[tuple[Scope, list[ast.AST]]]
) -> FoundTrial:
    file = scope.source.path.absolute()
    folder = _importable_from(file)
    own = inference.hierarchy.ancestors(scope)
    nodes = [(one.module, [one.node]) for one in own if one.node is not None]
    read_there = [
        reading
        for module, trees in (*nodes, *modules)
        if folder in module.source.path.absolute().parents
        for reading in readings(trees, module.source)
    ]
    unique = {reading.path: reading for reading in reversed(read_there)}
    metrics = dict.fromkeys(name for one in own for name in _metrics(one))
    hparams = tuple(sorted(unique.values(), key=lambda reading: reading.path))
    return FoundTrial(scope.name, file, folder, tuple(metrics), hparams)


def _importable_from(file: Path) -> Path:
    """The folder from which a module is imported: above all packages that it is in."""
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def _metrics(cls: Scope) -> Iterator[str]:
    for name in _EVALUATING:
        node = cls.functions[name].node if name in cls.functions else None
        for statement in ast.walk(node) if node is not None else ():
            if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Dict):
                for key in statement.value.keys:
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield key.value

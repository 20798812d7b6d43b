"""What the expressions of a file stand for, by where they are."""

import ast
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypeAlias

from det_compat.analysis.classes import TRIALS, Hierarchy
from det_compat.analysis.inference import Inference
from det_compat.analysis.scopes import NOTHING, Class, Code, Instance, Object, Scope, Value, Values
from det_compat.analysis.source import Source
from det_compat.catalog.support import home

CALLBACK = "det_compat.pytorch.PyTorchCallback"

#: First line and column, last line and column: lines from 1, columns in characters from 0.
Span: TypeAlias = tuple[int, int, int, int]


def is_callback(scope: Scope, hierarchy: Hierarchy) -> bool:
    """Whether a class derives from Determined's class of callbacks."""
    return any(home(name) == CALLBACK for name in hierarchy.determined_bases(scope))


def _is_some_trial(value: Value) -> bool:
    """Whether an annotation says that this is a trial, and not of which class."""
    return isinstance(value, Object) and value.owner in TRIALS


class Facts:
    """The values of the names and attributes of one file, and its classes."""

    def __init__(self, code: Code, inference: Inference) -> None:
        self._source = code.module.source
        self._inference = inference
        # What is set is named, too, and need not be what it was before.
        self._values = {
            self._span(use.node): inference.evaluate(use.node, use.scope)
            for use in code.uses
            if not isinstance(use.node.ctx, ast.Store)
        }
        self.classes = {
            scope.node.lineno: scope
            for scope in code.classes
            if isinstance(scope.node, ast.ClassDef)
        }

    def values(self, span: Span) -> Values:
        """What the expression at ``span`` may stand for."""
        return self._values.get(span, NOTHING)

    @property
    def all_values(self) -> Collection[Values]:
        """What the names and attributes of the file stand for."""
        return self._values.values()

    @property
    def has_trials(self) -> bool:
        """Whether something in the file stands for a trial, or the class of one."""
        return any(map(self._are_of_trials, self._values.values()))

    def is_trial(self, scope: Scope) -> bool:
        """Whether a class is a trial class, or a base or mixin of one."""
        hierarchy = self._inference.hierarchy
        return any(hierarchy.is_trial(found) for found in (scope, *hierarchy.relatives(scope)))

    def is_named_as_trial(self, scope: Scope) -> bool:
        """Whether a class gets the names that trials get: it is one, or derives from its mixin.

        What has a base that is not in the tree keeps its names, which may be those of the base.
        """
        hierarchy = self._inference.hierarchy
        first, *above = hierarchy.ancestors(scope)
        is_heir = any(map(self.is_trial, above)) and not any(hierarchy.foreign_bases(scope))
        return self.is_trial(first) or is_heir

    def stands_for_trial(self, span: Span) -> bool:
        """Whether the expression at ``span`` is a trial."""
        return self._are_trials(self.values(span))

    def is_of_trial(self, span: Span) -> bool:
        """Whether the expression at ``span`` is a trial, or a class, with the names of trials."""
        return self._are_of_trials(self.values(span))

    def stands_for_callback(self, span: Span) -> bool:
        """Whether the expression at ``span`` is a callback."""
        found = self.values(span)
        return bool(found) and all(
            isinstance(value, Instance) and is_callback(value.scope, self._inference.hierarchy)
            for value in found
        )

    def _are_trials(self, found: Values) -> bool:
        return bool(found) and all(
            _is_some_trial(value) or (isinstance(value, Instance) and self.is_trial(value.scope))
            for value in found
        )

    def _are_of_trials(self, found: Values) -> bool:
        return bool(found) and all(
            _is_some_trial(value)
            or (isinstance(value, (Instance, Class)) and self.is_named_as_trial(value.scope))
            for value in found
        )

    def _span(self, node: ast.expr) -> Span:
        start, end = node.lineno, node.end_lineno or node.lineno
        return (
            start,
            self._source.characters(start, node.col_offset),
            end,
            self._source.characters(end, node.end_col_offset or 0),
        )


class Analysis:
    """The inference over the files that are migrated together."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.inference = Inference(sources)
        self._facts: dict[Path, Facts] = {}
        self._codes = {code.module.source.path: code for code in self.inference.codes}

    def code(self, path: Path) -> Code | None:
        """What happens in a file; None if it has nothing to do with Determined."""
        return self._codes.get(path)

    def facts(self, path: Path) -> Facts | None:
        """The facts of a file; None if it has nothing to do with Determined."""
        code = self.code(path)
        if code is not None and path not in self._facts:
            self._facts[path] = Facts(code, self.inference)
        return self._facts.get(path)

    def imported(self, path: Path) -> list[Path]:
        """The files of the tree that a file imports, and those that these do."""
        found, project = [path], self.inference.project
        for each in found:
            code = self.code(each)
            for line in code.imports if code is not None else ():
                names = [line.module] if line.module or line.level else []
                names += [".".join(filter(None, [line.module, line.node.name]))]
                modules = (project.module(line.scope, name, line.level) for name in names)
                paths = [module.source.path for module in modules if module is not None]
                found += [other for other in dict.fromkeys(paths) if other not in found]
        return found[1:]

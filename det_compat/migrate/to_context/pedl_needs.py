"""Which functions and classes of a tree ask ``pedl`` for what only a run knows."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from det_compat.analysis.scopes import Call, Class, Function, Name, Scope, Values
from det_compat.catalog.support import home
from det_compat.migrate.tree.facts import Analysis

#: What ``pedl`` is asked for, by the parameter that hands it on.
HPARAMS, DATA_CONFIG, DATA_DIR = "hparams", "data_config", "download_data_dir"
GETTERS = {
    "det_compat.pedl.get_hyperparameter": HPARAMS,
    "det_compat.pedl.get_data_config": DATA_CONFIG,
    "det_compat.pedl.get_download_data_dir": DATA_DIR,
}


def getter(values: Values) -> str | None:
    """What is asked for, given what a called name stands for; None if it is no getter."""
    paths = {home(value.path) for value in values if isinstance(value, Name)}
    return GETTERS.get(paths.pop() or "") if len(paths) == len(values) == 1 else None


class Needs:
    """What each function and class of the tree must be given, since it may not ask any more.

    A trial is given nothing: its context knows. What is nested in a function or class is part of
    it.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._inference = analysis.inference
        self._needs: dict[Scope, set[str]] = defaultdict(set)
        self._stored: dict[Scope, set[str]] = defaultdict(set)
        calls = [call for code in self._inference.codes for call in code.calls]
        #: The classes that keep nothing for whoever has no object of them, and make one.
        self._left = {unit for call in calls if (unit := self._unable(call)) is not None}
        #: What is called by a name of which nobody knows whose it is, such as that of a package.
        self._lost = {name for call in calls if (name := self._lost_name(call))}
        while any([self._add(call) for call in calls]):
            pass

    def _unable(self, call: Call) -> Scope | None:
        """The class that a method without an object of it makes, or asks for."""
        unit = self.unit_of(call.scope)
        if unit is None or unit.kind != "class" or not any(map(_is_static, _chain(call.scope))):
            return None
        values = self._inference.evaluate(call.node.func, call.scope)
        asks = getter(values) is not None or unit in map(_target, values)
        return unit if asks else None

    def _lost_name(self, call: Call) -> str:
        func = call.node.func
        is_known = bool(self._inference.evaluate(func, call.scope))
        return func.id if isinstance(func, ast.Name) and not is_known else ""

    def is_left(self, unit: Scope) -> bool:
        """Whether a class cannot be given what it asks for, and so is left to ask."""
        return unit in self._left or unit.name in self._lost

    def of(self, unit: Scope) -> list[str]:
        """The parameters that a function, or a class's ``__init__``, must have more."""
        if self.is_left(unit):
            return []
        needed = set(self._needs.get(unit, ()))
        if unit.kind == "class":
            for base in self._inference.hierarchy.ancestors(unit):
                needed |= self._needs.get(base, set())
        return sorted(needed)

    def stored(self, unit: Scope) -> list[str]:
        """What a class must keep, since other methods than ``__init__`` need it."""
        return sorted(self._stored.get(unit, ()))

    def called(self, values: Values) -> Scope | None:
        """The function or class that a call reaches, if that needs anything."""
        found = {unit for value in values if (unit := _target(value)) is not None}
        unit = found.pop() if len(found) == 1 else None
        return unit if unit is not None and self.of(unit) else None

    def unit_of(self, scope: Scope) -> Scope | None:
        """The function or class that a scope is in; None for trials, and outside of all."""
        chain = [*_chain(scope)]
        if len(chain) < 2 or self._is_trial(chain[-2]):
            return None
        return chain[-2]

    def _is_trial(self, scope: Scope) -> bool:
        return scope.kind == "class" and self._inference.hierarchy.is_trial(scope)

    def _add(self, call: Call) -> bool:
        values = self._inference.evaluate(call.node.func, call.scope)
        unit = self.unit_of(call.scope)
        if unit is None:
            return False
        kind, target = getter(values), self.called(values)
        wanted = {kind} if kind else set(self.of(target)) if target is not None else set()
        if target is unit or not wanted:
            return False
        given = parameters(unit) if unit.kind == "function" else set()
        if unit.kind == "class" and call.scope is not unit and not _is_in_init(call.scope, unit):
            self._stored[unit] |= wanted
        if DATA_CONFIG in wanted and "experiment_config" in given:
            wanted = wanted - {DATA_CONFIG}
        new = wanted - given - self._needs[unit]
        self._needs[unit] |= new
        return bool(new)


def _chain(scope: Scope) -> Iterator[Scope]:
    found: Scope | None = scope
    while found is not None:
        yield found
        found = found.parent


def _target(value: object) -> Scope | None:
    if isinstance(value, Class):
        return value.scope
    if not isinstance(value, Function):
        return None
    parent = value.scope.parent
    if parent is not None and parent.kind == "class":
        return parent if value.scope.name == "__init__" else None
    return value.scope if parent is not None and parent.kind == "module" else None


def _is_static(scope: Scope) -> bool:
    decorators = getattr(scope.node, "decorator_list", ())
    return any(getattr(each, "id", "") in ("staticmethod", "classmethod") for each in decorators)


def _is_in_init(scope: Scope, unit: Scope) -> bool:
    return any(found.name == "__init__" and found.parent is unit for found in _chain(scope))


def parameters(scope: Scope) -> set[str]:
    """The parameters of a function; none of a class."""
    arguments = getattr(scope.node, "args", None)
    if arguments is None:
        return set()
    listed = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return {argument.arg for argument in listed}

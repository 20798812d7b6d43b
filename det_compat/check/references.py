"""Every reference to Determined in the code of a tree, with what becomes of it."""

from __future__ import annotations

import ast
from typing import Any

from det_compat.analysis.generations import TrialClass
from det_compat.analysis.inference import Inference
from det_compat.analysis.scopes import Call, Code, Guard, Import, Scope, Use
from det_compat.analysis.source import Position
from det_compat.analysis.values import Instance, Member, Name, Object, Parent, Value
from det_compat.catalog.generations import Generation
from det_compat.catalog.members import NOWHERE, OLD_ONLY, SUBCLASSED
from det_compat.catalog.status import Status, Support
from det_compat.catalog.support import has_member, home, of_argument, of_member, of_name
from det_compat.check.dynamic import Dynamic
from det_compat.check.report import Finding, Report

_BAD = (Status.REFUSED, Status.UNKNOWN)
_OWN = Support(Status.SAME, "set by this code")
_NEVER = Support(Status.SAME, "for type checkers only: it is never evaluated")


class References:
    """Adds the findings of all code to a report."""

    def __init__(self, inference: Inference, report: Report) -> None:
        self._inference = inference
        self._report = report
        self._found: set[Finding] = set()
        self._dynamic = Dynamic(inference)
        self._set_by_code = {
            (owner.owner, use.node.attr)
            for code in inference.codes
            for use in code.uses
            if isinstance(use.node, ast.Attribute) and isinstance(use.node.ctx, ast.Store)
            for owner in inference.evaluate(use.node.value, use.scope)
            if isinstance(owner, Object)
        } | self._dynamic.set_by_code

    def add_all(self) -> None:
        """Find them, in the order of files and lines."""
        for code in self._inference.codes:
            for found in code.imports:
                self._import(found)
            for use in code.uses:
                self._use(use)
            for call in code.calls:
                self._call(call)
            for scope in code.classes:
                self._overrides(scope, code)
        self._report.findings.extend(sorted(self._found, key=lambda f: (f.position, f.name)))
        self._report.dynamic.extend(self._dynamic.found)

    def _add(self, scope: Scope, node: ast.AST, name: str, support: Support, guard: Guard) -> None:
        support = _under(guard, support, scope.source.postpones_annotations)
        self._found.add(Finding(position_of(scope, node), name, support))

    def _import(self, found: Import) -> None:
        if not self._inference.project.is_determined(found):
            return
        has_name = found.attribute not in (None, "*")
        name = f"{found.module}.{found.attribute}" if has_name else found.module
        self._add(found.scope, found.node, name, of_name(name), found.guard)

    # Names and attributes

    def _use(self, use: Use) -> None:
        node = use.node
        if not use.inner:
            for value in self._inference.evaluate(node, use.scope):
                if isinstance(value, Name) and _is_reference(value.path, node):
                    self._add(use.scope, node, value.path, of_name(value.path), use.guard)
        if isinstance(node, ast.Attribute):
            for owner in self._inference.evaluate(node.value, use.scope):
                self._attribute(use, node, owner)

    def _attribute(self, use: Use, node: ast.Attribute, owner: Value) -> None:
        if isinstance(owner, Object):
            self._add_member(owner, node.attr, use, node)
        elif isinstance(owner, (Instance, Parent)):
            evaluator = self._inference.evaluator
            is_own = evaluator.own_attribute(owner.scope, node.attr, bound=True) is not None
            if not is_own or isinstance(owner, Parent):
                self._inherited(use, node, owner.scope)

    def _add_member(
        self, owner: Object, name: str, where: Use | Call, node: ast.expr, probe: bool = False
    ) -> None:
        """Add an attribute of an object; ``probe`` says that the code can do without it."""
        if owner.owner in SUBCLASSED and not _is_inherited(owner.owner, name):
            # The attribute is the user's own.
            return
        support = of_member(owner.owner, name)
        if support == OLD_ONLY and self._is_in_context_api(where.scope.enclosing("class")):
            note = "the context API does not have it: keep what wrap_...() returns"
            support = Support(Status.REFUSED, note, OLD_ONLY.link)
        if support.status in _BAD:
            support = self._in_spite_of(support, owner, name, where.scope, probe)
        self._add(where.scope, node, f"{_short(owner.owner)}.{name}", support, where.guard)

    def _in_spite_of(
        self, support: Support, found: Object, name: str, scope: Scope, probe: bool
    ) -> Support:
        """What the code around a refused or unknown attribute makes of it."""
        if (found.owner, name) in self._set_by_code:
            return _OWN
        if not probe and (scope, name) in self._dynamic.probed:
            return Support(Status.DIFFERENT, "used only where it is there", support.link)
        is_sure = support.status is Status.UNKNOWN and not found.guessed
        return _probed(NOWHERE if is_sure and not probe else support, probe)

    def _is_in_context_api(self, cls: Scope | None) -> bool:
        hierarchy = self._inference.hierarchy
        if cls is None or not hierarchy.is_trial(cls):
            return False
        return TrialClass(cls, hierarchy).generation is Generation.CONTEXT

    def _inherited(self, use: Use, node: ast.Attribute, scope: Scope) -> None:
        for base in self._inference.hierarchy.owners(scope):
            if _is_inherited(base, node.attr):
                name = f"{_short(base)}.{node.attr}"
                self._add(use.scope, node, name, of_member(base, node.attr), use.guard)

    # Calls

    def _call(self, call: Call) -> None:
        self._dynamic.look_at(call)
        for callee in self._inference.evaluate(call.node.func, call.scope):
            function = _function(callee)
            for keyword in call.node.keywords if function else ():
                support = of_argument(function, keyword.arg) if keyword.arg else None
                if support is not None:
                    name = f"{_short(function)}({keyword.arg}=)"
                    self._add(call.scope, keyword, name, support, call.guard)
        for node, name in self._dynamic.literal_names(call):
            self._add(call.scope, node, name, of_name(name), call.guard)
        probe = self._dynamic.is_probe(call)
        for owner, node, attribute in self._dynamic.literal_attributes(call):
            if isinstance(owner, Object):
                self._add_member(owner, attribute, call, node, probe)
            elif owner.path.partition(".")[0] != "det_compat":
                support = _probed(of_name(f"{owner.path}.{attribute}"), probe)
                self._add(call.scope, node, f"{owner.path}.{attribute}", support, call.guard)

    # Classes

    def _overrides(self, scope: Scope, code: Code) -> None:
        owners = self._inference.hierarchy.owners(scope)
        for name, function in scope.functions.items():
            for owner in owners:
                self._override(scope, function.node, owner, name)
        for assignment in code.assignments:
            target = assignment.target
            if assignment.scope is scope and isinstance(target, ast.Name):
                for owner in owners:
                    self._override(scope, target, owner, target.id)

    def _override(self, scope: Scope, node: ast.AST | None, owner: str, name: str) -> None:
        if node is None or not has_member(owner, name):
            return
        support = of_member(owner, name)
        if support == OLD_ONLY and self._is_in_context_api(scope):
            # The method is a helper of the trial's own.
            return
        self._add(scope, node, f"{_short(owner)}.{name}", support, Guard())


def _is_inherited(owner: str, name: str) -> bool:
    """Whether an attribute of a user's class is Determined's.

    What only trials of 0.12 have is a helper of the user's own elsewhere.
    """
    return has_member(owner, name) and of_member(owner, name) != OLD_ONLY


def _probed(support: Support, probe: bool) -> Support:
    if probe and support.status in _BAD:
        return Support(Status.DIFFERENT, "asked for, and not there", support.link)
    return support


def _under(guard: Guard, support: Support, postponed: bool) -> Support:
    """The support of what runs under a guard."""
    if support.status is not Status.REFUSED:
        return support
    if guard.type_checking or (guard.annotation and postponed):
        return _NEVER
    if guard.catches & {"ImportError", "AttributeError", "Exception", "BaseException"}:
        note = f"refused, with an error that is caught here: {support.note}"
        return Support(Status.DIFFERENT, note, support.link)
    return support


def _is_reference(path: str, node: ast.expr) -> bool:
    # A variable that holds the result of a refused call is no further reference.
    ours = path.partition(".")[0] == "det_compat"
    return (
        not ours and not path.endswith("()") and not (isinstance(node, ast.Name) and "()" in path)
    )


def _function(callee: Value) -> str:
    if isinstance(callee, Member):
        return f"{callee.owner}.{callee.name}"
    return (home(callee.path) or "") if isinstance(callee, Name) else ""


def _short(name: str) -> str:
    """A class or method without its module: ``PyTorchTrialContext``."""
    parts = name.split(".")
    first = next((i for i, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
    return ".".join(parts[first:])


def position_of(scope: Scope, node: Any) -> Position:
    """Where a node is: for an attribute, function or class where its name begins."""
    source = scope.source
    line, column = node.lineno, node.col_offset
    if isinstance(node, ast.Attribute) and node.end_lineno and node.end_col_offset:
        line = node.end_lineno
        column = node.end_col_offset - len(node.attr.encode())
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        text = source.lines[line - 1].encode()
        column = max(text.find(node.name.encode(), column), column)
    return source.position(line, column)

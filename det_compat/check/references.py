"""Every reference to Determined in the code of a tree, with what becomes of it."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from det_compat.analysis import scopes
from det_compat.analysis.classes import MOST_ANCESTORS, MOST_RELATIVES
from det_compat.analysis.expressions import called, imported, literal
from det_compat.analysis.generations import TrialClass
from det_compat.analysis.inference import Inference
from det_compat.analysis.source import Position, Unreadable
from det_compat.catalog.generations import Generation
from det_compat.catalog.members import NOWHERE, OLD_ONLY, SUBCLASSED
from det_compat.catalog.names import PACKAGES
from det_compat.catalog.status import Status, Support
from det_compat.catalog.support import (
    has_member,
    home,
    is_determined,
    of_argument,
    of_member,
    of_name,
)
from det_compat.check.report import Finding, Report

_BAD = (Status.REFUSED, Status.UNKNOWN)
_OWN = Support(Status.SAME, "set by this code")
_MANY = f"more than {scopes.MOST_VALUES} things of Determined's meet here"
_TOO_MANY_RELATIVES = (
    f"the class has more than {MOST_ANCESTORS} ancestors or {MOST_RELATIVES} relatives in the tree"
)
_ANY_FUNCTION = f"one of more than {scopes.MOST_VALUES} functions or classes is called here"
_NEVER = Support(Status.SAME, "for type checkers only: it is never evaluated")


class References:
    """Adds the findings of all code to a report."""

    def __init__(self, inference: Inference, report: Report) -> None:
        self._inference = inference
        self._report = report
        self._found: set[Finding] = set()
        self._dynamic = Dynamic(inference)
        self._generations: dict[scopes.Scope, Generation | None] = {}
        self._set_by_code = {
            (owner.owner, use.node.attr)
            for code in inference.codes
            for use in code.uses
            if isinstance(use.node, ast.Attribute) and isinstance(use.node.ctx, ast.Store)
            for owner in inference.evaluate(use.node.value, use.scope)
            if isinstance(owner, scopes.Object)
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
            self._overrides(code)
        self._report.findings.extend(sorted(self._found, key=lambda f: (f.position, f.name)))
        self._report.dynamic.extend(self._dynamic.found)

    def _add(
        self, scope: scopes.Scope, node: ast.AST, name: str, support: Support, guard: scopes.Guard
    ) -> None:
        support = _under(guard, support, scope.source.postpones_annotations)
        self._found.add(Finding(position_of(scope, node), name, support))

    def _import(self, found: scopes.Import) -> None:
        if not self._inference.project.is_determined(found):
            return
        has_name = found.attribute not in (None, "*")
        name = f"{found.module}.{found.attribute}" if has_name else found.module
        self._add(found.scope, found.node, name, of_name(name), found.guard)

    # Names and attributes

    def _use(self, use: scopes.Use) -> None:
        node = use.node
        if not use.inner:
            for value in self._inference.evaluate(node, use.scope):
                if isinstance(value, scopes.Name) and _is_reference(value.path, node):
                    self._add(use.scope, node, value.path, of_name(value.path), use.guard)
                elif value == scopes.Many(True):
                    self._dynamic.note(use, _MANY)
        if isinstance(node, ast.Attribute):
            for owner in self._inference.evaluate(node.value, use.scope):
                self._attribute(use, node, owner)

    def _attribute(self, use: scopes.Use, node: ast.Attribute, owner: scopes.Value) -> None:
        if isinstance(owner, scopes.Object):
            self._add_member(owner, node.attr, use, node)
        elif owner == scopes.Many(True):
            self._dynamic.note(use, _MANY)
        elif isinstance(owner, (scopes.Instance, scopes.Parent)):
            evaluator = self._inference.evaluator
            is_own = evaluator.own_attribute(owner.scope, node.attr, bound=True) is not None
            if not is_own or isinstance(owner, scopes.Parent):
                self._inherited(use, node, owner.scope)

    def _add_member(
        self,
        owner: scopes.Object,
        name: str,
        where: scopes.Use | scopes.Call,
        node: ast.expr,
        probe: bool = False,
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
        self, support: Support, found: scopes.Object, name: str, scope: scopes.Scope, probe: bool
    ) -> Support:
        """What the code around a refused or unknown attribute makes of it."""
        if (found.owner, name) in self._set_by_code:
            return _OWN
        if not probe and (scope, name) in self._dynamic.probed:
            return Support(Status.DIFFERENT, "used only where it is there", support.link)
        is_sure = support.status is Status.UNKNOWN and not found.guessed
        return _probed(NOWHERE if is_sure and not probe else support, probe)

    def _is_in_context_api(self, cls: scopes.Scope | None) -> bool:
        hierarchy = self._inference.hierarchy
        if cls is None or not hierarchy.is_trial(cls):
            return False
        if cls not in self._generations:
            self._generations[cls] = TrialClass(cls, hierarchy).generation
        return self._generations[cls] is Generation.CONTEXT

    def _inherited(self, use: scopes.Use, node: ast.Attribute, scope: scopes.Scope) -> None:
        for base in self._inference.hierarchy.owners(scope):
            if _is_inherited(base, node.attr):
                name = f"{_short(base)}.{node.attr}"
                self._add(use.scope, node, name, of_member(base, node.attr), use.guard)

    # Calls

    def _call(self, call: scopes.Call) -> None:
        self._dynamic.look_at(call)
        for callee in self._inference.evaluate(call.node.func, call.scope):
            if callee == scopes.Many(False) and self._hands_on(call):
                self._dynamic.note(call, _ANY_FUNCTION)
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
            if isinstance(owner, scopes.Object):
                self._add_member(owner, attribute, call, node, probe)
            elif owner.path.partition(".")[0] != "det_compat":
                support = _probed(of_name(f"{owner.path}.{attribute}"), probe)
                self._add(call.scope, node, f"{owner.path}.{attribute}", support, call.guard)

    def _hands_on(self, call: scopes.Call) -> bool:
        """Whether a call is given something that may be Determined's."""
        given = (*call.node.args, *(keyword.value for keyword in call.node.keywords))
        return any(self._inference.evaluate(node, call.scope) for node in given)

    # Classes

    def _overrides(self, code: scopes.Code) -> None:
        owners = {scope: self._inference.hierarchy.owners(scope) for scope in code.classes}
        for scope in code.classes:
            if scope in self._inference.hierarchy.cut:
                self._dynamic.note_at(position_of(scope, scope.node), _TOO_MANY_RELATIVES)
            for name, function in scope.functions.items():
                for owner in owners[scope]:
                    self._override(scope, function.node, owner, name)
        for assignment in code.assignments:
            target = assignment.target
            if isinstance(target, ast.Name):
                for owner in owners.get(assignment.scope, ()):
                    self._override(assignment.scope, target, owner, target.id)

    def _override(self, scope: scopes.Scope, node: ast.AST | None, owner: str, name: str) -> None:
        if node is None or not has_member(owner, name):
            return
        support = of_member(owner, name)
        if support == OLD_ONLY and self._is_in_context_api(scope):
            # The method is a helper of the trial's own.
            return
        self._add(scope, node, f"{_short(owner)}.{name}", support, scopes.Guard())


def _is_inherited(owner: str, name: str) -> bool:
    """Whether an attribute of a user's class is Determined's.

    What only trials of 0.12 have is a helper of the user's own elsewhere.
    """
    return has_member(owner, name) and of_member(owner, name) != OLD_ONLY


def _probed(support: Support, probe: bool) -> Support:
    if probe and support.status in _BAD:
        return Support(Status.DIFFERENT, "asked for, and not there", support.link)
    return support


def _under(guard: scopes.Guard, support: Support, postponed: bool) -> Support:
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


def _function(callee: scopes.Value) -> str:
    if isinstance(callee, scopes.Member):
        return f"{callee.owner}.{callee.name}"
    return (home(callee.path) or "") if isinstance(callee, scopes.Name) else ""


def _short(name: str) -> str:
    """A class or method without its module: ``PyTorchTrialContext``."""
    parts = name.split(".")
    first = next((i for i, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
    return ".".join(parts[first:])


def position_of(scope: scopes.Scope, node: Any) -> Position:
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


_IMPORTS = {"import_module", "__import__"}
_PATCHES = {"patch", "setattr", "delattr"}
_ATTRIBUTES = {"getattr", "hasattr", "setattr", "delattr"}
_GETTERS = {"__getattr__", "__getattribute__"}
_MADE_GETTERS = {"attrgetter", "methodcaller"}
_EXECUTES = {"exec", "eval"}
_DOTTED = re.compile(r"\w+(\.\w+)*")


class Dynamic:
    """What calls of ``import_module``, ``getattr``, ``exec`` and their like refer to."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self.found: list[Unreadable] = []
        #: Attributes that a function asks for with ``hasattr``, with its scope.
        self.probed: set[tuple[scopes.Scope, str]] = set()
        #: Attributes that ``setattr`` sets, with the class of the object.
        self.set_by_code: set[tuple[str, str]] = set()
        for code in inference.codes:
            for call in code.calls:
                self._remember(call)

    def _remember(self, call: scopes.Call) -> None:
        name = called(call.node)
        for owner, _, attribute in self.literal_attributes(call):
            if isinstance(owner, scopes.Name):
                continue
            if name == "setattr":
                self.set_by_code.add((owner.owner, attribute))
            elif name == "hasattr":
                self.probed.add((call.scope, attribute))

    def is_probe(self, call: scopes.Call) -> bool:
        """Whether a call asks for an attribute and does without it."""
        name = called(call.node)
        return name == "hasattr" or (name == "getattr" and len(call.node.args) > 2)

    def look_at(self, call: scopes.Call) -> None:
        """Note a call whose meaning is decided at run time."""
        reason = self._reason(call)
        if reason:
            self.note(call, reason)

    def note(self, where: scopes.Call | scopes.Use, reason: str) -> None:
        """Note what is decided at run time, and why that cannot be told."""
        self.note_at(where.scope.source.position(where.node.lineno, where.node.col_offset), reason)

    def note_at(self, position: Position, reason: str) -> None:
        """Note what is decided at run time, and why that cannot be told."""
        self.found.append(Unreadable(position, reason))

    def _reason(self, call: scopes.Call) -> str:
        name, args = called(call.node), call.node.args
        if name in _IMPORTS and args and _may_be_determined(args[0]):
            return f"{name}() of a name that is made at run time"
        if (
            name in _EXECUTES
            and args
            and isinstance(call.node.func, ast.Name)
            and not literal(args[0])
        ):
            # Code that begins otherwise is no danger.
            is_open = _agree(_beginning(args[0]) or "", "determined")
            return f"{name}() of code that is made at run time" if is_open else ""
        if name in _ATTRIBUTES and len(args) > 1 and literal(args[1]) is None:
            if self._is_determined(args[0], call.scope):
                return f"{name}() of an attribute that is named at run time"
        elif any(self._is_determined(node, call.scope) for node in _looked_into(call.node)):
            return f"{name or 'attrgetter'}() of an object of Determined's"
        return ""

    def _is_determined(self, node: ast.expr, scope: scopes.Scope) -> bool:
        owners = self._inference.evaluate(node, scope)
        return any(isinstance(owner, (scopes.Object, scopes.Name)) for owner in owners)

    def literal_names(self, call: scopes.Call) -> Iterator[tuple[ast.expr, str]]:
        """Names of Determined that a call imports or patches by a string."""
        asked = called(call.node)
        if asked not in _IMPORTS | _PATCHES:
            return
        for node in call.node.args[:1]:
            name = imported(call.node) if asked in _IMPORTS else literal(node)
            if name and is_determined(name) and _DOTTED.fullmatch(name):
                yield node, name

    def literal_attributes(
        self, call: scopes.Call
    ) -> Iterator[tuple[scopes.Object | scopes.Name, ast.expr, str]]:
        """Attributes that a call asks for by a string, with what has them."""
        args = call.node.args
        if called(call.node) not in _ATTRIBUTES or len(args) < 2:
            return
        attribute = literal(args[1])
        for owner in self._inference.evaluate(args[0], call.scope) if attribute else ():
            if isinstance(owner, (scopes.Object, scopes.Name)) and attribute:
                yield owner, args[1], attribute


def _looked_into(node: ast.Call) -> list[ast.expr]:
    """Of what a call reads attributes that it does not name."""
    name = called(node)
    if name in _GETTERS and isinstance(node.func, ast.Attribute):
        return [node.func.value]
    is_made = isinstance(node.func, ast.Call) and called(node.func) in _MADE_GETTERS
    return node.args[:1] if is_made or name == "vars" else []


def _may_be_determined(node: ast.expr) -> bool:
    text = _beginning(node)
    if text is None:
        return True
    is_whole = literal(node) is not None
    return not is_whole and any(_agree(text, f"{package}.") for package in PACKAGES)


def _agree(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _beginning(node: ast.expr) -> str | None:
    """How a string that is put together begins; None if nothing is known of it."""
    text = literal(node)
    if text is not None:
        return text
    if isinstance(node, ast.JoinedStr) and node.values:
        return _beginning(node.values[0])
    if isinstance(node, ast.BinOp):
        return _beginning(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _beginning(node.func.value) if node.func.attr in ("format", "join") else None
    return None

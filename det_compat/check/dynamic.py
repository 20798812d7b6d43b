"""Code that names Determined in strings, or decides at run time what it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from det_compat.analysis.expressions import called, imported, literal
from det_compat.analysis.inference import Inference
from det_compat.analysis.scopes import Call, Scope
from det_compat.analysis.source import Unreadable
from det_compat.analysis.values import Name, Object
from det_compat.catalog.names import PACKAGES
from det_compat.catalog.support import is_determined

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
        self.probed: set[tuple[Scope, str]] = set()
        #: Attributes that ``setattr`` sets, with the class of the object.
        self.set_by_code: set[tuple[str, str]] = set()
        for code in inference.codes:
            for call in code.calls:
                self._remember(call)

    def _remember(self, call: Call) -> None:
        name = called(call.node)
        for owner, _, attribute in self.literal_attributes(call):
            if isinstance(owner, Name):
                continue
            if name == "setattr":
                self.set_by_code.add((owner.owner, attribute))
            elif name == "hasattr":
                self.probed.add((call.scope, attribute))

    def is_probe(self, call: Call) -> bool:
        """Whether a call asks for an attribute and does without it."""
        name = called(call.node)
        return name == "hasattr" or (name == "getattr" and len(call.node.args) > 2)

    def look_at(self, call: Call) -> None:
        """Note a call whose meaning is decided at run time."""
        reason = self._reason(call)
        if reason:
            position = call.scope.source.position(call.node.lineno, call.node.col_offset)
            self.found.append(Unreadable(position, reason))

    def _reason(self, call: Call) -> str:
        name, args = called(call.node), call.node.args
        if name in _IMPORTS and args and _may_be_determined(args[0]):
            return f"{name}() of a name that is made at run time"
        if (
            name in _EXECUTES
            and args
            and isinstance(call.node.func, ast.Name)
            and not literal(args[0])
        ):
            # of code that begins otherwise, nothing is to be feared
            is_open = _agree(_beginning(args[0]) or "", "determined")
            return f"{name}() of code that is made at run time" if is_open else ""
        if name in _ATTRIBUTES and len(args) > 1 and literal(args[1]) is None:
            if self._is_determined(args[0], call.scope):
                return f"{name}() of an attribute that is named at run time"
        elif any(self._is_determined(node, call.scope) for node in _looked_into(call.node)):
            return f"{name or 'attrgetter'}() of an object of Determined's"
        return ""

    def _is_determined(self, node: ast.expr, scope: Scope) -> bool:
        owners = self._inference.evaluate(node, scope)
        return any(isinstance(owner, (Object, Name)) for owner in owners)

    def literal_names(self, call: Call) -> Iterator[tuple[ast.expr, str]]:
        """Names of Determined that a call imports or patches by a string."""
        asked = called(call.node)
        if asked not in _IMPORTS | _PATCHES:
            return
        for node in call.node.args[:1]:
            name = imported(call.node) if asked in _IMPORTS else literal(node)
            if name and is_determined(name) and _DOTTED.fullmatch(name):
                yield node, name

    def literal_attributes(self, call: Call) -> Iterator[tuple[Object | Name, ast.expr, str]]:
        """Attributes that a call asks for by a string, with what has them."""
        args = call.node.args
        if called(call.node) not in _ATTRIBUTES or len(args) < 2:
            return
        attribute = literal(args[1])
        for owner in self._inference.evaluate(args[0], call.scope) if attribute else ():
            if isinstance(owner, (Object, Name)) and attribute:
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

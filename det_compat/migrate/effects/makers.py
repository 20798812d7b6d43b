"""What attributes are made by, which says what their methods do."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from det_compat.analysis.expressions import last_name
from det_compat.migrate.effects import harmless
from det_compat.migrate.effects.source import Project, Scope, dotted, self_name

#: Ways in which something was made: by a class or function of the project ("class", "function"), a
#: literal, a layer or function of a library, a model that is wrapped ("layer"), an iterator, or
#: none of these.
Kind: TypeAlias = tuple[str, str]
LAYER, LITERAL, CALCULATED, ITERATOR = (
    ("layer", ""),
    ("literal", ""),
    ("value", ""),
    ("iterator", ""),
)
#: What draws random numbers.
DRAWING: Kind = ("drawing", "")
UNKNOWN: Kind = ("unknown", "")
#: What is of no class of the project, and not known either.
FOREIGN: Kind = ("foreign", "")

#: Methods that return what they are called on, as it is or somewhere else.
_SAME = ("to", "cuda", "cpu", "eval", "train", "double", "float", "half", "requires_grad_", "apply")
_LITERALS = (
    ast.Constant, ast.JoinedStr, ast.BinOp, ast.UnaryOp, ast.Compare, ast.List, ast.Dict, ast.Set,
    ast.Tuple, ast.ListComp, ast.DictComp, ast.SetComp,
)  # fmt: skip


@dataclass
class Makers:
    """What the attributes of an object are made by.

    Attributes:
        own: the methods of its class.
        project: the code around it.
    """

    own: Mapping[str, Scope]
    project: Project

    def __post_init__(self) -> None:
        self._values: dict[str, list[tuple[ast.expr, Scope]]] = {}
        self._known: dict[str, frozenset[Kind]] = {}
        for method in self.own.values():
            me = self_name(method)
            for target, value in _assigned(method):
                # What is put into a list or dict is called in its place.
                while isinstance(target, ast.Subscript):
                    target = target.value
                if isinstance(target, ast.Attribute) and last_name(target.value) == me:
                    self._values.setdefault(target.attr, []).append((value, method))

    def of(self, attribute: str) -> frozenset[Kind]:
        """The ways in which an attribute may have been made."""
        if attribute not in self._known and "." in attribute:
            self._known[attribute] = frozenset(self._of_part(*attribute.rsplit(".", 1)))
        if attribute not in self._known:
            self._known[attribute] = frozenset({UNKNOWN})
            found = self._values.get(attribute, ())
            kinds = {kind for value, method in found for kind in self._kinds(value, method, 0)}
            self._known[attribute] = frozenset(kinds or {UNKNOWN})
        return self._known[attribute]

    def sets(self, attribute: str) -> bool:
        """Whether some method sets an attribute."""
        return attribute in self._values

    def _of_part(self, owner: str, attribute: str) -> Iterator[Kind]:
        """The ways in which an attribute of an attribute may have been made."""
        for kind in self.of(owner):
            how, name = kind
            for own in self.project.methods(name) if how == "class" else ():
                yield from Makers(own, self.project).of(attribute)
            if how != "class":
                yield UNKNOWN if how in ("function", "own", "iterator") else kind

    def _kinds(self, node: ast.expr, method: Scope, depth: int) -> Iterator[Kind]:
        if depth > 8:
            yield UNKNOWN
        elif isinstance(node, (ast.IfExp, ast.BoolOp)):
            parts = node.values if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
            for part in parts:
                yield from self._kinds(part, method, depth + 1)
        elif isinstance(node, ast.Call):
            yield from self._of_call(node, method, depth)
        elif isinstance(node, _LITERALS):
            yield from self._of_literal(node, method, depth)
        elif isinstance(node, (ast.GeneratorExp, ast.YieldFrom)):
            yield ITERATOR
        elif isinstance(node, ast.Name):
            yield from self._of_name(node, method, depth)
        elif isinstance(node, ast.Subscript):
            yield from self._kinds(node.value, method, depth + 1)
        elif isinstance(node, ast.Attribute):
            yield from self._of_attribute(node, method, depth)
        else:
            yield UNKNOWN

    def _of_literal(self, node: ast.expr, method: Scope, depth: int) -> Iterator[Kind]:
        yield LITERAL
        elements: list[ast.expr | None] = []
        if isinstance(node, (ast.List, ast.Set, ast.Tuple)):
            elements += node.elts
        elif isinstance(node, ast.Dict):
            elements += node.values
        elif isinstance(node, (ast.ListComp, ast.SetComp)):
            elements.append(node.elt)
        elif isinstance(node, ast.DictComp):
            elements.append(node.value)
        for element in elements:
            if element is not None and not isinstance(element, ast.Constant):
                yield from self._kinds(element, method, depth + 1)

    def _of_name(self, node: ast.Name, method: Scope, depth: int) -> Iterator[Kind]:
        local = [value for target, value in _assigned(method) if last_name(target) == node.id
                 and isinstance(target, ast.Name)]  # fmt: skip
        for value in local:
            yield from self._kinds(value, method, depth + 1)
        if not local:
            yield self._named(node.id, node.id)

    def _of_attribute(self, node: ast.Attribute, method: Scope, depth: int) -> Iterator[Kind]:
        path = self.project.path(node)
        if path is not None:
            yield self._named(node.attr, path)
        elif last_name(node.value) == self_name(method) and isinstance(node.value, ast.Name):
            if node.attr in self.own:
                yield ("own", node.attr)
            else:
                yield from self.of(node.attr)
        else:
            yield UNKNOWN

    def _named(self, name: str, path: str) -> Kind:
        """A function or class that is kept as it is."""
        if name in self.project:
            return ("function", name)
        found = self.project.paths(path)
        is_pure = bool(found) and all(map(harmless.is_pure, found))
        return CALCULATED if is_pure or hasattr(builtins, name) else UNKNOWN

    def _of_call(self, node: ast.Call, method: Scope, depth: int) -> Iterator[Kind]:
        func, name = node.func, last_name(node.func)
        if name in ("wrap_model", "compile", "DataParallel") and node.args:
            inner = {*self._kinds(node.args[0], method, depth + 1)}
            # Whatever else it is, it is a model, and in evaluation mode.
            yield from {LAYER if kind in (UNKNOWN, FOREIGN) else kind for kind in inner}
            return
        if isinstance(func, ast.Attribute) and name in _SAME and self.project.path(func) is None:
            yield from self._kinds(func.value, method, depth + 1)
            return
        path = dotted(func) or ""
        if name in self.own and path == f"{self_name(method)}.{name}":
            yield from self._returned(self.own[name], depth)
        elif name in self.project:
            yield from self._of_project(name, depth)
        elif path.startswith("__det_"):
            yield CALCULATED
        elif isinstance(func, ast.Name) and hasattr(builtins, name):
            yield ITERATOR if name in harmless.ITERATORS else LITERAL
        else:
            paths = self.project.paths(path)
            if name in harmless.ITERATORS and paths:
                yield ITERATOR
            elif name in harmless.DRAWING and paths:
                yield DRAWING
            elif name in harmless.WRAPPING:
                yield FOREIGN
            elif name in harmless.CONTAINERS and paths:
                yield LITERAL
            elif paths and all(map(harmless.is_layer, paths)):
                yield LAYER
                for each in node.args:
                    yield from self._kinds(each, method, depth + 1) if name == "ModuleList" else ()
            elif paths and all(map(harmless.is_pure, paths)):
                yield CALCULATED
            else:
                yield FOREIGN if paths else UNKNOWN

    def _of_project(self, name: str, depth: int) -> Iterator[Kind]:
        for found in self.project.definitions(name):
            if isinstance(found, ast.ClassDef):
                yield ("class", name)
                continue
            yield from self._returned(found, depth)

    def _returned(self, function: Scope, depth: int) -> Iterator[Kind]:
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value is not None:
                yield from self._kinds(node.value, function, depth + 1)
            elif isinstance(node, (ast.Yield, ast.YieldFrom)):
                yield ITERATOR


def _assigned(method: Scope) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target of a method with its value; a part of a tuple with all of it, if it is one."""
    for node in ast.walk(method):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _pairs(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            if node.value is not None:
                yield node.target, node.value
        elif isinstance(node, (ast.For, ast.comprehension)):
            yield from _pairs(node.target, node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield from _pairs(node.optional_vars, node.context_expr)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _ADDING
            and node.args
        ):
            yield node.func.value, node.args[-1]


_ADDING = ("append", "add", "insert", "extend", "add_module", "setdefault")


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        for index, each in enumerate(target.elts):
            same = len(values) == len(target.elts)
            yield from _pairs(each, values[index] if same else value)
    elif isinstance(target, ast.Starred):
        yield from _pairs(target.value, value)
    else:
        yield target, value

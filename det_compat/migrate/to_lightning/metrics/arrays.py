"""Metrics that functions and losses of the project hand out as NumPy's, which Lightning refuses."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import libcst as cst

from det_compat.migrate.shapes.known import Shapes
from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import parsed

#: How an object is called: a loss by ``forward``, a function of a class's own by ``__call__``.
_CALLED = ("forward", "__call__")


@dataclass
class Arrays:
    """Which values of a method may be arrays, since code of the project returns such.

    Attributes:
        method: the method.
        shapes: what else its class and the project have.
        deep: how many calls of methods are followed.
    """

    method: cst.FunctionDef
    shapes: Shapes
    deep: int = 2
    _names: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        for line in syntax.find(self.method.body, cst.Assign):
            if isinstance(line.value, cst.Call) and self._gives(line.value):
                targets = (part for each in line.targets for part in _parts(each.target))
                self._names.update(map(syntax.code, targets))

    def may_have(self, value: cst.BaseExpression) -> bool:
        """Whether a value is what such code has returned, or a part of that."""
        while isinstance(value, cst.Subscript):
            value = value.value
        if isinstance(value, cst.Call):
            return self._gives(value)
        return syntax.code(value) in self._names

    def are_returned(self) -> bool:
        """Whether the method returns such a value, or a dict or tuple with one."""
        values = (each.value for each in syntax.returns(self.method) if each.value is not None)
        known = assigned(self.method)
        made = (known.get(syntax.code(value)) or value for value in values)
        return any(self.may_have(part) for value in made for part in _parts(value))

    def _gives(self, call: cst.Call) -> bool:
        owner, _, name = syntax.code(call.func).rpartition(".")
        if owner != syntax.self_name(self.method):
            return self._returns(name, ())
        if (called := self.shapes.own.get(name)) is not None:
            is_plain = not _returns_arrays(f"{syntax.code(called).strip()}\n", ())
            return not is_plain or (
                self.deep > 0 and Arrays(called, self.shapes, self.deep - 1).are_returned()
            )
        made = (
            each
            for method in self.shapes.own.values()
            for line in syntax.find(method.body, cst.Assign)
            for target, each in syntax.pairs(line)
            if syntax.code(target) == f"{syntax.self_name(method)}.{name}"
        )
        return any(self._returns(kind, _CALLED) for each in made for kind in _made_by(each))

    def _returns(self, name: str, methods: tuple[str, ...]) -> bool:
        paths = self.shapes.imported.get(name, frozenset({name}))
        known = {path.rpartition(".")[2] for path in paths} & self.shapes.texts.keys()
        return any(_returns_arrays(self.shapes.texts[each], methods) for each in known)


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a value or a target has in it, those of tuples in tuples included."""
    if not isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
        yield node
        return
    for element in node.elements:
        yield from _parts(element.value)


def _made_by(value: cst.BaseExpression) -> Iterator[str]:
    """The classes of which a value may be an object."""
    for call in syntax.find(value, cst.Call):
        yield syntax.code(call.func).rpartition(".")[2]


@lru_cache(maxsize=4096)
def _returns_arrays(text: str, methods: tuple[str, ...]) -> bool:
    """Whether the code of a function, or of these ``methods`` of a class, returns arrays."""
    for node in parsed(text).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        functions = (n for n in inner if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
        if any(not methods or f.name in methods for f in functions if _hands_out(f)):
            return True
    return False


def _hands_out(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    lines = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    made = {target.id for n in lines if _is_array(n.value) for target in _names_in(*n.targets)}
    returned = (n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value)
    return any(
        _is_array(each) or (isinstance(each, ast.Name) and each.id in made)
        for value in returned
        for each in _elements(value)
    )


def _names_in(*nodes: ast.AST) -> Iterator[ast.Name]:
    yield from (node for n in nodes for node in ast.walk(n) if isinstance(node, ast.Name))


def _elements(value: ast.expr) -> Iterator[ast.expr]:
    """What a value is, or has in it."""
    if not isinstance(value, (ast.Tuple, ast.List, ast.Dict)):
        yield value
        return
    for part in value.values if isinstance(value, ast.Dict) else value.elts:
        yield from _elements(part)


def _is_array(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "numpy"

"""What methods know of what they call and of their object's attributes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import libcst as cst

from det_compat.migrate.shapes.returned import odd_kinds
from det_compat.migrate.shapes.values import ONE, SEVERAL, Known, assigned, is_many, is_scalar, rows
from det_compat.migrate.tree.syntax import code, find, self_name


@dataclass(frozen=True)
class Shapes:
    """What is known of metrics where they are made.

    Attributes:
        own: the methods of a class.
        near: the functions and methods of its file, by name.
        far: the functions of other files.
        imported: the paths that each name is imported from.
        texts: the functions and classes of all files, by name.
    """

    own: Mapping[str, cst.FunctionDef] = field(default_factory=dict)
    near: Mapping[str, cst.FunctionDef] = field(default_factory=dict)
    far: Mapping[str, cst.FunctionDef] = field(default_factory=dict)
    imported: Mapping[str, frozenset[str]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def known(self, method: cst.FunctionDef, deep: int = 2) -> Known:
        """What a method knows: its variables, attributes that are set once, what it calls.

        So many calls are followed as ``deep`` says.
        """
        me = self_name(method)
        found = {f"{me}.{name}": value for name, value in _attributes(self.own).items()}
        found.update(assigned(method))
        found.update(dict.fromkeys(rows(method), SEVERAL))
        for call in find(method.body, cst.Call) if deep else ():
            called, inner = self.reached(call, method)
            if called is not None and called is not method:
                shape = _returned_shape(called, inner.known(called, deep - 1))
                found[f"{code(call.func)}()"] = shape
        return found

    def reached(
        self, call: cst.Call, method: cst.FunctionDef
    ) -> tuple[cst.FunctionDef | None, "Shapes"]:
        """What a method calls, None if it is not known, and what that knows."""
        owner, _, name = code(call.func).rpartition(".")
        if owner == self_name(method):
            return self.own.get(name) or self.near.get(name), self
        is_near = owner.partition(".")[0] not in self.imported
        called = self.near.get(name) if is_near else None
        return called or self.far.get(name), replace(self, own={})

    def odd_kinds(self, method: cst.FunctionDef) -> frozenset[str]:
        """As ``odd_kinds``, with all that is known."""
        return odd_kinds(method, self.known(method))


def _attributes(own: Mapping[str, cst.FunctionDef]) -> Known:
    """What each attribute of an object is; None if it is set more than once."""
    found: Known = {}
    for method in own.values():
        me = self_name(method)
        for line in find(method.body, cst.Assign):
            for target in line.targets:
                owner, _, name = code(target.target).partition(".")
                if owner == me:
                    found[name] = line.value if name not in found else None
    return found


def _returned_shape(function: cst.FunctionDef, known: Known) -> cst.BaseExpression | None:
    """What stands for the results of a function; None if they may be anything."""
    values = [found.value for found in find(function.body, cst.Return) if found.value is not None]
    if any(isinstance(value, cst.Tuple) for value in values):
        return None
    if any(is_many(value, known) for value in values):
        return SEVERAL
    return ONE if values and all(is_scalar(value, known) for value in values) else None

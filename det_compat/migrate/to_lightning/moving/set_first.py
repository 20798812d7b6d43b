"""What a method of a trial is sure to set on its object before it reads it.

What another method has left there makes no difference to it then.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
#: The attributes that are set where code goes on; None where it does not.
_Set: TypeAlias = frozenset[str] | None
_NONE: frozenset[str] = frozenset()


def reading_own(methods: Mapping[str, _Function], start: str) -> dict[str, _Function]:
    """Methods, in which what ``start`` sets first is read from variables.

    Args:
        methods: those of a class.
        start: the method that is called.
    """
    if start not in methods:
        return {**methods}
    walk = _Walk(methods)
    walk.through(methods[start])
    first = walk.written - walk.exposed - methods.keys()
    if not first:
        return {**methods}
    reading = {**methods}
    for name, method in methods.items():
        if method in walk.reached:
            variables = _Variables(_self_name(method), first)
            reading[name] = variables.visit(copy.deepcopy(method))
    return reading


def _self_name(method: _Function) -> str:
    given = [*method.args.posonlyargs, *method.args.args]
    return given[0].arg if given and not method.decorator_list else ""


class _Variables(ast.NodeTransformer):
    """Has variables in the place of attributes that are read."""

    def __init__(self, own: str, names: Iterable[str]) -> None:
        self._own, self._names = own, {*names}

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        is_one = _is_own(node, self._own) and node.attr in self._names
        is_one = is_one and isinstance(node.ctx, ast.Load)
        return ast.Name(f"{self._own}.{node.attr}", node.ctx) if is_one else node


def _is_own(node: ast.Attribute, own: str) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == own


class _Walk:
    """Goes through methods as they run, branch by branch.

    Attributes:
        written: the attributes that are set somewhere.
        exposed: those that are read where they may not have been set.
        reached: the methods that are called.
    """

    def __init__(self, methods: Mapping[str, _Function]) -> None:
        self._methods = methods
        self._inside: list[_Function] = []
        self._left: list[_Set] = []
        self.written: set[str] = set()
        self.exposed: set[str] = set()
        self.reached: list[_Function] = []

    def through(self, method: _Function, known: frozenset[str] = _NONE) -> frozenset[str]:
        """What is set when a method has returned."""
        if method in self._inside:
            return known
        if method not in self.reached:
            self.reached.append(method)
        self._inside.append(method)
        outer, self._left = self._left, []
        end = self._block(method.body, known)
        left, self._left = [*self._left, end], outer
        self._inside.pop()
        return _common(left) or known

    def _block(self, lines: Iterable[ast.stmt], known: _Set) -> _Set:
        for line in lines:
            if known is not None:
                known = self._line(line, known)
        return known

    def _line(self, line: ast.stmt, known: frozenset[str]) -> _Set:
        if isinstance(line, ast.If):
            known = self._read(line.test, known)
            return _common([self._block(line.body, known), self._block(line.orelse, known)])
        if isinstance(line, (ast.For, ast.AsyncFor, ast.While)):
            known = self._read(line.test if isinstance(line, ast.While) else line.iter, known)
            # It may go round no time, and what is behind ``else`` may be left out.
            inner = known if isinstance(line, ast.While) else self._targets([line.target], known)
            self._block(line.body, inner)
            self._block(line.orelse, known)
            return known
        if isinstance(line, (ast.With, ast.AsyncWith)):
            for item in line.items:
                known = self._read(item.context_expr, known)
                given = [item.optional_vars] if item.optional_vars is not None else []
                known = self._targets(given, known)
            made = self._block(line.body, known)
            # It may go on behind an error.
            is_bold = any("suppress" in ast.unparse(item.context_expr) for item in line.items)
            return known if is_bold else made
        if isinstance(line, ast.Try):
            ends = [self._block(line.orelse, self._block(line.body, known))]
            ends += [self._block(each.body, known) for each in line.handlers]
            last = self._block(line.finalbody, known)
            end = _common(ends)
            return end | last if end is not None and last is not None else None
        if isinstance(line, ast.Match):
            known = self._read(line.subject, known)
            ends = [self._block(each.body, known) for each in line.cases]
            return _common([*ends, known])
        return self._simple(line, known)

    def _simple(self, line: ast.stmt, known: frozenset[str]) -> _Set:
        if isinstance(line, (ast.Assign, ast.AnnAssign)):
            if line.value is None:
                return known
            targets = line.targets if isinstance(line, ast.Assign) else [line.target]
            return self._targets(targets, self._read(line.value, known))
        known = self._read(line, known)
        if isinstance(line, ast.Return):
            self._left.append(known)
        return None if isinstance(line, (ast.Return, ast.Raise)) else known

    def _targets(self, targets: Iterable[ast.expr], known: frozenset[str]) -> frozenset[str]:
        """What is set after an assignment: what is behind ``self.a.b = ...`` is read."""
        own = _self_name(self._inside[-1])
        for target in targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                known = self._targets(target.elts, known)
            elif isinstance(target, ast.Attribute) and _is_own(target, own):
                self.written.add(target.attr)
                known |= {target.attr}
            else:
                known = self._read(target, known)
        return known

    def _read(self, node: ast.AST, known: frozenset[str]) -> frozenset[str]:
        """What is set when an expression is known, of which the methods that it calls set some."""
        nodes = [*ast.walk(node)]
        for each in nodes:
            if isinstance(each, ast.AugAssign):
                self._note(each.target, known)
            elif not isinstance(getattr(each, "ctx", None), ast.Store):
                self._note(each, known)
        for each in self._called(nodes):
            self.through(each, known)
        # What is called for sure is called first of all.
        while isinstance(node, (ast.Expr, ast.Return, ast.Await, ast.Attribute, ast.Subscript)):
            node = node.value or ast.Constant(None)
        for each in self._called([node.func] if isinstance(node, ast.Call) else []):
            if not any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(each)):
                known = self.through(each, known)
        return known

    def _note(self, node: ast.AST, known: frozenset[str]) -> None:
        """Note what is read, or changed, of the object."""
        own = _self_name(self._inside[-1])
        if isinstance(node, ast.Attribute) and _is_own(node, own) and node.attr not in known:
            self.exposed.add(node.attr)

    def _called(self, nodes: Iterable[ast.AST]) -> Iterator[_Function]:
        own = _self_name(self._inside[-1])
        for node in nodes:
            if (
                isinstance(node, ast.Attribute)
                and _is_own(node, own)
                and node.attr in self._methods
            ):
                yield self._methods[node.attr]


def _common(ends: Iterable[_Set]) -> _Set:
    """What is set whichever way the code has come; None if it comes no way."""
    known = [end for end in ends if end is not None]
    return frozenset.intersection(*known) if known else None

"""Follows the expressions of a function but for its calls."""

from __future__ import annotations

import ast
import builtins
from abc import abstractmethod

from det_compat.migrate.effects.source import Scope, dotted
from det_compat.migrate.effects.statements import Statements
from det_compat.migrate.effects.values import ANYTHING, GLOBAL, ITSELF, NEW, Value, of

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Expressions(Statements):
    """What expressions stand for."""

    @abstractmethod
    def call(self, node: ast.Call) -> Value:
        """What a call returns; what it changes is noted."""

    @abstractmethod
    def own_method(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        """What a method of the object returns."""

    def value(self, node: ast.expr | None) -> Value:
        """What an expression may stand for; what it changes is noted."""
        if node is None or isinstance(node, ast.Constant):
            return NEW
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Subscript):
            self.value(node.slice)
            value = self.value(node.value)
            self.part(node, value, "__getitem__")
            return value.element
        if isinstance(node, _COMPREHENSIONS):
            return self._comprehension(node)
        if isinstance(node, ast.Lambda):
            for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                self.names[each.arg] = of(ANYTHING)
            return self.value(node.body).held
        if isinstance(node, ast.NamedExpr):
            value = self.value(node.value)
            self.bind(node.target, value)
            return value
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            self.returns(self.value(node.value).held)
            return NEW
        parts = [
            self.value(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)
        ]
        if isinstance(node, (ast.BoolOp, ast.IfExp, ast.Starred, ast.Await)):
            return _union(parts[-2:] if isinstance(node, ast.IfExp) else parts)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
            return _union([each.held for each in parts])
        if isinstance(node, ast.BinOp):
            # The elements of two lists are in their sum.
            return _union([each.held for each in parts])
        return NEW

    def _name(self, node: ast.Name) -> Value:
        name = node.id
        if name in self.names:
            return self.names[name]
        if name in self.nested:
            # What is not called here is called with anything.
            args = self.nested[name].args
            for each in (*args.posonlyargs, *args.args, *args.kwonlyargs):
                self.names[each.arg] = self.names.get(each.arg, NEW) | of(ANYTHING)
            return self.returned.get(name, NEW).held
        project = self.trace.project
        if name in self.imports:
            return NEW
        if self.is_unknown(name):
            return of(ANYTHING)
        is_kept = name in project or (name[:1].isupper() and not project.paths(name))
        return of(f"{GLOBAL}{name}") if is_kept or project.is_variable(name) else NEW

    def is_unknown(self, name: str) -> bool:
        """Whether nothing tells what a name is, as it is not where something is imported whole."""
        project = self.trace.project
        return not (
            name in project
            or project.paths(name)
            or project.is_variable(name)
            or hasattr(builtins, name)
            or name[:1].isupper()
            or name.startswith("__")
            or name in (*self.names, *self.nested, *self.imports)
        )

    def _attribute(self, node: ast.Attribute) -> Value:
        code = dotted(node)
        root = (code or "").partition(".")[0]
        if code is not None and root not in self.names:
            if root in self.imports or root.startswith("__det_"):
                return NEW
            if (paths := self.trace.project.paths(root)) and not root[:1].isupper():
                return self._of_module(node, paths)
        value = self.value(node.value)
        if ITSELF not in value.state:
            return value.part(node.attr)
        if node.attr == "__dict__":
            return value
        if node.attr not in self.trace.own:
            return of(node.attr) | Value(value.state - {ITSELF}, value.inside)
        # A property is called, and what else is named may be called with anything.
        method = self.trace.own[node.attr]
        if any(map(_is_property, method.decorator_list)):
            return self.own_method(node.attr, [], {})
        self.own_method(node.attr, [of(ANYTHING)] * len(method.args.args[1:]), {})
        return NEW

    def _of_module(self, node: ast.Attribute, paths: list[str]) -> Value:
        """What ``module.name``, or a part of it, stands for."""
        owner: ast.expr = node
        while isinstance(owner, ast.Attribute):
            if owner.attr in self.trace.project or self.trace.project.is_variable(owner.attr):
                return of(f"{GLOBAL}{owner.attr}")
            owner = owner.value
        assert isinstance(owner, ast.Name)
        is_kept = any(path.rpartition(".")[2] == owner.id for path in paths)
        return (
            of(f"{GLOBAL}{owner.id}")
            if is_kept and self.trace.project.is_variable(owner.id)
            else NEW
        )

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> Value:
        for each in node.generators:
            self.bind(each.target, self.iterated(each.iter))
            for test in each.ifs:
                self.value(test)
        if isinstance(node, ast.DictComp):
            return self.value(node.key).held | self.value(node.value).held
        return self.value(node.elt).held


def _is_property(node: ast.expr) -> bool:
    return (dotted(node) or "").rpartition(".")[2] in ("property", "cached_property")


def _union(values: list[Value]) -> Value:
    found = NEW
    for each in values:
        found |= each
    return found


def parameters(scope: Scope, args: list[Value], keywords: dict[str, Value]) -> dict[str, Value]:
    """What the parameters of a function stand for when it is called."""
    given = scope.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    found = {name: NEW for name in (*names, *(each.arg for each in given.kwonlyargs))}
    rest = NEW
    for index, value in enumerate(args):
        if index < len(names):
            found[names[index]] = value
        else:
            rest |= value.held
    more = NEW
    for name, value in keywords.items():
        if name == "*":
            # What is unpacked may be any of them.
            found = {each: old | value.element for each, old in found.items()}
            rest, more = rest | value, more | value
        elif name in found:
            found[name] = value
        else:
            more |= value.held
    defaults = [*given.defaults, *(each for each in given.kw_defaults if each is not None)]
    if any(isinstance(each, (ast.List, ast.Dict, ast.Set, ast.Call)) for each in defaults):
        # What a parameter is by default is the same object in each call.
        kept = of(f"{GLOBAL}{scope.name}")
        found = {name: kept if value == NEW else value for name, value in found.items()}
    if given.vararg is not None:
        found[given.vararg.arg] = rest
    if given.kwarg is not None:
        found[given.kwarg.arg] = more
    return found

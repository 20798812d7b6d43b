"""Follows the statements of a function: what each name in it may stand for."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Mapping

from det_compat.migrate.effects.makers import ITERATOR
from det_compat.migrate.effects.source import FUNCTIONS, Scope, dotted
from det_compat.migrate.effects.tracing import Trace
from det_compat.migrate.effects.values import GLOBAL, ITSELF, NEW, Value, of


class Statements(ABC):
    """One function that is called.

    Nothing is run, and the order of statements does not matter: a name stands for all that it is
    set to anywhere in the function.

    Attributes:
        trace: what is known so far.
        scope: the function.
        me: what it calls the object that it is a method of.
        names: what its variables may stand for.
        nested: the functions in it.
        returned: what it, and each function in it, may return.
    """

    def __init__(self, trace: Trace, scope: Scope, me: str, given: Mapping[str, Value]) -> None:
        self.trace, self.scope, self.me = trace, scope, me
        self.names: dict[str, Value] = dict(given)
        self.nested: dict[str, Scope] = {}
        self.returned: dict[str, Value] = {}
        self.imports: dict[str, str] = {}
        self._globals: set[str] = set()
        self._inner: list[str] = [""]

    def result(self) -> Value:
        """What the function returns; whatever it changes is noted."""
        for _ in range(4):
            before = dict(self.names), dict(self.returned)
            self._all(self.scope.body)
            if before == (self.names, self.returned):
                break
        return self.returned.get("", NEW)

    @abstractmethod
    def value(self, node: ast.expr | None) -> Value:
        """What an expression may stand for; what it changes is noted."""

    @abstractmethod
    def part(self, node: ast.expr, value: Value, method: str) -> bool:
        """Follow what Python calls of an object of the project, such as ``__getitem__``.

        Returns:
            Whether that has such a method.
        """

    def note(self, node: ast.AST) -> Value:
        """Note that nothing is known of some code."""
        self.trace.unproven.add(ast.unparse(node))
        return NEW

    def returns(self, value: Value) -> None:
        """Note what the function returns that is being followed."""
        name = self._inner[-1]
        self.returned[name] = self.returned.get(name, NEW) | value

    def _all(self, lines: list[ast.stmt]) -> None:
        for line in lines:
            self._statement(line)

    def _statement(self, line: ast.stmt) -> None:
        if isinstance(line, FUNCTIONS):
            self._nested(line)
        elif isinstance(line, ast.Assign):
            self._assign(line)
        elif isinstance(line, ast.AnnAssign):
            if line.value is not None:
                self.bind(line.target, self.value(line.value))
        elif isinstance(line, ast.AugAssign):
            self._add(line)
        elif isinstance(line, (ast.For, ast.AsyncFor)):
            self.bind(line.target, self.iterated(line.iter))
            self._all([*line.body, *line.orelse])
        elif isinstance(line, (ast.With, ast.AsyncWith)):
            for item in line.items:
                self._enter(item)
            self._all(line.body)
        elif isinstance(line, ast.Return):
            self.returns(self.value(line.value))
        elif isinstance(line, ast.Delete):
            for target in line.targets:
                if not isinstance(target, ast.Name):
                    self.bind(target, NEW)
        elif isinstance(line, ast.Global):
            self._globals.update(line.names)
        elif isinstance(line, ast.Import):
            for each in line.names:
                self.imports[each.asname or each.name.partition(".")[0]] = each.name
        elif isinstance(line, ast.ImportFrom):
            for each in line.names:
                self.imports[each.asname or each.name] = f"{line.module or ''}.{each.name}"
        elif isinstance(line, ast.ClassDef):
            self.note(line)
        else:
            self._parts(line)

    def _parts(self, node: ast.AST) -> None:
        """Follow whatever a statement has in it, such as the branches of ``if`` and ``try``."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statement(child)
            elif isinstance(child, ast.expr):
                self.value(child)
            else:
                self._parts(child)

    def _nested(self, function: Scope) -> None:
        self.nested[function.name] = function
        args = function.args
        for each in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if each is not None:
                self.names.setdefault(each.arg, NEW)
        self._inner.append(function.name)
        self._all(function.body)
        self._inner.pop()

    def _assign(self, line: ast.Assign) -> None:
        value = self.value(line.value)
        used = {dotted(node) for node in ast.walk(line.value) if isinstance(node, ast.Attribute)}
        for target in line.targets:
            is_own = isinstance(target, ast.Attribute) and dotted(target.value) == self.me
            # What a model keeps of its last batch is another thing after the next.
            if not (is_own and self.scope.name == "forward" and dotted(target) not in used):
                self.bind(target, value)

    def _add(self, line: ast.AugAssign) -> None:
        value = self.value(line.value)
        if isinstance(line.target, ast.Name):
            # A list, or a tensor, stays the same object.
            self.trace.change(self.names.get(line.target.id, NEW))
        self.bind(line.target, value.held)

    def _enter(self, item: ast.withitem) -> None:
        value = self.value(item.context_expr)
        is_known = self.part(item.context_expr, value, "__enter__")
        self.part(item.context_expr, value, "__exit__")
        if value.state and not is_known and not isinstance(item.context_expr, ast.Call):
            self.note(item.context_expr)
        if item.optional_vars is not None:
            self.bind(item.optional_vars, value)

    def iterated(self, node: ast.expr) -> Value:
        """What iterating over an expression gives; an iterator is used up by it."""
        value = self.value(node)
        for name in value.every:
            if ITERATOR in self.trace.makers.of(name):
                self.trace.change(of(name))
        for method in ("__iter__", "__next__", "__getitem__"):
            self.part(node, value, method)
        return value.element

    def bind(self, target: ast.expr, value: Value) -> None:
        """Set a variable, or a part of something, which changes it."""
        if isinstance(target, ast.Name):
            if target.id in self._globals:
                self.trace.change(of(f"{GLOBAL}{target.id}"))
            self.names[target.id] = self.names.get(target.id, NEW) | value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self.bind(each, value.element)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value.held)
        elif isinstance(target, (ast.Attribute, ast.Subscript)):
            if isinstance(target, ast.Subscript):
                self.value(target.slice)
            owner = self.value(target.value)
            if isinstance(target, ast.Attribute) and self.trace.project.path(target.value):
                # A variable of a module, or something of a library that all code sees.
                kept = self.value(target)
                self.trace.change(kept) if kept.state else self.note(target)
            attribute = target.attr if isinstance(target, ast.Attribute) else ""
            self.trace.change(owner, attribute if ITSELF in owner.state else "")
            self.keep(target.value, value)

    def keep(self, owner: ast.expr, value: Value) -> None:
        """Note that what a name stands for may hold something from now on."""
        while isinstance(owner, (ast.Attribute, ast.Subscript, ast.Call)):
            owner = owner.func if isinstance(owner, ast.Call) else owner.value
        if isinstance(owner, ast.Name) and owner.id in self.names and owner.id != self.me:
            self.names[owner.id] |= value.held

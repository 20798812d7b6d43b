"""Reads a syntax tree once, into scopes and what happens in them."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from det_compat.analysis import scopes
from det_compat.analysis.expressions import last_name
from det_compat.analysis.source import NESTED_TOO_DEEPLY, Source, Unreadable

# Expressions of these kinds may stand for something of Determined's, or of the tree's.
_TELLING = (
    ast.Name,
    ast.Attribute,
    ast.Call,
    ast.IfExp,
    ast.BoolOp,
    ast.NamedExpr,
    ast.Await,
    ast.Starred,
    ast.ListComp,
    ast.SetComp,
    ast.GeneratorExp,
    ast.Lambda,
    ast.Subscript,
)
# Functions of these modules are known by their names, and may be imported under others.
_RENAMED = {"functools", "importlib"}


def collect(source: Source) -> scopes.Code:
    """The code of a file; the cells of a notebook share one module.

    A statement that is nested too deeply becomes an entry of the source's ``unreadable``.
    """
    module = scopes.Scope("module", source.path.stem, None, None, source)
    code = scopes.Code(module)
    collector = _Collector(code)
    for statement in (statement for tree in source.trees for statement in tree.body):
        try:
            collector.visit(statement)
        except RecursionError:
            collector.scope, collector.guard = module, scopes.Guard()
            position = source.position(statement.lineno, statement.col_offset)
            source.unreadable.append(Unreadable(position, NESTED_TOO_DEEPLY))
    return code


class _Collector(ast.NodeVisitor):
    def __init__(self, code: scopes.Code) -> None:
        self.code = code
        self.scope = code.module
        self.guard = scopes.Guard()
        self.inner: set[ast.expr] = set()
        self.renamed: dict[str, str] = {}

    def _visit_all(
        self,
        nodes: Iterable[ast.AST | None],
        scope: scopes.Scope | None = None,
        guard: scopes.Guard | None = None,
    ) -> None:
        """Visit nodes that have a scope or guard of their own if one is given."""
        outer = self.scope, self.guard
        self.scope, self.guard = scope or self.scope, guard or self.guard
        for node in nodes:
            if node is not None:
                self.visit(node)
        self.scope, self.guard = outer

    def _new_scope(self, kind: str, name: str, node: ast.AST) -> scopes.Scope:
        return scopes.Scope(kind, name, node, self.scope, self.code.module.source)

    def _assign(self, target: ast.expr, value: ast.expr, is_annotation: bool = False) -> None:
        if is_annotation or self.scope.kind == "class" or _is_telling(value):
            self.code.assignments.append(
                scopes.Assignment(self.scope, target, value, is_annotation)
            )

    # What is named

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._use(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._use(node)
        self.inner.add(node.value)
        self.visit(node.value)

    def _use(self, node: ast.Name | ast.Attribute) -> None:
        self.code.uses.append(scopes.Use(self.scope, node, node in self.inner, self.guard))

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name):
            node.func.id = self.renamed.get(node.func.id, node.func.id)
        self.code.calls.append(scopes.Call(self.scope, node, self.guard))
        self.generic_visit(node)

    # Imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(alias, alias.name, None, 0)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._import(alias, node.module or "", alias.name, node.level)
            if node.module in _RENAMED and alias.asname:
                self.renamed[alias.asname] = alias.name

    def _import(self, alias: ast.alias, module: str, attribute: str | None, level: int) -> None:
        found = scopes.Import(self.scope, alias, module, attribute, level, self.guard)
        self.code.imports.append(found)

    # Bindings

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._assign(node.target, node.annotation, is_annotation=True)
        if node.value is not None:
            self._assign(node.target, node.value)
        self._visit_all([node.target, node.value])
        self._visit_annotation(node.annotation)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._assign(node.target, node.value)
        self.generic_visit(node)

    def visit_withitem(self, node: ast.withitem) -> None:
        if node.optional_vars is not None:
            self._assign(node.optional_vars, node.context_expr)
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.comprehension) -> None:
        self._assign(node.target, ast.Subscript(node.iter, ast.Constant(None), ast.Load()))
        self.generic_visit(node)

    visit_comprehension = visit_For

    def visit_Return(self, node: ast.Return | ast.Yield) -> None:
        if node.value is not None and self.scope.kind == "function":
            self._assign(ast.Name(scopes.RETURNED, ast.Store()), node.value)
        self.generic_visit(node)

    visit_Yield = visit_Return

    def visit_Global(self, node: ast.Global) -> None:
        self.scope.globals.update(node.names)

    # Scopes

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        scope = self._new_scope("class", node.name, node)
        self.scope.define(node.name, scopes.Class(scope))
        self.code.classes.append(scope)
        self._visit_all([*node.decorator_list, *node.bases, *(k.value for k in node.keywords)])
        self._visit_all(node.body, scope)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        scope = self._new_scope("function", node.name, node)
        self.scope.define(node.name, scopes.Function(scope))
        if self.scope.kind == "class":
            self.scope.functions[node.name] = scope
        self._visit_all(node.decorator_list)
        self._visit_annotation(node.returns)
        self._visit_function(node, scope, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        scope = self._new_scope("function", "<lambda>", node)
        self._visit_function(node, scope, [node.body])
        returned = scopes.Assignment(scope, ast.Name(scopes.RETURNED, ast.Store()), node.body)
        self.code.assignments.append(returned)

    def _visit_function(
        self, node: scopes.FunctionNode, scope: scopes.Scope, body: Iterable[ast.AST]
    ) -> None:
        self.code.functions.append(scope)
        arguments = node.args
        self._visit_all([*arguments.defaults, *arguments.kw_defaults])
        for argument in parameters(node):
            self._visit_annotation(argument.annotation)
            scope.variables.setdefault(argument.arg, scopes.NOTHING)
        # An exception that is caught around a definition is not caught when it is called.
        self._visit_all(body, scope, scopes.Guard(type_checking=self.guard.type_checking))

    def _visit_annotation(self, node: ast.expr | None) -> None:
        guard = scopes.Guard(self.guard.catches, self.guard.type_checking, annotation=True)
        self._visit_all([node], guard=guard)

    # Conditions

    def visit_Try(self, node: ast.Try) -> None:
        caught = frozenset(name for handler in node.handlers for name in _caught(handler))
        catches = self.guard.catches | caught
        self._visit_all(node.body, guard=scopes.Guard(catches, self.guard.type_checking))
        self._visit_all([*node.handlers, *node.orelse, *node.finalbody])

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        is_unused = last_name(node.test) == "TYPE_CHECKING"
        guard = scopes.Guard(self.guard.catches, type_checking=True) if is_unused else None
        self._visit_all(node.body, guard=guard)
        self._visit_all(node.orelse)


def _is_telling(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return any(map(_is_telling, value.values))
    if isinstance(value, (ast.Tuple, ast.List, ast.Set)):
        return any(map(_is_telling, value.elts))
    return isinstance(value, _TELLING)


def parameters(node: scopes.FunctionNode) -> list[ast.arg]:
    """Every parameter by position, then those by keyword, then ``*args`` and ``**kwargs``."""
    arguments = node.args
    rest = [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]
    return [*positional(node), *arguments.kwonlyargs, *rest]


def positional(node: scopes.FunctionNode) -> list[ast.arg]:
    """Every parameter that can be given by position."""
    return [*node.args.posonlyargs, *node.args.args]


def _caught(handler: ast.ExceptHandler) -> list[str]:
    if handler.type is None:
        return ["Exception"]
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [part.id for part in types if isinstance(part, ast.Name)]

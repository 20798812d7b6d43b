"""Scopes of a file, and what happens in them that inference needs."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeAlias

from det_compat.analysis.source import Source
from det_compat.analysis.values import NOTHING, Value, Values

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

#: The variable that holds what a function returns or yields.
RETURNED = "<return>"


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class or function, and the values of its variables.

    ``attributes`` are those that are set on instances of a class. ``stars`` are the modules whose
    names are all imported, ``globals`` what a function declares ``global``.
    """

    kind: str
    name: str
    node: ast.AST | None
    parent: Scope | None
    source: Source
    variables: dict[str, Values] = field(default_factory=dict)
    attributes: dict[str, Values] = field(default_factory=dict)
    stars: list[Value] = field(default_factory=list)
    functions: dict[str, Scope] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)

    def define(self, name: str, value: Value) -> None:
        """Add a value to those of a variable."""
        self.variables[name] = self.variables.get(name, NOTHING) | {value}

    @property
    def module(self) -> Scope:
        """The scope of the file."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def enclosing(self, kind: str) -> Scope | None:
        """The nearest scope of a kind, this one included."""
        scope: Scope | None = self
        while scope is not None and scope.kind != kind:
            scope = scope.parent
        return scope


@dataclass(frozen=True, slots=True)
class Guard:
    """Under what a piece of code runs: exceptions that are caught, and ``if TYPE_CHECKING``."""

    catches: frozenset[str] = frozenset()
    type_checking: bool = False
    annotation: bool = False


@dataclass(slots=True)
class Import:
    """``import name`` or ``from name import attribute``; ``level`` counts leading dots."""

    scope: Scope
    node: ast.alias
    module: str
    attribute: str | None
    level: int
    guard: Guard


@dataclass(slots=True)
class Assignment:
    """``target = value``, and what else binds a variable to a value."""

    scope: Scope
    target: ast.expr
    value: ast.expr
    is_annotation: bool = False


@dataclass(slots=True)
class Use:
    """A name or attribute that is read or set; ``inner`` is a part of a longer one."""

    scope: Scope
    node: ast.Name | ast.Attribute
    inner: bool
    guard: Guard


@dataclass(slots=True)
class Call:
    """A call."""

    scope: Scope
    node: ast.Call
    guard: Guard


@dataclass(slots=True)
class Code:
    """All that happens in a file."""

    module: Scope
    imports: list[Import] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    classes: list[Scope] = field(default_factory=list)
    functions: list[Scope] = field(default_factory=list)

"""Scopes of a file, what their variables may stand for, and what happens in them.

A value is what an expression may stand for, as far as it concerns Determined.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeAlias

from det_compat.analysis.source import Source

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

#: The class of the contexts of trials.
CONTEXT = "det_compat.pytorch.PyTorchTrialContext"
#: The variable that holds what a function returns or yields.
RETURNED = "<return>"
#: So many values are followed at most; following thousands would take time without end.
MOST_VALUES = 100


@dataclass(frozen=True, slots=True)
class Name:
    """A module, class, function or other name of Determined, as in ``determined.pytorch.init``.

    What comes out of a refused call has ``()`` in its name.
    """

    path: str


@dataclass(frozen=True, slots=True)
class Object:
    """An instance of a class; ``owner`` is the class's name in det_compat, or a refused one.

    It is ``guessed`` if nothing but what is called on it tells what it is.
    """

    owner: str
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """An attribute of an instance, a bound method for example."""

    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class _OfScope:
    scope: Scope


class Module(_OfScope):
    """A file of the tree."""


class Class(_OfScope):
    """A class of the tree."""


class Instance(_OfScope):
    """An object of a class of the tree."""


class Parent(_OfScope):
    """What ``super()`` gives inside of a class of the tree."""


@dataclass(frozen=True, slots=True)
class Function(_OfScope):
    """A function of the tree; ``bound`` methods have their first argument already."""

    bound: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """A tuple or list, by what its elements stand for; ``held`` is what any of them may be."""

    elements: tuple[frozenset[Value], ...]
    held: frozenset[Value] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Mapping:
    """A dict, by what its keys stand for; the key is None where it is not written out.

    ``by_key`` are the values of each key, ``held`` is what any of them may be: nothing where some
    concern Determined and others do not, since that says nothing of the one that is asked for.
    """

    items: tuple[tuple[str | None, frozenset[Value]], ...]
    held: frozenset[Value] = field(compare=False)
    by_key: dict[str | None, frozenset[Value]] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Many:
    """More values than are followed, and whether some are ``determined``'s."""

    determined: bool


Value: TypeAlias = (
    Name
    | Object
    | Member
    | Module
    | Class
    | Instance
    | Parent
    | Function
    | Sequence
    | Mapping
    | Many
)

Values: TypeAlias = frozenset[Value]
NOTHING: Values = frozenset()
_MANY: Values = frozenset([Many(True), Many(False)])


def limited(values: Values) -> Values:
    """The values, or Many if there are more than MOST_VALUES."""
    if len(values) <= MOST_VALUES and values.isdisjoint(_MANY):
        return values
    return frozenset([Many(any(map(_is_determined, values)))])


def _is_determined(value: Value) -> bool:
    if isinstance(value, Sequence):
        return any(map(_is_determined, value.held))
    if isinstance(value, Mapping):
        return any(map(_is_determined, NOTHING.union(*value.by_key.values())))
    return isinstance(value, (Name, Object, Member)) or value == Many(True)


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

"""What an expression may stand for, as far as it concerns Determined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from det_compat.analysis.scopes import Scope


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
class Module:
    """A file of the tree."""

    scope: Scope


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the tree."""

    scope: Scope


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a class of the tree."""

    scope: Scope


@dataclass(frozen=True, slots=True)
class Parent:
    """What ``super()`` gives inside of a class of the tree."""

    scope: Scope


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the tree; ``bound`` methods have their first argument already."""

    scope: Scope
    bound: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """A tuple or list, by what its elements stand for."""

    elements: tuple[frozenset[Value], ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    """A dict, by what its keys stand for; the key is None where it is not written out."""

    items: tuple[tuple[str | None, frozenset[Value]], ...]


Value: TypeAlias = (
    Name | Object | Member | Module | Class | Instance | Parent | Function | Sequence | Mapping
)

Values: TypeAlias = frozenset[Value]
NOTHING: Values = frozenset()

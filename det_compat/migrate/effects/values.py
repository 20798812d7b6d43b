"""What an expression may stand for, as far as it matters for what a call may change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: The object whose methods are followed, and what any object may be.
ITSELF, ANYTHING = "the object itself", "anything"
#: What stands in front of the name of a variable of a file, or of a class, beside attributes.
GLOBAL = "global "

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Value:
    """What an expression may stand for.

    Attributes:
        state: the attributes of the object, and variables of files, that it may be or be part of.
        inside: those that something new may hold, such as a list of them.
        classes: the classes of the project that it may be a new object of.
    """

    state: frozenset[str] = _NONE
    inside: frozenset[str] = _NONE
    classes: frozenset[str] = _NONE

    def __or__(self, other: Value) -> Value:
        return Value(
            self.state | other.state, self.inside | other.inside, self.classes | other.classes
        )

    @property
    def every(self) -> frozenset[str]:
        """What it is, and what it holds."""
        return self.state | self.inside

    @property
    def element(self) -> Value:
        """A part of it."""
        return Value(self.every, self.inside)

    def part(self, attribute: str) -> Value:
        """An attribute of it, by a name with dots; what is deeper has that of what it is in."""
        found = (n if n.count(".") > 1 else f"{n}.{attribute}" for n in self.every)
        return Value(frozenset(found), self.inside)

    @property
    def held(self) -> Value:
        """Something new that holds it."""
        return Value(inside=self.every)


#: Something new, which nothing else has.
NEW = Value()


def of(*names: str) -> Value:
    """What these attributes or variables are."""
    return Value(frozenset(names))


def held(args: Iterable[Value], keywords: Mapping[str, Value]) -> Value:
    """Something new that holds all that a call is given."""
    found = NEW
    for each in (*args, *keywords.values()):
        found |= each.held
    return found

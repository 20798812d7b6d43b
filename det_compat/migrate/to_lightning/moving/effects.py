"""What code gives other values and may change, as far as it can be read.

Whatever cannot be read may do anything, ANYTHING.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

#: What code changes that cannot be read.
ANYTHING = "*"
#: The hyperparameters that a context has; those of one name follow a dot.
HPARAMS = "<hparams>"
#: All that files and functions keep between calls; the variable of a file follows a dot.
GLOBAL = "<global>"


@dataclass
class Effects:
    """What some code does. Names stand for variables, ``self.x`` for an attribute of the trial.

    The variables of functions that it calls have a number behind an ``@``.

    Attributes:
        bound: what it gives another value.
        changed: what it changes, but for what that holds.
        below: what it changes with all that it holds.
        filled: the modules of which it changes values, places and modes of parameters alone.
        read: what it asks for.
        same: pairs that may be one object, or a part of it.
        holds: pairs of which the first may hold the second.
        once: what can be gone through only once.
        is_quiet: whether it is known to draw no random numbers.
        is_plain: whether it asks of parameters nothing but which they are.
    """

    bound: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    below: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    same: set[tuple[str, str]] = field(default_factory=set)
    holds: set[tuple[str, str]] = field(default_factory=set)
    once: set[str] = field(default_factory=set)
    is_quiet: bool = True
    is_plain: bool = True

    def add(self, other: Effects) -> None:
        """Do what the other does, too."""
        for each in fields(self):
            mine, more = getattr(self, each.name), getattr(other, each.name)
            setattr(self, each.name, mine and more if isinstance(mine, bool) else mine | more)

    def may_do_anything(self) -> None:
        """Be code that cannot be read."""
        self.below.add(ANYTHING)
        self.is_quiet = self.is_plain = False

    def may_call_anything(self, given: Iterable[str]) -> None:
        """Call what cannot be read, with what that is given: it may keep it, and change it."""
        self.is_quiet = self.is_plain = False
        found = {*given, GLOBAL}
        self.below |= found
        self.holds |= {(one, other) for one in found for other in found if one != other}

    @property
    def is_anything(self) -> bool:
        """Whether some of it may do anything, or changes what lasts."""
        return any(n == ANYTHING or n.startswith(GLOBAL) for n in self.changes(self.links))

    @property
    def links(self) -> Links:
        """What may be, or hold, what."""
        return Links(self.same, self.holds)

    def changes(self, links: Links, *, fills: bool = True) -> set[str]:
        """All that is another thing than before."""
        deep = self.below | (self.filled if fills else set())
        return links.of(self.changed, deep=False) | links.of(deep, deep=True)


class Links:
    """What may be one object, and what may hold another.

    Args:
        same: pairs that may be one object, or a part of it.
        holds: pairs of which the first may hold the second.
    """

    def __init__(self, same: Iterable[tuple[str, str]], holds: Iterable[tuple[str, str]]) -> None:
        self._same: dict[str, set[str]] = {}
        self._held: dict[str, set[str]] = {}
        for one, other in same:
            self._same.setdefault(one, set()).add(other)
            self._same.setdefault(other, set()).add(one)
        for one, other in holds:
            self._held.setdefault(one, set()).add(other)

    def of(self, names: Iterable[str], *, deep: bool, without: Iterable[str] = ()) -> set[str]:
        """Some objects under all their names; ``deep`` with all that they may hold.

        Nothing is looked for in what is ``without`` interest, unless it is among the names.
        """
        found = [*names]
        known = {*found, *without}
        for name in found:
            more = self._same.get(name, set()) | (self._held.get(name, set()) if deep else set())
            found += more - known
            known |= more
        return {*found}

    @property
    def hyperparameters(self) -> set[str]:
        """What may be a hyperparameter, or a part of some."""
        known = {*self._same, *(name for held in self._held.values() for name in held)}
        return self.of((name for name in known if name.startswith(HPARAMS)), deep=False)


def overlap(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether some names stand for what the others do, or for a part or the whole of it."""
    return any(_overlap(one, other) for one in some for other in others)


def _overlap(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long == short or long.startswith(f"{short}.")

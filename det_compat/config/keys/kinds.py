"""The types that values of an experiment config have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

UNITS = ("batches", "records", "epochs")


@dataclass(frozen=True)
class Kind:
    """A type of value: its name for people, and whether a value is of it.

    ``item`` is what each value of a list must be, which ``accepts`` leaves open. Of a kind that is
    ``whole``, 64.0 is read as 64.
    """

    name: str
    accepts: Callable[[Any], bool]
    item: Kind | None = None
    alternatives: tuple[Kind, ...] = ()
    whole: bool = False

    def chosen(self, value: Any) -> Kind:
        """The alternative that ``value`` is, or this."""
        return next((other for other in self.alternatives if other.accepts(value)), self)

    def read(self, value: Any) -> Any:
        """``value``, which is of this kind, as the config has it from now on."""
        return int(value) if self.chosen(value).whole else value


def is_integer(value: Any) -> bool:
    """Whether ``value`` is a whole number; 64.0 is one, as it was for Determined."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether ``value`` is an int or a float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def integer(minimum: int | None = None, maximum: int | None = None) -> Kind:
    """Whole numbers in a range, both ends included."""

    def accepts(value: Any) -> bool:
        if not is_integer(value):
            return False
        return (minimum is None or value >= minimum) and (maximum is None or value <= maximum)

    name = "a whole number"
    if minimum is not None and maximum is not None:
        name = f"{name} from {minimum} to {maximum}"
    elif minimum is not None:
        name = f"{name}, {minimum} or more"
    return Kind(name, accepts, whole=True)


def number_above(bound: float) -> Kind:
    """Numbers greater than ``bound``."""
    return Kind(f"a number above {bound:g}", lambda value: is_number(value) and value > bound)


def one_of(*words: str) -> Kind:
    """One of a few words."""
    return Kind(f"one of {', '.join(words)}", lambda value: value in words)


def list_of(item: Kind) -> Kind:
    """Lists of one kind."""
    return Kind(f"a list, each {item.name}", lambda value: isinstance(value, list), item)


def either(*kinds: Kind) -> Kind:
    """Any of several kinds."""
    name = " or ".join(kind.name for kind in kinds)
    return Kind(name, lambda value: any(kind.accepts(value) for kind in kinds), alternatives=kinds)


def _is_length(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) != 1:
        return False
    ((unit, number),) = value.items()
    return unit in UNITS and is_integer(number) and number >= 0


TEXT = Kind("text", lambda value: isinstance(value, str))
BOOLEAN = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a number", is_number)
LIST = Kind("a list", lambda value: isinstance(value, list))
MAPPING = Kind("a mapping", lambda value: isinstance(value, dict))
ANYTHING = Kind("anything", lambda value: True)
#: A mapping whose keys are in the table themselves.
SECTION = Kind("a mapping with the keys below", lambda value: isinstance(value, dict))
PERIOD = either(
    Kind("one of {batches: N}, {records: N} and {epochs: N}", _is_length), integer(minimum=0)
)
LENGTH = either(
    Kind(
        "one of {batches: N}, {records: N} and {epochs: N}, N above 0",
        lambda value: _is_length(value) and all(value.values()),
    ),
    integer(minimum=0),
)

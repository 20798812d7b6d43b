"""What is wrong with an experiment config, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from det_compat.shared.masking import without_secrets

_LONGEST = 60


@dataclass(frozen=True)
class Problem:
    """One error of a config.

    Attributes:
        key: the dotted path of what is wrong; "" for the file as a whole.
        found: what is there.
        expected: what should be.
        file: the file, None for a config that did not come from one.
        line: line number from 1, None where there is none.
        column: column from 1, None where there is none.
    """

    key: str
    found: str
    expected: str
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        position = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        says = f"found {self.found}, expected {self.expected}"
        return ": ".join(part for part in (position, self.key, says) if part)


class ConfigError(ValueError):
    """An experiment config that cannot be used.

    ``problems`` has all that is wrong with it; ``file``, ``line``, ``column``, ``found`` and
    ``expected`` are those of the first.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
        first = self.problems[0]
        self.file, self.line, self.column = first.file, first.line, first.column
        self.found, self.expected = first.found, first.expected


def describe(value: Any, key: object = None) -> str:
    """``value`` in a few words, without secrets; ``key`` is the name it has in the config."""
    if isinstance(value, Mapping):
        names = ", ".join(map(str, value))
        return f"a mapping of {_shortened(names)}" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    if value is None:
        return "nothing"
    shown = without_secrets({key: value})[key]
    if isinstance(shown, bool):
        return "true" if shown else "false"
    return _shortened(repr(shown))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

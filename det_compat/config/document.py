"""A config as plain types that remembers where in its file everything stands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from det_compat.shared.masking import without_secrets

KeyPath = tuple[str | int, ...]
#: A line and a column, both from 1.
Location = tuple[int, int]

#: Deeper nesting is taken for a config that holds itself.
DEEPEST = 100


@dataclass(frozen=True)
class Document:
    """A config as plain types.

    Attributes:
        value: the config.
        file: the file that it was read from, None for a config that was not.
        keys: where each key stands; empty without a file.
        values: where each value stands; empty without a file.
    """

    value: dict[str, Any]
    file: str | None = None
    keys: dict[KeyPath, Location] = field(default_factory=dict)
    values: dict[KeyPath, Location] = field(default_factory=dict)

    def location(self, path: KeyPath, *, of_key: bool = False) -> Location | tuple[None, None]:
        """Where the value at ``path`` stands, or its key; else the nearest value that holds it."""
        if of_key and path in self.keys:
            return self.keys[path]
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, (None, None))


def dotted(path: KeyPath) -> str:
    """``("a", "b", 0)`` as ``a.b[0]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def from_mapping(config: Mapping[Any, Any]) -> Document:
    """A config that has been read already; keys become text and tuples become lists.

    Raises:
        ConfigError: ``config`` is no mapping, or holds something that YAML has no word for.
    """
    if not isinstance(config, Mapping):
        raise ConfigError([Problem("", describe(config), "a mapping of keys")])
    return Document(_plain(config, ()))


def _plain(value: Any, path: KeyPath) -> Any:
    if len(path) > DEEPEST:
        raise ConfigError([Problem(dotted(path[:3]), "endless nesting", "less of it")])
    if isinstance(value, Mapping):
        return {str(key): _plain(item, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, (*path, i)) for i, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    found = str(value) if isinstance(value, float) else f"a {type(value).__name__}"
    raise ConfigError([Problem(dotted(path), found, "text, a number, a list or a mapping")])


class Problems:
    """Collects everything that is wrong with one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._problems: list[Problem] = []

    def add(self, path: KeyPath, expected: str, found: str | None = None) -> None:
        """Note that the value at ``path`` is not what is ``expected``."""
        if found is None:
            found = describe(self._value_at(path), path[-1] if path else None)
        self._note(path, expected, found, of_key=False)

    def add_key(self, path: KeyPath, expected: str, found: str) -> None:
        """Note that the key at ``path`` should not be there, or not like this."""
        self._note(path, expected, found, of_key=True)

    def missing(self, path: KeyPath, expected: str) -> None:
        """Note that there should be a key ``path``, unless what is there was wrong already."""
        if all(problem.key != dotted(path) for problem in self._problems):
            self._note(path, expected, "nothing", of_key=True)

    def raise_if_any(self) -> None:
        """Raise a ConfigError with all that was noted, in the order of the file."""
        if self._problems:
            in_order = sorted(self._problems, key=lambda p: (p.line or 0, p.column or 0))
            raise ConfigError(list(dict.fromkeys(in_order)))

    def _value_at(self, path: KeyPath) -> Any:
        value: Any = self._document.value
        for part in path:
            value = value[part]
        return value

    def _note(self, path: KeyPath, expected: str, found: str, *, of_key: bool) -> None:
        at = self._document.location(path, of_key=of_key)
        self._problems.append(Problem(dotted(path), found, expected, self._document.file, *at))


def section(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A section of a validated config; empty if there is none."""
    found: dict[str, Any] = config.get(name, {})
    return found


def chosen(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those of the keys ``names`` that are ``given``, for a dataclass whose defaults hold else."""
    return {name: given[name] for name in names if name in given}


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

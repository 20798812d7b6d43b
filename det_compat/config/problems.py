"""Collects everything that is wrong with a config."""

from __future__ import annotations

from typing import Any

from det_compat.config.errors import ConfigError, Problem, describe
from det_compat.config.loading import Document, KeyPath, dotted

_MISSING = object()


class Problems:
    """The problems of one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._problems: list[Problem] = []

    def add(self, path: KeyPath, expected: str, found: str | None = None) -> None:
        """Note that the value at ``path`` is not what is ``expected``."""
        if found is None:
            found = describe(self._at(path), path[-1] if path else None)
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
            by_place = sorted(self._problems, key=lambda p: (p.line or 0, p.column or 0))
            raise ConfigError(list(dict.fromkeys(by_place)))

    def _at(self, path: KeyPath) -> Any:
        value: Any = self._document.value
        for part in path:
            value = value[part]
        return value

    def _note(self, path: KeyPath, expected: str, found: str, *, of_key: bool) -> None:
        place = self._document.place(path, of_key=of_key)
        self._problems.append(Problem(dotted(path), found, expected, self._document.file, *place))

"""YAML files, with the line and column of every key and value."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from det_compat.config.errors import ConfigError, Problem, describe
from det_compat.config.scalars import resolve

KeyPath = tuple[str | int, ...]
Place = tuple[int, int]

_LARGEST_FILE = 4 * 2**20
# what aliases can blow a small file up to
_MOST_VALUES = 200_000
_DEEPEST = 100
_PLAIN = "plain"


@dataclass(frozen=True)
class Document:
    """A config as plain types, with places (line and column, from 1) of its keys and values."""

    value: dict[str, Any]
    file: str | None = None
    keys: dict[KeyPath, Place] = field(default_factory=dict)
    values: dict[KeyPath, Place] = field(default_factory=dict)

    def place(self, path: KeyPath, *, of_key: bool = False) -> Place | tuple[None, None]:
        """Where ``path`` is, or the nearest that is there of what holds it."""
        if of_key and path in self.keys:
            return self.keys[path]
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, (None, None))


class _Loader(yaml.SafeLoader):
    """Leaves plain scalars to ``resolve``, and tells them from quoted and tagged ones."""

    yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}  # noqa: RUF012


def load(path: str | Path) -> Document:
    """The experiment config in a YAML file.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or holds anything but one mapping.
    """
    file = str(path)
    return _Builder(file).document(_compose(_text(file), file))


def from_mapping(config: Mapping[Any, Any], file: str | None = None) -> Document:
    """A config that has been read already; keys become text and tuples become lists.

    Raises:
        ConfigError: ``config`` is no mapping, or holds something that YAML has no word for.
    """
    if not isinstance(config, Mapping):
        raise ConfigError([Problem("", describe(config), "a mapping of keys", file)])
    return Document(_plain(config, (), file), file)


def _plain(value: Any, path: KeyPath, file: str | None) -> Any:
    if len(path) > _DEEPEST:
        raise ConfigError([Problem(dotted(path[:3]), "endless nesting", "less of it", file)])
    if isinstance(value, Mapping):
        return {str(key): _plain(item, (*path, str(key)), file) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, (*path, i), file) for i, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    found = str(value) if isinstance(value, float) else f"a {type(value).__name__}"
    raise ConfigError([Problem(dotted(path), found, "text, a number, a list or a mapping", file)])


def dotted(path: KeyPath) -> str:
    """``("a", "b", 0)`` as ``a.b[0]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _text(file: str) -> str:
    try:
        with open(file, "rb") as stream:
            content = stream.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        found = f"a file that cannot be read ({reason})"
        raise ConfigError([Problem("", found, "an experiment config in YAML", file)]) from error
    if len(content) > _LARGEST_FILE:
        found = f"more than {_LARGEST_FILE >> 20} MiB"
        raise ConfigError([Problem("", found, "an experiment config in YAML", file)])
    return _decoded(content, file)


def _decoded(content: bytes, file: str) -> str:
    utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if utf_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        found = f"the byte 0x{content[error.start]:02x}, which is not UTF-8"
        raise ConfigError([Problem("", found, "UTF-8 text", file, line, column)]) from error


def _compose(text: str, file: str) -> yaml.Node:
    expected = "one YAML document, a mapping of keys"
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_syntax_problem(error, file)]) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # a ReaderError, or an escape such as "\UFFFFFFFF" that is no character
        found = f"what YAML does not allow ({str(error).splitlines()[0]})"
        raise ConfigError([Problem("", found, expected, file)]) from error
    except RecursionError as error:
        raise ConfigError([Problem("", "endless nesting", expected, file)]) from error
    if node is None:
        raise ConfigError([Problem("", "an empty file", expected, file)])
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise ConfigError([Problem("", kind, expected, file, *_place(node))])
    return node


def _syntax_problem(error: yaml.MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
    found = "what YAML does not allow"
    reason = ", ".join(part for part in (error.problem, error.context) if part)
    if reason:
        found = f"{found} ({reason})"
    return Problem("", found, "one YAML document", file, line, column)


def _place(node: yaml.Node) -> Place:
    return node.start_mark.line + 1, node.start_mark.column + 1


class _Builder:
    """Makes plain types of YAML nodes, and remembers where they were."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._keys: dict[KeyPath, Place] = {}
        self._values: dict[KeyPath, Place] = {}
        self._open: list[int] = []
        self._problems: list[Problem] = []

    def document(self, node: yaml.Node) -> Document:
        value = self._value(node, ())
        if self._problems:
            raise ConfigError(self._problems)
        return Document(value, self._file, self._keys, self._values)

    def _problem(self, node: yaml.Node, path: KeyPath, found: str, expected: str) -> None:
        self._problems.append(Problem(dotted(path), found, expected, self._file, *_place(node)))

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._values.setdefault(path, _place(node))
        if len(self._values) > _MOST_VALUES:
            found = "aliases that stand for too much"
            raise ConfigError([Problem("", found, "a config of ordinary size", self._file)])
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open or len(path) > _DEEPEST:
            self._problem(node, path[:3], "endless nesting", "values that do not hold themselves")
            return None
        self._open.append(id(node))
        value = (
            self._mapping(node, path)
            if isinstance(node, yaml.MappingNode)
            else [self._value(item, (*path, i)) for i, item in enumerate(node.value)]
        )
        self._open.pop()
        return value

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        text, tag = node.value, node.tag.removeprefix("tag:yaml.org,2002:")
        if tag in ("str", "binary", "timestamp", "!"):
            return text
        value = resolve(text)
        if isinstance(value, float) and not math.isfinite(value):
            self._problem(node, path, text, "a finite number: Determined's configs have no other")
        elif tag == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        elif tag not in (_PLAIN, "bool", "int", "float", "null"):
            self._problem(node, path, f"the tag {node.tag}", "no tag, or one of YAML's own")
        return value

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for _, value_node in filter(_is_merge, node.value):
            merged = self._merge(value_node, path) | merged
        for key_node, value_node in node.value:
            key = None if _is_merge((key_node, value_node)) else self._key(key_node, path)
            if key is None:
                continue
            at = (*path, key)
            if key in own:
                found = f"the key a second time (first in line {self._keys[at][0]})"
                self._problem(key_node, at, found, "each key once")
                continue
            self._forget(at)
            self._keys[at] = _place(key_node)
            own[key] = self._value(value_node, at)
        return {**{key: merged[key] for key in merged if key not in own}, **own}

    def _forget(self, path: KeyPath) -> None:
        """Drop the places that a merged value, which is now overridden, had."""
        for places in (self._keys, self._values):
            if path in places:
                for stale in [known for known in places if known[: len(path)] == path]:
                    del places[stale]

    def _key(self, node: yaml.Node, path: KeyPath) -> str | None:
        is_scalar = isinstance(node, yaml.ScalarNode)
        if is_scalar and (node.tag != _PLAIN or node.value not in ("", "~")):
            return str(node.value)
        found = "no name" if is_scalar else "a list or a mapping"
        self._problem(node, path, f"{found} as a key", "text as a key")
        return None

    def _merge(self, node: yaml.Node, path: KeyPath) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                self._problem(source, path, "another value after `<<`", "a mapping to merge")
                continue
            # the first of several wins, and what is in the mapping itself wins over all
            value = self._value(source, path) or {}
            merged = {**{key: value[key] for key in value if key not in merged}, **merged}
        return merged


def _is_merge(pair: tuple[yaml.Node, yaml.Node]) -> bool:
    key = pair[0]
    return isinstance(key, yaml.ScalarNode) and key.tag == _PLAIN and key.value == "<<"

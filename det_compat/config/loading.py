"""YAML files, with the line and column of every key and value.

Plain scalars are read as Determined's master read them, which parsed configs with go-yaml 2
(through ghodss/yaml) in all versions from 0.12 to 0.38. Unlike with PyYAML, ``1e-4`` and ``1E4``
are floats, ``0o17`` is 15 as ``017`` is, ``y`` and ``n`` are booleans as ``yes``, ``no``, ``on``
and ``off`` are, ``1:30`` is text, and so is a date.
"""

import codecs
import math
import re
from pathlib import Path
from typing import Any

import yaml

from det_compat.config.document import (
    DEEPEST,
    ConfigError,
    Document,
    KeyPath,
    Location,
    Problem,
    dotted,
)

_LARGEST_FILE = 4 * 2**20
# Aliases of aliases can make more values of a small file than memory holds.
_MOST_VALUES = 200_000
_PLAIN = "plain"

_WORDS: dict[str, bool | float | None] = {
    **{word: True for word in ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE")},
    **{word: False for word in ("n", "N", "no", "No", "NO", "false", "False", "FALSE")},
    **{word: True for word in ("on", "On", "ON")},
    **{word: False for word in ("off", "Off", "OFF")},
    **{word: None for word in ("", "~", "null", "Null", "NULL")},
    **{word: math.nan for word in (".nan", ".NaN", ".NAN")},
    **{sign + word: math.inf for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{"-" + word: -math.inf for word in (".inf", ".Inf", ".INF")},
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([0-9]+))")
_BASES = (16, 2, 8, 10)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# An int64 or a uint64 has no more digits than this in any base.
_MOST_DIGITS = 66


class _Loader(yaml.SafeLoader):
    """Leaves plain scalars to ``resolve``, and tells them from quoted and tagged ones."""

    yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}  # noqa: RUF012 (yaml's own)


def load(path: str | Path) -> Document:
    """The experiment config in a YAML file.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or holds anything but one mapping.
    """
    file = str(path)
    return _Builder(file).document(_compose(_text(file), file))


def value_of(text: str, origin: str) -> Any:
    """What ``text`` is as the value of a key: plain, in quotes, or a list or mapping in one line.

    ``origin`` says where it comes from, for errors. Nothing at all is an empty string.

    Raises:
        ConfigError: it begins with a quote or a bracket, and is no YAML.
    """
    if not text.startswith(("[", "{", '"', "'")):
        return resolve(text) if text else text
    return _Builder(origin).value(_parsed(text, origin, "one value in YAML"))


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
    node = _parsed(text, file, expected)
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise ConfigError([Problem("", kind, expected, file, *_location(node))])
    return node


def _parsed(text: str, file: str, expected: str) -> yaml.Node:
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_syntax_problem(error, file)]) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # This is a ReaderError, or an escape such as "\UFFFFFFFF" that is no character.
        found = f"what YAML does not allow ({str(error).splitlines()[0]})"
        raise ConfigError([Problem("", found, expected, file)]) from error
    except RecursionError as error:
        raise ConfigError([Problem("", "endless nesting", expected, file)]) from error
    if node is None:
        raise ConfigError([Problem("", "an empty file", expected, file)])
    return node


def _syntax_problem(error: yaml.MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
    found = "what YAML does not allow"
    reason = ", ".join(part for part in (error.problem, error.context) if part)
    if reason:
        found = f"{found} ({reason})"
    return Problem("", found, "one YAML document", file, line, column)


def _location(node: yaml.Node) -> Location:
    return node.start_mark.line + 1, node.start_mark.column + 1


class _Builder:
    """Makes plain types of YAML nodes, and remembers where they were."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._keys: dict[KeyPath, Location] = {}
        self._values: dict[KeyPath, Location] = {}
        self._open: list[int] = []
        self._made = 0
        self._problems: list[Problem] = []

    def document(self, node: yaml.Node) -> Document:
        return Document(self.value(node), self._file, self._keys, self._values)

    def value(self, node: yaml.Node) -> Any:
        value = self._value(node, ())
        if self._problems:
            raise ConfigError(self._problems)
        return value

    def _problem(self, node: yaml.Node, path: KeyPath, found: str, expected: str) -> None:
        self._problems.append(Problem(dotted(path), found, expected, self._file, *_location(node)))

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._values.setdefault(path, _location(node))
        self._made += 1
        if self._made > _MOST_VALUES:
            found = "aliases that stand for too much"
            raise ConfigError([Problem("", found, "a config of ordinary size", self._file)])
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open or len(path) > DEEPEST:
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
            self._keys[at] = _location(key_node)
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
            # The first of several sources wins, and what is in the mapping itself wins over all.
            value = self._value(source, path) or {}
            merged = {**{key: value[key] for key in value if key not in merged}, **merged}
        return merged


def _is_merge(pair: tuple[yaml.Node, yaml.Node]) -> bool:
    key = pair[0]
    return isinstance(key, yaml.ScalarNode) and key.tag == _PLAIN and key.value == "<<"


def resolve(text: str) -> bool | int | float | str | None:
    """The value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    integer = _integer(plain)
    if integer is not None:
        return integer
    if _FLOAT.fullmatch(plain) and not math.isinf(float(plain)):
        return float(plain)
    return text


def _integer(plain: str) -> int | None:
    match = _INTEGER.fullmatch(plain)
    if match is None or len(plain) > _MOST_DIGITS:
        return None
    sign, *digits = match.groups()
    base, found = next((base, d) for base, d in zip(_BASES, digits, strict=True) if d is not None)
    if base == 10 and len(found) > 1 and found[0] == "0":
        return None
    value = int(sign + found, base)
    return value if -(2**63) <= value < 2**64 else None

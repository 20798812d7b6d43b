"""The hyperparameters that code reads, as far as their names are written in it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from det_compat.analysis.expressions import called, last_name
from det_compat.analysis.source import Source

_ONE = {"get_hparam", "get_hyperparameter"}
_ALL = "get_hparams"
# What trials of PEDL and Determined 0.12 call the argument that has all of them.
_ARGUMENT = "hparams"
_METHODS = {name for name in dir(dict) if not name.startswith("_")}
_MISSING = object()


@dataclass(frozen=True)
class Reading:
    """A hyperparameter that is read.

    Attributes:
        path: its name, and those of the mappings that it is in.
        where: the file and line.
        has_default: whether the code has a value for want of one.
        default: that value.
    """

    path: tuple[str, ...]
    where: str
    has_default: bool = False
    default: Any = None


def readings(nodes: Iterable[ast.AST], source: Source) -> Iterator[Reading]:
    """What ``nodes``, which are of ``source``, read of the hyperparameters.

    These are literal names in ``get_hparam``, and in what ``get_hparams`` returned, by whatever
    variable or attribute of that file.
    """
    holders, wrapped = _holders(source)
    seen: set[ast.AST] = set()
    for top in nodes:
        for node in ast.walk(top):  # what is outside comes first
            found = None if node in seen else _path(node, holders, wrapped)
            if found:
                seen.update(ast.walk(node))
                path, default = found
                where = f"{source.path.name}:{getattr(node, 'lineno', 0)}"
                has_default = default is not _MISSING
                yield Reading(path, where, has_default, default if has_default else None)


def _holders(source: Source) -> tuple[set[str], set[str]]:
    """The variables and attributes that hold all hyperparameters, and those of other types."""
    holders, wrapped = {_ARGUMENT}, set()
    for node in (node for tree in source.trees for node in ast.walk(tree)):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        value = node.value
        inner = [one for one in ast.walk(value) if isinstance(one, ast.Call)]
        # One that is read, as get_hparams()["lr"] is, is not all of them.
        read = {id(one.value) for one in ast.walk(value) if _reads(one)}
        if not any(called(one) == _ALL and id(one) not in read for one in inner):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {last_name(target) for target in targets} - {""}
        holders |= names
        if called(inner[0]) != _ALL:  # AttrDict(context.get_hparams()), for one
            wrapped |= names
    objects = wrapped & {*_with_methods(source)}
    return holders - objects, wrapped - objects


def _reads(node: ast.AST) -> TypeGuard[ast.Attribute | ast.Subscript]:
    if isinstance(node, ast.Attribute):
        return node.attr not in ("copy", "items")
    return isinstance(node, ast.Subscript)


def _with_methods(source: Source) -> Iterator[str]:
    """The variables and attributes of which methods are called that no mapping has: models, say."""
    for node in (node for tree in source.trees for node in ast.walk(tree)):
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr not in _METHODS:
            yield last_name(method.value)


def _path(
    node: ast.AST, holders: set[str], wrapped: set[str]
) -> tuple[tuple[str, ...], Any] | None:
    """The hyperparameter that an expression reads, and its default; None if it reads none."""
    if isinstance(node, ast.Call) and called(node) in _ONE and node.args:
        name = _text(node.args[0])
        return None if name is None else ((name,), _MISSING)
    if isinstance(node, ast.Call) and called(node) == "get" and node.args:
        above = _above(getattr(node.func, "value", None), holders, wrapped)
        name = _text(node.args[0])
        if above is None or name is None:
            return None
        return (*above, name), _literal(node.args[1]) if len(node.args) > 1 else None
    if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Load):
        path = _above(node, holders, wrapped)
        return (path, _MISSING) if path else None
    return None


def _above(node: ast.AST | None, holders: set[str], wrapped: set[str]) -> tuple[str, ...] | None:
    """The path that an expression has in the hyperparameters; empty for all of them."""
    if isinstance(node, ast.Subscript):
        above, name = _above(node.value, holders, wrapped), _text(node.slice)
        return None if above is None or name is None else (*above, name)
    if isinstance(node, ast.Call):
        return () if called(node) == _ALL else None
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    if isinstance(node, ast.Attribute) and last_name(node.value) in wrapped:
        return None if node.attr in _METHODS else (node.attr,)
    return () if last_name(node) in holders else None


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _literal(node: ast.AST) -> Any:
    """The value of a literal; what is none counts as missing, for somebody to fill in."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _MISSING

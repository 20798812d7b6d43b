"""Imports: those of Determined that nothing needs any more go, those of the new code come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from det_compat.check.support import is_determined
from det_compat.migrate.syntax import code, simple, statement


def tidied(tree: cst.Module, added: Iterable[str], kept: set[str]) -> cst.Module:
    """The file with the imports ``added``, and of Determined's with those of names in ``kept``."""
    place = _first_of_determined(tree)
    return _with_imports(tree, sorted(added), place).visit(_Unused(kept))


def _first_of_determined(tree: cst.Module) -> int:
    for index, line in enumerate(tree.body):
        small = simple(line)
        if isinstance(small, cst.ImportFrom) and _is_of_determined(small):
            return index
        if isinstance(small, cst.Import) and any(is_determined(code(a.name)) for a in small.names):
            return index
    return _first_import([*tree.body])


class _Unused(cst.CSTTransformer):
    def __init__(self, kept: set[str]) -> None:
        self._kept = kept

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small = simple(updated_node)
        if not isinstance(small, (cst.Import, cst.ImportFrom)):
            return updated_node
        if isinstance(small, cst.ImportFrom) and not _is_of_determined(small):
            return updated_node
        if isinstance(small.names, cst.ImportStar):
            return cst.RemoveFromParent()
        kept = [alias for alias in small.names if self._is_kept(small, alias)]
        if not kept:
            return cst.RemoveFromParent()
        is_short = len(kept) == 1 and len(small.names) > 1 and isinstance(small, cst.ImportFrom)
        last = cst.MaybeSentinel.DEFAULT if is_short else small.names[-1].comma
        kept[-1] = kept[-1].with_changes(comma=last)
        changes = {"names": kept, **({"lpar": None, "rpar": None} if is_short else {})}
        return updated_node.with_changes(body=[small.with_changes(**changes)])

    def _is_kept(self, small: cst.Import | cst.ImportFrom, alias: cst.ImportAlias) -> bool:
        name = code(alias.name)
        if isinstance(small, cst.Import) and not is_determined(name):
            return True
        bound = code(alias.asname.name) if alias.asname else name.partition(".")[0]
        return bound in self._kept


def _is_of_determined(small: cst.ImportFrom) -> bool:
    return not small.relative and small.module is not None and is_determined(code(small.module))


def _with_imports(tree: cst.Module, added: list[str], place: int) -> cst.Module:
    there = {text for line in tree.body for text in _imported(line)}
    new = [text for text in added if text not in there]
    body = [*tree.body]
    if not new:
        return tree
    at = min(place, _first_import(body)) if place >= len(body) else place
    lines = [statement(text) for text in sorted(new, key=_order)]
    if at < len(body):
        first = body[at]
        leading = getattr(first, "leading_lines", [])
        lines[0] = lines[0].with_changes(leading_lines=leading)
        body[at] = first.with_changes(leading_lines=[])
    return tree.with_changes(body=[*body[:at], *lines, *body[at:]])


def _imported(line: cst.BaseStatement) -> list[str]:
    """The statements that import, one by one, what a statement imports."""
    small = simple(line)
    if isinstance(small, cst.Import):
        return [f"import {code(a.with_changes(comma=_NO_COMMA))}" for a in small.names]
    if isinstance(small, cst.ImportFrom) and not isinstance(small.names, cst.ImportStar):
        module = code(small.module) if small.module else ""
        return [
            f"from {module} import {code(a.with_changes(comma=_NO_COMMA))}" for a in small.names
        ]
    return []


_NO_COMMA = cst.MaybeSentinel.DEFAULT


def _order(text: str) -> tuple[bool, str]:
    return not text.startswith("from typing"), text


def _first_import(body: Sequence[cst.BaseStatement]) -> int:
    """The place of the first import that is no ``from __future__``, or where one would be."""
    for index, line in enumerate(body):
        small = simple(line)
        is_future = isinstance(small, cst.ImportFrom) and code(small.module or cst.Name("")) == (
            "__future__"
        )
        is_docstring = index == 0 and isinstance(small, cst.Expr)
        if not is_future and not is_docstring:
            return index
    return len(body)

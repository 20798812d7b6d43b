"""Imports: those of Determined that nothing needs any more go, those of the new code come."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence

import libcst as cst

from det_compat.catalog.support import is_determined
from det_compat.migrate.tree.syntax import DepthTransformer, code, simple, statement


def tidied(
    tree: cst.Module, new: Iterable[str], kept: set[str], local: Collection[str] = ()
) -> cst.Module:
    """The file with the imports ``new``, and of Determined's with those of names in ``kept``.

    ``local`` are the statements that functions import by, which stay as well.
    """
    place = _first_of_determined(tree)
    return dropping(_with_imports(tree, sorted(new), place), _Unused(kept, local))


def added(tree: cst.Module, new: Iterable[str]) -> cst.Module:
    """The file with more imports, where those of Determined begin."""
    return _with_imports(tree, sorted(new), _first_of_determined(tree))


def dropping(tree: cst.Module, transformer: cst.CSTTransformer) -> cst.Module:
    """The file without the imports that ``transformer`` removes.

    What is above a statement that goes, a comment or blank line, stays.
    """
    before = [*tree.body]
    gone = [
        small is not None
        and isinstance(small, (cst.Import, cst.ImportFrom))
        and not isinstance(line.visit(transformer), cst.BaseStatement)
        for line in before
        for small in [simple(line)]
    ]
    leading: list[cst.EmptyLine] = []
    body: list[cst.BaseStatement] = []
    for line, is_gone in zip(before, gone, strict=True):
        if is_gone:
            leading = leading or [*getattr(line, "leading_lines", ())]
            continue
        if leading:
            own = [*getattr(line, "leading_lines", ())]
            line = line.with_changes(leading_lines=_without_repeated_blanks([*leading, *own]))
            leading = []
        body.append(line)
    return tree.with_changes(body=body).visit(transformer)


def _without_repeated_blanks(lines: list[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Blank lines and comments, without the blank lines that came together at the front."""
    blanks = 0
    while blanks < len(lines) and lines[blanks].comment is None:
        blanks += 1
    return [*lines[: min(blanks, 2)], *lines[blanks:]]


def _first_of_determined(tree: cst.Module) -> int:
    for index, line in enumerate(tree.body):
        small = simple(line)
        if isinstance(small, cst.ImportFrom) and _is_of_determined(small):
            return index
        if isinstance(small, cst.Import) and any(_is_ours(code(a.name)) for a in small.names):
            return index
    return _first_import([*tree.body])


class _Unused(DepthTransformer):
    def __init__(self, kept: set[str], local: Collection[str]) -> None:
        super().__init__()
        self._kept = kept
        self._local = local

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small = simple(updated_node)
        if not isinstance(small, (cst.Import, cst.ImportFrom)):
            return updated_node
        if self.depth and code(small) in self._local:
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
        if isinstance(small, cst.Import) and not _is_ours(name):
            return True
        return bound_name(alias) in self._kept


def bound_name(alias: cst.ImportAlias) -> str:
    """The variable that an import sets."""
    return code(alias.asname.name) if alias.asname else code(alias.name).partition(".")[0]


def _is_of_determined(small: cst.ImportFrom) -> bool:
    return not small.relative and small.module is not None and _is_ours(code(small.module))


def _is_ours(name: str) -> bool:
    return is_determined(name) or name.partition(".")[0] == "det_compat"


def _with_imports(tree: cst.Module, new: list[str], place: int) -> cst.Module:
    there = {text for line in tree.body for text in _imported(line)}
    new = [text for text in new if text not in there]
    body: list[cst.BaseStatement] = [*tree.body]
    for text in [*new]:
        at = _same_module(body, text)
        if at is not None:
            body[at] = _with_name(body[at], text.rpartition(" ")[2])
            new.remove(text)
    for text in [text for text in new if text.startswith(_STANDARD)]:
        body = _with_standard(body, text)
    new = [text for text in new if not text.startswith(_STANDARD)]
    if not new:
        return tree.with_changes(body=body)
    place += len(body) - len(tree.body)
    at = min(place, _first_import(body)) if place >= len(body) else place
    for text in sorted(new, key=_order, reverse=True):
        body = _inserted(body, at, text)
    return tree.with_changes(body=body)


def _inserted(body: list[cst.BaseStatement], at: int, text: str) -> list[cst.BaseStatement]:
    """The statements with an import, in the group of imports that ``at`` belongs to."""
    while 0 < at < len(body) and not getattr(body[at], "leading_lines", True):
        if _order(text) >= _module_of(body[at - 1]) or _is_standard(body[at - 1]):
            break
        at -= 1
    line = statement(text)
    if at < len(body):
        below = body[at]
        line = line.with_changes(leading_lines=getattr(below, "leading_lines", []))
        body = [*body[:at], below.with_changes(leading_lines=[]), *body[at + 1 :]]
    return [*body[:at], line, *body[at:]]


def _same_module(body: Sequence[cst.BaseStatement], text: str) -> int | None:
    """The import on one line that takes something from the same module already."""
    start = text.rpartition(" import ")[0]
    for index, line in enumerate(body):
        small = simple(line)
        if not isinstance(small, cst.ImportFrom) or isinstance(small.names, cst.ImportStar):
            continue
        if small.lpar is None and small.module is not None and not small.relative:
            length = len(code(small))
            if f"from {code(small.module)}" == start and length < _LONGEST:
                return index
    return None


_LONGEST = 80


def _with_name(line: cst.BaseStatement, name: str) -> cst.BaseStatement:
    small = simple(line)
    assert isinstance(small, cst.ImportFrom) and not isinstance(small.names, cst.ImportStar)
    plain = [alias.with_changes(comma=cst.MaybeSentinel.DEFAULT) for alias in small.names]
    texts = [code(alias) for alias in plain]
    listed = [*plain, cst.ImportAlias(cst.Name(name))]
    if texts == sorted(texts):
        listed.sort(key=code)
    return line.with_deep_changes(small, names=listed)


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


_STANDARD = ("from typing import", "import os")


def _with_standard(body: list[cst.BaseStatement], text: str) -> list[cst.BaseStatement]:
    """The statements with an import among those of the standard library, which are first."""
    start = at = _first_import(body)
    while at < len(body) and _is_standard(body[at]) and _module_of(body[at]) < _order(text):
        at += 1
    lines = [statement(text)]
    if at < len(body):
        below = body[at]
        leading = [*getattr(below, "leading_lines", ())]
        if at == start:
            lines[0] = lines[0].with_changes(leading_lines=leading)
            leading = []
        if not leading and not _is_standard(below):
            leading = [cst.EmptyLine(indent=False)]
        body = [*body[:at], below.with_changes(leading_lines=leading), *body[at + 1 :]]
    return [*body[:at], *lines, *body[at:]]


def _is_standard(line: cst.BaseStatement) -> bool:
    name = _module_of(line)
    return name.partition(".")[0] in sys.stdlib_module_names


def _module_of(line: cst.BaseStatement) -> str:
    small = simple(line)
    if isinstance(small, cst.Import):
        return code(small.names[0].name)
    is_absolute = isinstance(small, cst.ImportFrom) and not small.relative
    return code(small.module) if is_absolute and small.module is not None else ""  # type: ignore[union-attr]


def _order(text: str) -> str:
    return text.split()[1]


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

"""Imports: those of Determined that nothing needs any more go, those of the new code come.

LibCST's own visitors (as of 1.9.0) do neither in the way that a formatter would leave alone, so
both are done here. AddImportsVisitor puts new statements behind all imports, below those of other
packages, and new names in front of those that a statement has. RemoveImportsVisitor keeps
``from determined import *``, and drops the blank line and the comments above what it removes.
"""

import ast
import bisect
import itertools
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.helpers import ensure_type, get_absolute_module_for_import

from det_compat.catalog.support import is_determined
from det_compat.migrate.tree.syntax import code, simple, statement, transformed, without_commas
from det_compat.migrate.tree.transformers import ScopedTransformer, with_brackets
from det_compat.migrate.tree.walking import left

_LONGEST = 80


@dataclass
class ImportEdits:
    """What the rewriting of a file needs of its imports.

    Passes add to it, and none reads it: ``tidied`` does, after the last one.

    Attributes:
        new: the import statements that the new code needs.
        kept: the names that are still needed of Determined's.
        local: the import statements of Determined's that functions have now.
    """

    new: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)


def tidied(tree: cst.Module, edits: ImportEdits) -> cst.Module:
    """The file with its new imports, and of Determined's with those that are still needed."""
    return with_brackets(dropping(added(tree, edits.new), _Unused(edits)))


def dropping(tree: cst.Module, transformer: cst.CSTTransformer) -> cst.Module:
    """The file without the imports that ``transformer`` removes.

    What is above a statement that goes, a comment or blank line, stays.
    """
    leading: list[cst.EmptyLine] = []
    body: list[cst.BaseStatement] = []
    for line in tree.body:
        own = [*getattr(line, "leading_lines", ())]
        is_import = isinstance(simple(line), (cst.Import, cst.ImportFrom))
        if is_import and not isinstance(left(line, transformer), cst.BaseStatement):
            leading = leading or own
            continue
        if leading:
            if all(each.comment is None for each in leading):
                # Blank lines that come together here are not those of two statements.
                blanks = [*itertools.takewhile(lambda each: each.comment is None, own)]
                leading = leading[len(blanks) :]
            line = line.with_changes(leading_lines=[*leading, *own])
            leading = []
        if not body and line is not tree.body[0] and not tree.header:
            # A file that began with an import does not begin with the blank line below it.
            blank = itertools.dropwhile(lambda each: each.comment is None, line.leading_lines)
            line = line.with_changes(leading_lines=[*blank])
        body.append(line)
    return transformed(tree.with_changes(body=body), transformer)


def without_unused(text: bytes, before: bytes, exported: Collection[str]) -> bytes:
    """The file without the imports at its top level that rewriting has left without a use.

    Args:
        text: the file.
        before: its text before it was rewritten: what nobody used then stays.
        exported: names that other files import from somewhere.
    """
    kept = {*exported, *_unused(before)}
    # Without an import for type checkers, TYPE_CHECKING itself may be left without a use.
    while idle := _unused(text) - kept:
        text = dropping(cst.parse_module(text), _Idle(idle)).bytes
    return text


def _unused(text: bytes) -> set[str]:
    """The names that a file imports at its top level, and does not use."""
    tree = ast.parse(text)
    bound = _bound(tree)
    return bound - _used(tree) if bound else bound


def _bound(tree: ast.Module) -> set[str]:
    return {
        (alias.asname or alias.name).partition(".")[0]
        for line in _top_lines(tree.body)
        if isinstance(line, (ast.Import, ast.ImportFrom)) and not _is_future(line)
        for alias in line.names
    }


def _top_lines(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements at the top level of a file, those for type checkers alone among them."""
    for line in body:
        is_typing = isinstance(line, ast.If) and _is_for_typing(ast.unparse(line.test))
        yield from line.body if is_typing and isinstance(line, ast.If) else [line]


def _is_for_typing(test: str) -> bool:
    return test.rpartition(".")[2] == "TYPE_CHECKING"


def _is_future(line: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(line, ast.ImportFrom) and line.module == "__future__"


def _used(tree: ast.Module) -> set[str]:
    """The names that a file uses, in the texts of annotations and of ``__all__`` as well."""
    nodes = [*ast.walk(tree)]
    texts = (n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    # A text of names and brackets may be a type, which a module is not.
    modules = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    modules = set() if "__all__" in names else modules
    types = (t for t in texts if re.fullmatch(r"[\w.\[\], |]+", t) and t not in modules)
    return names | {word for text in types for word in re.findall(r"\w+", text)}


class _Removing(ScopedTransformer):
    """Removes imports, and whatever was there for type checkers alone if that was all of it.

    Attributes:
        typing: how many blocks around are for type checkers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.typing = 0

    def visit_If(self, node: cst.If) -> None:
        self.typing += _is_for_typing(code(node.test))

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If | cst.RemovalSentinel:
        is_typing = _is_for_typing(code(original.test))
        self.typing -= is_typing
        is_empty = is_typing and updated.orelse is None and not updated.body.body
        return cst.RemoveFromParent() if is_empty else updated


class _Idle(_Removing):
    """Removes the names that imports at the top level bind for nothing."""

    def __init__(self, idle: set[str]) -> None:
        super().__init__()
        self._idle = idle

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small = simple(updated)
        is_below = self.depth > self.typing
        if is_below or not isinstance(small, (cst.Import, cst.ImportFrom)):
            return updated
        if isinstance(small.names, cst.ImportStar):
            return updated
        kept = [alias for alias in small.names if bound_name(alias) not in self._idle]
        return updated if len(kept) == len(small.names) else keeping(updated, kept)


class _Unused(_Removing):
    """Removes the imports of Determined's that are not kept."""

    def __init__(self, edits: ImportEdits) -> None:
        super().__init__()
        self._edits = edits

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small = simple(updated)
        if not isinstance(small, (cst.Import, cst.ImportFrom)):
            return updated
        if self.depth and code(small) in self._edits.local:
            return updated
        if not any(map(_is_ours, _modules(updated))):
            return updated
        if isinstance(small.names, cst.ImportStar):
            return cst.RemoveFromParent()
        is_plain = isinstance(small, cst.Import)
        others = [a for a in small.names if is_plain and not _is_ours(a.evaluated_name)]
        kept = [a for a in small.names if a in others or bound_name(a) in self._edits.kept]
        return keeping(updated, kept)


def keeping(
    line: cst.SimpleStatementLine, kept: Sequence[cst.ImportAlias]
) -> cst.SimpleStatementLine | cst.RemovalSentinel:
    """An import of these of its names; it is removed if there are none."""
    small = simple(line)
    assert isinstance(small, (cst.Import, cst.ImportFrom)) and not isinstance(
        small.names, cst.ImportStar
    )
    if not kept:
        return cst.RemoveFromParent()
    is_short = len(kept) == 1 and len(small.names) > 1 and isinstance(small, cst.ImportFrom)
    last = cst.MaybeSentinel.DEFAULT if is_short else small.names[-1].comma
    names = [*kept[:-1], kept[-1].with_changes(comma=last)]
    changes = {"names": names, **({"lpar": None, "rpar": None} if is_short else {})}
    return line.with_changes(body=[small.with_changes(**changes)])


def bound_name(alias: cst.ImportAlias) -> str:
    """The variable that an import sets."""
    return alias.evaluated_alias or alias.evaluated_name.partition(".")[0]


def imported(line: cst.BaseStatement) -> list[tuple[str, str]]:
    """The variables that an import sets, each with the statement that sets it alone."""
    small = simple(line)
    module = _modules(line)
    if not module or not isinstance(small, (cst.Import, cst.ImportFrom)):
        return []
    if isinstance(small.names, cst.ImportStar):
        return []
    start = f"from {module[0]} import" if isinstance(small, cst.ImportFrom) else "import"
    aliases: Sequence[cst.ImportAlias] = small.names
    return [(bound_name(alias), f"{start} {code(alias)}") for alias in without_commas(aliases)]


def _modules(line: cst.CSTNode) -> list[str]:
    """The modules that an import names; none if it is relative."""
    small = simple(line)
    if isinstance(small, cst.Import):
        return [alias.evaluated_name for alias in small.names]
    module = None
    if isinstance(small, cst.ImportFrom):
        module = get_absolute_module_for_import(None, small)
    return [module] if module else []


def _module_of(line: cst.BaseStatement) -> str:
    return next(iter(_modules(line)), "")


def _is_ours(module: str) -> bool:
    return is_determined(module) or module.partition(".")[0] == "det_compat"


def _is_standard(line: cst.BaseStatement) -> bool:
    return _module_of(line).partition(".")[0] in sys.stdlib_module_names


def added(tree: cst.Module, new: Collection[str]) -> cst.Module:
    """The file with more imports, where those of Determined begin.

    Names of a module that a short line imports from already come to that line; imports of the
    standard library come to those at the top.
    """
    body: list[cst.BaseStatement] = [*tree.body]
    there = {text for line in body for _, text in imported(line)}
    start = next((i for i, line in enumerate(body) if any(map(_is_ours, _modules(line)))), None)
    if start is None:
        start = _first_import(body)
        while start < len(body) and _is_standard(body[start]):
            start += 1
    others: list[str] = []
    for text in sorted({*new} - there):
        if _joins(body, text):
            continue
        if _is_standard(statement(text)):
            body = _with_standard(body, text)
            start += 1
        else:
            others.append(text)
    at = min(start, _first_import(body)) if start >= len(body) else start
    for text in sorted(others, key=_order, reverse=True):
        if not _joins(body, text):
            is_relative = _order(text).startswith(".")
            body = _behind_all(body, text) if is_relative else _in_group(body, at, text)
    return tree.with_changes(body=body)


def _first_import(body: Sequence[cst.BaseStatement]) -> int:
    """The index of the first import that is no ``from __future__``, or where one would be."""
    for index, line in enumerate(body):
        is_docstring = index == 0 and isinstance(simple(line), cst.Expr)
        if not is_docstring and _module_of(line) != "__future__":
            return index
    return len(body)


def _joins(body: list[cst.BaseStatement], text: str) -> bool:
    """Add a name to an import of ``body``; whether there is one of the same module."""
    at = _same_module(body, text)
    if at is not None:
        body[at] = _with_name(body[at], text.rpartition(" ")[2])
    return at is not None


def _same_module(body: Sequence[cst.BaseStatement], text: str) -> int | None:
    """The import on one line that takes something from the same module already."""
    start = text.rpartition(" import ")[0]
    for index, line in enumerate(body):
        small = simple(line)
        if not isinstance(small, cst.ImportFrom) or isinstance(small.names, cst.ImportStar):
            continue
        is_one_line = small.lpar is None and len(code(small)) < _LONGEST
        if is_one_line and code(small).partition(" import ")[0] == start:
            return index
    return None


def _with_name(line: cst.BaseStatement, name: str) -> cst.BaseStatement:
    small = ensure_type(simple(line), cst.ImportFrom)
    assert not isinstance(small.names, cst.ImportStar)
    plain = without_commas(small.names)
    listed = [*plain, cst.ImportAlias(cst.Name(name))]
    if plain == sorted(plain, key=code):
        listed.sort(key=code)
    return line.with_deep_changes(small, names=listed)


def _order(text: str) -> str:
    return text.split()[1]


def _rank(line: cst.BaseStatement) -> tuple[bool, str]:
    """What isort and ruff sort imports by: those without ``from`` come first."""
    return isinstance(simple(line), cst.ImportFrom), _module_of(line).lower()


def _group(body: Sequence[cst.BaseStatement], at: int) -> range:
    """The imports around one, up to the next blank lines or comments."""
    start = end = at
    while start and _modules(body[start - 1]) and not getattr(body[start], "leading_lines", True):
        start -= 1
    while end < len(body) and _modules(body[end]):
        if end > at and getattr(body[end], "leading_lines", True):
            break
        end += 1
    return range(start, end)


def _sorted_group(body: Sequence[cst.BaseStatement], at: int) -> range:
    """The group of imports for one at ``at``: that of torch's if only Determined's are there.

    It is empty if that group is not sorted.
    """
    group = _group(body, at)
    if all(any(map(_is_ours, _modules(body[index]))) for index in group):
        beside = (i for i in range(at) if _module_of(body[i]).partition(".")[0] == "torch")
        group = _group(body, next(beside, at))
    ranks = [_rank(body[index]) for index in group]
    is_sorted = len(ranks) > 1 and ranks == sorted(ranks) and not _is_standard(body[group.start])
    return group if is_sorted else range(0)


def _behind_all(body: list[cst.BaseStatement], text: str) -> list[cst.BaseStatement]:
    """The statements with an import of a file beside this one, which come last."""
    kinds = (cst.Import, cst.ImportFrom)
    found = [index for index, line in enumerate(body) if isinstance(simple(line), kinds)]
    if not found:
        return _inserted(body, _first_import(body), text, heads_group=True)
    last = simple(body[found[-1]])
    is_group = isinstance(last, cst.ImportFrom) and bool(last.relative)
    line = ensure_type(statement(text), cst.SimpleStatementLine)
    above = [] if is_group else [cst.EmptyLine(indent=False)]
    return [
        *body[: found[-1] + 1],
        line.with_changes(leading_lines=above),
        *body[found[-1] + 1 :],
    ]


def _with_standard(body: list[cst.BaseStatement], text: str) -> list[cst.BaseStatement]:
    """The statements with an import among those of the standard library, which are first."""
    first = at = _first_import(body)
    while at < len(body) and _is_standard(body[at]) and _module_of(body[at]) < _order(text):
        at += 1
    return _inserted(body, at, text, heads_group=at == first)


def _in_group(body: list[cst.BaseStatement], at: int, text: str) -> list[cst.BaseStatement]:
    """The statements with an import in the group of imports that ``at`` belongs to."""
    group = _sorted_group(body, at) if at < len(body) else range(0)
    if group:
        ranks = [_rank(body[index]) for index in group]
        place = group.start + bisect.bisect(ranks, _rank(statement(text)))
        return _inserted(body, place, text, heads_group=place == group.start)
    while 0 < at < len(body) and not getattr(body[at], "leading_lines", True):
        if _order(text) >= _module_of(body[at - 1]) or _is_standard(body[at - 1]):
            break
        at -= 1
    return _inserted(body, at, text, heads_group=True)


def _inserted(
    body: list[cst.BaseStatement], at: int, text: str, heads_group: bool
) -> list[cst.BaseStatement]:
    """The statements with one more, which takes over the lines above if it heads a group."""
    line = statement(text)
    if at == len(body):
        return [*body, line]
    below = body[at]
    leading = [*getattr(below, "leading_lines", ())]
    blank = cst.EmptyLine(indent=False)
    if heads_group and not _modules(below):
        # The first of its group is the last of all imports.
        line = line.with_changes(leading_lines=[blank] if at else [])
        leading = leading or [blank, blank]
    elif heads_group:
        line = line.with_changes(leading_lines=leading)
        leading = []
    if not leading and _is_standard(line) and not _is_standard(below):
        leading = [blank]
    return [*body[:at], line, below.with_changes(leading_lines=leading), *body[at + 1 :]]

"""New lines that are too long, spread over several as formatters do."""

from collections.abc import Iterable

import libcst as cst

from det_compat.migrate.tree.syntax import code, simple
from det_compat.migrate.tree.transformers import ScopedTransformer

_LINE, _INDENT = 100, 4


def apply(tree: cst.Module, before: bytes) -> cst.Module:
    """Spread the statements that are longer than 100 columns and were not in ``before``."""
    there = {line.strip() for line in before.decode(errors="replace").splitlines()}
    return tree.visit(_Spreading(there))


class _Spreading(ScopedTransformer):
    def __init__(self, there: set[str]) -> None:
        super().__init__()
        self._there = there

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        small = simple(updated)
        width = _LINE - self.depth * _INDENT
        if small is None or not self._is_too_long(small, width):
            return updated
        value = getattr(small, "value", None)
        if not isinstance(value, (cst.Call, cst.Dict, cst.List)):
            return updated
        return updated.with_changes(body=[small.with_changes(value=spread(value, 0, width))])

    def _is_too_long(self, node: cst.CSTNode, width: int) -> bool:
        lines = code(node).splitlines()
        new = [line for line in lines if line.strip() not in self._there]
        return any(len(line) > width for line in new)


def spread(
    node: cst.Call | cst.Dict | cst.List, depth: int, width: int
) -> cst.Call | cst.Dict | cst.List:
    """A call, dict or list with what is in it on lines of its own.

    What is in a call is on one line if it fits there, else each on its own.
    """
    inner = depth + 1
    room = width - inner * _INDENT
    if isinstance(node, cst.Call):
        args = _plain(node.args)
        if not args:
            return node
        one = len(", ".join(map(code, args))) <= room
        items = [_narrow(arg, inner, width) for arg in args]
        return node.with_changes(
            args=_separated(args if one else items, inner, one),
            whitespace_before_args=_newline(inner),
        )
    elements = [_narrow(element, inner, width) for element in _plain(node.elements)]
    listed = _separated(elements, inner, False)
    if isinstance(node, cst.Dict):
        brace = node.lbrace.with_changes(whitespace_after=_newline(inner))
        return node.with_changes(elements=listed, lbrace=brace, rbrace=cst.RightCurlyBrace())
    bracket = node.lbracket.with_changes(whitespace_after=_newline(inner))
    return node.with_changes(elements=listed, lbracket=bracket, rbracket=cst.RightSquareBracket())


def _narrow(item: cst.CSTNode, depth: int, width: int) -> cst.CSTNode:
    """An argument or element, itself spread if it does not fit on a line."""
    value = getattr(item, "value", None)
    is_long = len(code(item)) + 1 > width - depth * _INDENT
    if is_long and isinstance(value, (cst.Call, cst.Dict, cst.List)):
        return item.with_changes(value=spread(value, depth, width))
    return item


def _plain(items: Iterable[cst.CSTNode]) -> list[cst.CSTNode]:
    changes = {"comma": cst.MaybeSentinel.DEFAULT}
    return [
        item.with_changes(**changes, whitespace_after_arg=cst.SimpleWhitespace(""))
        if isinstance(item, cst.Arg)
        else item.with_changes(**changes)
        for item in items
    ]


def _separated(items: list[cst.CSTNode], depth: int, on_one_line: bool) -> list[cst.CSTNode]:
    between = cst.SimpleWhitespace(" ") if on_one_line else _newline(depth)
    made = [item.with_changes(comma=cst.Comma(whitespace_after=between)) for item in items[:-1]]
    last = items[-1]
    end = _newline(depth - 1)
    if on_one_line and isinstance(last, cst.Arg):
        return [*made, last.with_changes(whitespace_after_arg=end)]
    return [*made, last.with_changes(comma=cst.Comma(whitespace_after=end))]


def _newline(depth: int) -> cst.ParenthesizedWhitespace:
    return cst.ParenthesizedWhitespace(
        indent=True, last_line=cst.SimpleWhitespace(" " * (_INDENT * depth))
    )

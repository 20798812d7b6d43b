"""New code as formatters write it: lines that are too long, and blank lines between methods."""

import ast
from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeVar

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.tree.file import Line
from det_compat.migrate.tree.syntax import code, expression, simple, transformed, without_commas
from det_compat.migrate.tree.transformers import ScopedTransformer

INDENT = 4
#: What ruff and black write, and what is as common.
LINES = (88, 100)
_CLOSING = (")", "]", "}")
_Container: TypeAlias = cst.Call | cst.Dict | cst.List | cst.Tuple
_Node = TypeVar("_Node", bound=cst.CSTNode)
#: How each begins and ends, and which of its fields hold what is between, and the whitespace.
_PARTS: dict[type, tuple[str, str, tuple[str, ...]]] = {
    cst.Call: ("f(", ")", ("args", "whitespace_before_args")),
    cst.Dict: ("{", "}", ("elements", "lbrace", "rbrace")),
    cst.List: ("[", "]", ("elements", "lbracket", "rbracket")),
    cst.Tuple: ("(", ")", ("elements", "lpar", "rpar")),
}


def apply(text: bytes, before: bytes) -> bytes:
    """Spread the statements that are longer than others and were not in ``before``."""
    lines = before.decode(errors="replace").splitlines()
    # Formatters leave comments as they are.
    lengths = (len(line) for line in lines if not line.lstrip().startswith("#"))
    longest = max(lengths, default=LINES[-1])
    line = next((each for each in LINES if longest <= each), LINES[-1])
    there = {line.strip() for line in lines}
    if _fits(text, there, line):
        return text
    return transformed(cst.parse_module(text), _Spreading(there, line)).bytes


def _fits(text: bytes, there: set[str], longest: int) -> bool:
    """Whether nothing is to be spread or moved, as Python's own parser tells in no time.

    It may say no where LibCST would find nothing.
    """
    rows, found = text.splitlines(), _simple(ast.parse(text).body)
    # LibCST counts a semicolon to the statement in front of it.
    return b";" not in text and all(
        _stays(node, rows, there, longest - depth * INDENT) for node, depth in found
    )


def _simple(nodes: Sequence[ast.AST], depth: int = 0) -> Iterator[tuple[ast.stmt, int]]:
    """The statements that have none in them, and at most how many blocks are around each."""
    for node in nodes:
        if inner := [each for name in _BLOCKS for each in getattr(node, name, ())]:
            yield from _simple(inner, depth + 1)
        elif isinstance(node, ast.stmt):
            yield node, depth


def _stays(node: ast.stmt, rows: list[bytes], there: set[str], width: int) -> bool:
    lines = rows[node.lineno - 1 : node.end_lineno]
    lines[-1] = lines[-1][: node.end_col_offset]
    lines[0] = lines[0][node.col_offset :]
    texts = [line.decode(errors="replace").strip() for line in lines]
    if there.issuperset(texts):
        return True
    is_closed_below = len(lines) > 1 and texts[-1].startswith(_CLOSING)
    return not is_closed_below and all(len(line) <= width for line in lines)


_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")


class _Spreading(ScopedTransformer):
    def __init__(self, there: set[str], line: int) -> None:
        super().__init__()
        self._there = there
        self._line = line

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Line:
        small = simple(updated)
        width = self._line - self.depth * INDENT
        value = getattr(small, "value", None)
        if small is None:
            return updated
        new = [line for line in code(small).splitlines() if line.strip() not in self._there]
        if isinstance(value, _Container) and any(len(line) > width for line in new):
            return updated.with_changes(body=[small.with_changes(value=_spread(value, 0, width))])
        return updated.with_changes(body=[self._below_its_start(small)])

    def _below_its_start(self, small: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
        """A new statement, whose last bracket may be where a deeper one had it, below its start."""
        first, *below = code(small).splitlines()
        last = below[-1] if below else ""
        deeper = last[: len(last) - len(last.lstrip())]
        # What stands before lines of code that was made here may be no whitespace of LibCST's.
        are_deeper = all(line.startswith(deeper) for line in below)
        is_moved = first not in self._there and last.lstrip().startswith(_CLOSING)
        # Some write the last bracket as deep as what is in it, which stays below the start.
        is_hanging = any(not line.startswith(f"{deeper} ") for line in below[:-1])
        spaces = max(0, len(deeper) - INDENT) if is_hanging else len(deeper)
        return dedented(small, spaces) if is_moved and are_deeper else small


def _spread(node: _Container, depth: int, width: int) -> _Container:
    """A call, dict, list or tuple with what is in it on lines of its own.

    What is in a call is on one line if it fits there, else each on its own.
    """
    items = without_commas(node.args if isinstance(node, cst.Call) else node.elements)
    if not items:
        return node
    text = ", ".join(map(_text, items))
    is_short = len(text) <= width - (depth + 1) * INDENT
    # A generator expression without parentheses must not have a comma behind it.
    is_generator = len(items) == 1 and isinstance(getattr(items[0], "value", 0), cst.GeneratorExp)
    newline = "\n" + " " * INDENT * (depth + 1)
    if not isinstance(node, cst.Call) or not (is_short or is_generator):
        narrow = (_text(_narrow(item, depth + 1, width)) for item in items)
        text = f",{newline}".join(narrow) + ","
    opening, closing, parts = _PARTS[type(node)]
    made = expression(f"{opening}{newline}{text}\n{' ' * INDENT * depth}{closing}")
    return node.with_changes(**{part: getattr(made, part) for part in parts})


def _narrow(item: cst.CSTNode, depth: int, width: int) -> cst.CSTNode:
    """An argument or element, itself spread if it does not fit on a line."""
    value = getattr(item, "value", None)
    is_long = len(_text(item)) + 1 > width - depth * INDENT
    if is_long and isinstance(value, _Container):
        return item.with_changes(value=_spread(value, depth, width))
    if is_long and isinstance(value, cst.DictComp):
        return item.with_changes(value=_in_lines(value, depth))
    return item


def _in_lines(node: cst.DictComp, depth: int) -> cst.BaseExpression:
    """A comprehension with what it makes and where that comes from on lines of their own."""
    newline = "\n" + " " * INDENT * (depth + 1)
    made = f"{code(node.key)}: {code(node.value)}{newline}{code(node.for_in).strip()}"
    return expression(f"{{{newline}{made}\n{' ' * INDENT * depth}}}")


def _text(item: cst.CSTNode) -> str:
    if isinstance(item, cst.Arg):
        item = item.with_changes(whitespace_after_arg=cst.SimpleWhitespace(""))
    return code(item)


def spaced(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """The statements of a class, each method below a blank line, but for the first."""
    spaced: list[cst.BaseStatement] = []
    for index, line in enumerate(body):
        if isinstance(line, cst.FunctionDef):
            leading = [*line.leading_lines]
            if index and not (leading and leading[0].comment is None):
                leading.insert(0, cst.EmptyLine(indent=False))
            elif not index:
                while leading and leading[0].comment is None:
                    leading.pop(0)
            line = line.with_changes(leading_lines=leading)
        spaced.append(line)
    return spaced


def dedented(node: _Node, spaces: int = INDENT) -> _Node:
    """An expression or statement of several lines, ``spaces`` to the left but for the first."""
    return ensure_type(node.visit(_Dedenting(spaces)), type(node))


class _Dedenting(cst.CSTTransformer):
    def __init__(self, spaces: int) -> None:
        super().__init__()
        self._spaces = " " * spaces

    def leave_ParenthesizedWhitespace(
        self, original_node: cst.ParenthesizedWhitespace, updated_node: cst.ParenthesizedWhitespace
    ) -> cst.ParenthesizedWhitespace:
        last = updated_node.last_line
        shorter = last.value.removeprefix(self._spaces)
        return updated_node.with_deep_changes(last, value=shorter)

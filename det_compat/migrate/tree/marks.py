"""The comments that say what could not be rewritten."""

import re
from collections.abc import Sequence
from typing import TypeVar

import libcst as cst

MARK = "# MIGRATE:"
#: The heading for what has none of its own.
REST = "MIGRATION.md#what-migrate-leaves-to-you"
#: What is said wherever Determined's mixed precision was asked for.
PRECISION = 'mixed precision is pl.Trainer(precision="16-mixed")'
PRECISION_LINK = "MIGRATION.md#nvidia-apex"

_Node = TypeVar("_Node", bound=cst.CSTNode)


def comment(message: str, link: str = REST) -> str:
    """The comment with a message, on one line, and a link."""
    return f"{MARK} {' '.join(message.split())}; see {link or REST}"


def marked(statement: _Node, message: str, link: str = REST) -> _Node:
    """The statement below a comment with a message and a link; once, however often it is asked."""
    lines = getattr(statement, "leading_lines", None)
    if lines is None:
        return statement
    text = comment(message, link)
    if any(line.comment is not None and line.comment.value == text for line in lines):
        return statement
    added = cst.EmptyLine(comment=cst.Comment(text))
    return statement.with_changes(leading_lines=[*lines, added])


def count(source: str) -> int:
    """How many such comments there are in a file."""
    return len(re.findall(rf"^\s*{MARK}", source, re.MULTILINE))


def comments_of(statement: cst.BaseStatement) -> list[cst.EmptyLine]:
    """The comments above a statement."""
    lines = getattr(statement, "leading_lines", ())
    return [line for line in lines if line.comment is not None]


def marks_of(statement: cst.BaseStatement) -> list[cst.EmptyLine]:
    """The comments above a statement that ``marked`` has made."""
    return [line for line in comments_of(statement) if line.comment and MARK in line.comment.value]


def above(statement: _Node, comments: Sequence[cst.EmptyLine]) -> _Node:
    """The statement with more comments or blank lines above it."""
    lines = getattr(statement, "leading_lines", None)
    if not comments or lines is None:
        return statement
    return statement.with_changes(leading_lines=[*comments, *lines])

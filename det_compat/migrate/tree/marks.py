"""Comments: those that say what could not be rewritten, and those that hold what has been."""

import ast
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import TypeAlias, TypeVar

import libcst as cst

from det_compat.migrate.tree import syntax

MARK = "# MIGRATE:"
#: The heading for what has none of its own.
REST = "MIGRATION.md#what-migrate-leaves-to-you"
#: What is said wherever Determined's mixed precision was asked for: "16-mixed" scales gradients.
PRECISION_FLAG = (
    'pl.Trainer(precision="16-mixed"), or "bf16-mixed" if the module clips after manual_backward'
)
PRECISION = f"mixed precision is {PRECISION_FLAG}"
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


def on_devices(number: str) -> str:
    """What a script says above ``pytorch.init()`` that trains on several devices."""
    return f"# on {number} devices: torchrun --nproc_per_node"


def devices_said(lines: Sequence[cst.EmptyLine]) -> tuple[str, list[cst.EmptyLine]]:
    """The number of devices that such a comment says, ``""`` without one; and the others."""
    texts = {line: line.comment.value for line in lines if line.comment is not None}
    said = {line: m[1] for line in texts if (m := _DEVICES.fullmatch(texts[line])) is not None}
    return next(iter(said.values()), ""), [line for line in lines if line not in said]


_DEVICES = re.compile(re.escape(on_devices("N")).replace("N", "(.+)", 1))


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
    """The statement with more comments or blank lines above it, behind the blank ones there."""
    lines = getattr(statement, "leading_lines", None)
    if not comments or lines is None:
        return statement
    blank = [*takewhile(lambda line: line.comment is None, lines)]
    return statement.with_changes(leading_lines=[*blank, *comments, *lines[len(blank) :]])


def without_word_of_wrapping(line: _Node) -> _Node:
    """A statement without the comments above it that speak of wrapping."""
    lines = getattr(line, "leading_lines", None) or ()
    kept = [each for each in lines if not each.comment or not _WRAPPING.match(each.comment.value)]
    return line.with_changes(leading_lines=kept) if len(kept) < len(lines) else line


_WRAPPING = re.compile(r"#+\s*wrap(ping|s)?\b", re.IGNORECASE)
#: What only Determined's context is asked for, and where its classes come from.
_OLD = re.compile(
    r"context\.(wrap_|backward\(|step_optimizer\(|configure_apex|get_hparam|get_data_config"
    r"|get_experiment|get_per_slot|get_global_batch|get_trial|distributed\.|device\b|to_device\()"
    r"|\bdetermined\.(pytorch|experimental|tensorboard)\b|\b(from|import) determined\b"
)


def without_old_code(tree: cst.Module) -> cst.Module:
    """The file without code of Determined's in its comments, which nothing could run any more."""
    return syntax.transformed(tree, _Comments(_without_old_code))


def without_platform(node: cst.ClassDef) -> cst.ClassDef:
    """A class without comments that speak of Determined, with which it has nothing to do by now."""
    return syntax.transformed(node, _Comments(_without_platform))


#: Where comments stand that have lines of their own.
_WITH_COMMENTS = ("leading_lines", "lines_after_decorators", "header", "footer")


_Lines: TypeAlias = Sequence[cst.EmptyLine]


class _Comments(cst.CSTTransformer):
    shown_kinds = tuple(
        kind
        for kind in vars(cst).values()
        if isinstance(kind, type)
        and issubclass(kind, cst.CSTNode)
        and any(hasattr(kind, name) for name in _WITH_COMMENTS)
    )

    def __init__(self, change: Callable[[_Lines], Iterable[cst.EmptyLine]]) -> None:
        super().__init__()
        self._change = change

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        changes = {
            name: left
            for name in _WITH_COMMENTS
            if isinstance(lines := getattr(updated_node, name, None), Sequence)
            and (left := [*self._change(lines)]) != [*lines]
        }
        return updated_node.with_changes(**changes) if changes else updated_node


def _without_old_code(lines: Sequence[cst.EmptyLine]) -> Iterator[cst.EmptyLine]:
    was_blank = False
    for is_comment, group in groupby(lines, lambda line: _text(line) is not None):
        found = [*group]
        if is_comment:
            found = _without_old_parts([*_statements(found)])
            was_blank = was_blank and not found
        elif was_blank:
            # The blank lines above what has gone are there.
            continue
        else:
            was_blank = found[-1].comment is None
        yield from found


def _without_old_parts(parts: Sequence[_Lines]) -> list[cst.EmptyLine]:
    """What is left of a comment: neither old code, nor what goes on with what that imports."""
    left: list[_Lines] = []
    gone: set[str] = set()
    for part in parts:
        # What stands in brackets that are not closed is a part of something.
        is_part = bool(left) and (_text(left[-1][-1]) or "").rstrip().endswith(_OPEN)
        asked, bound = _names(part)
        if not is_part and (_is_old(part, len(parts)) or asked & gone):
            is_gone = asked & gone or _IMPORT.match(_text(part[0]) or "")
            gone |= bound if is_gone else set()
        else:
            left.append(part)
    # A heading alone has nothing below it any more.
    is_heading = bool(gone) and left == [*parts[:1]] and not _parses(parts[0])
    return [] if is_heading else [line for part in left for line in part]


_IMPORT = re.compile(r"^ *(from|import) determined\b")


def _names(lines: _Lines) -> tuple[set[str], set[str]]:
    """The variables that code in a comment asks for, and those that it sets or imports."""
    asked, bound = set[str](), set[str]()
    for node in ast.walk(_tree(lines) or ast.Module([], [])):
        if isinstance(node, ast.Name):
            (asked if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
    return asked, bound


#: What speaks of the platform, where it is not said that something is determined by something.
_PLATFORM = re.compile(r"\bDetermined\b(?! (by|from|as|in|at|to|through|with)\b)(?! */)")
#: What tools read, and where something comes from.
_KEPT = re.compile(r"noqa|type:|pylint|fmt:|isort|https?:|(?i:copyright|licen[sc]e|todo|fixme)")


def _without_platform(lines: _Lines) -> Iterator[cst.EmptyLine]:
    """Lines without the comments all of which is one sentence, or sentences, of Determined."""
    for is_comment, group in groupby(lines, lambda line: _text(line) is not None):
        found = [*group]
        said = sentences(" ".join((_text(line) or "").strip() for line in found))
        are_old = is_comment and all(map(_PLATFORM.search, said))
        if not are_old or any(_KEPT.search(_text(line) or "") for line in found):
            yield from map(_without_giver, found)


def _without_giver(line: cst.EmptyLine) -> cst.EmptyLine:
    """A line of a comment without the word that Determined has given what it speaks of."""
    text = line.comment.value if line.comment is not None else ""
    left = _GIVEN.sub("", text)
    return line.with_changes(comment=cst.Comment(left)) if left != text else line


_GIVEN = re.compile(r" (specified|given|provided|assigned|chosen|set) by Determined\b(?!['-])")
_SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[A-Z])")


def sentences(text: str) -> list[str]:
    """The sentences of a comment."""
    return _SENTENCE_END.split(text)


def _text(line: cst.EmptyLine) -> str | None:
    """What a comment says; None of a blank line, or a mark."""
    value = line.comment.value if line.comment is not None else MARK
    return None if value.startswith(MARK) else value.lstrip("#")


def _tree(lines: Sequence[cst.EmptyLine]) -> ast.Module | None:
    """The code that a comment is; None if it is none."""
    try:
        return ast.parse(textwrap.dedent("\n".join(_text(line) or "" for line in lines)))
    except SyntaxError:
        return None


def _parses(lines: Sequence[cst.EmptyLine]) -> bool:
    return _tree(lines) is not None


def _statements(lines: Sequence[cst.EmptyLine]) -> Iterator[Sequence[cst.EmptyLine]]:
    """The lines of each statement, with the block below it; a line that begins none by itself."""
    while lines:
        ends = range(1, min(len(lines), _LONGEST) + 1)
        end = next((end for end in ends if _parses(lines[:end])), 1)
        while end < len(lines) and _is_inside(lines[end], lines[0]) and _parses(lines[: end + 1]):
            end += 1
        yield lines[:end]
        lines = lines[end:]


_OPEN = ("(", "[", "{", ",")
#: How many lines a statement in a comment may have: to look further would take long.
_LONGEST = 12


def _is_inside(line: cst.EmptyLine, first: cst.EmptyLine) -> bool:
    texts = [_text(line) or "", _text(first) or ""]
    inner, outer = (len(text) - len(text.lstrip()) for text in texts)
    return inner > outer


def _is_old(lines: Sequence[cst.EmptyLine], parts: int) -> bool:
    """Whether some lines are Determined's code, or all that is said of it."""
    is_old = any(_OLD.search(_text(line) or "") for line in lines)
    is_sentence = re.fullmatch(r" *[A-Z].*\.", _text(lines[0]) or "") is not None
    if len(lines) == parts == 1 and _OF_WRAPPING.fullmatch(_text(lines[0]) or ""):
        return True
    return is_old and (_parses(lines) or (len(lines) == 1 and (parts == 1 or is_sentence)))


#: A heading of what was wrapped below it.
_OF_WRAPPING = re.compile(
    r" *(do )?(determined )?wrap(ping|s)?"
    r"( (of|the|and|models?|optimizers?|lr|schedulers?|reducers?))* *[.:]?",
    re.IGNORECASE,
)

"""Moves of what Lightning has moved to the device already."""

from __future__ import annotations

import re
from collections.abc import Collection

import libcst as cst

from det_compat.migrate.to_lightning.whole.flow import flow, stored
from det_compat.migrate.to_lightning.whole.parts import Parts, parsed
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above, comments_of, sentences


def without_moves(parts: Parts, batch: str, me: str, *, is_plain: bool = True) -> Parts:
    """The parts without moves of what Lightning has moved.

    Args:
        parts: of a validation.
        batch: what it calls a batch.
        me: what it calls the module.
        is_plain: whether ``cuda()`` moves to the device, and is no method of the project's.
    """
    names = {batch, *syntax.names_in(parts.target)}
    body: list[cst.BaseStatement] = []
    comments: list[cst.EmptyLine] = []
    for line in parts.body:
        was = parsed([line])
        small = syntax.simple(line)
        # A block may set a variable to what has not been moved, above a move of it.
        here = names if small is not None else names - flow(was).bound

        def unmoved(call: cst.Call, here: Collection[str] = here) -> cst.BaseExpression:
            return _unmoved(call, here, me, is_plain)

        def told(
            inner: cst.SimpleStatementLine, here: Collection[str] = here
        ) -> cst.SimpleStatementLine:
            moves = (_unmoved(c, here, me, is_plain) is not c for c in syntax.find(inner, cst.Call))
            return _without_word_of_moving(inner) if any(moves) else inner

        made = syntax.each(syntax.each(line, cst.SimpleStatementLine, told), cst.Call, unmoved)
        names -= set() if _is_idle(made) else flow(parsed([made])).bound
        if isinstance(small, cst.Assign) and not _is_idle(made):
            values = syntax.parts(syntax.simple(made).value)  # type: ignore[union-attr]
            if all(_root(value) in here for value in values):
                names |= {name for each in was for name in stored(each)}
        if _is_idle(made):
            comments += [each for each in comments_of(line) if not _is_of_moving(each)]
            continue
        body.append(above(made, comments))
        comments = []
    return Parts(parts.before, body, parts.after, parts.target, parts.index)


def _is_of_moving(line: cst.EmptyLine) -> bool:
    return line.comment is not None and _MOVING.search(line.comment.value) is not None


_MOVING = re.compile(r"\b(move|moving|send|gpu|cuda|device|cpu)", re.IGNORECASE)


def _without_word_of_moving(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
    """A statement without the comment above it that only says that it moves something."""
    text = " ".join(each.comment.value.lstrip("# ") for each in comments_of(line) if each.comment)
    if not text or not all(map(_TO_DEVICE.search, sentences(text))):
        return line
    return line.with_changes(leading_lines=[e for e in line.leading_lines if e.comment is None])


_TO_DEVICE = re.compile(
    r"\b(pass|mov|send|put|copy|transfer)\w*\b.{0,40}\b(to|on|onto) (the )?(gpu|cuda|device)\b",
    re.IGNORECASE,
)


def _unmoved(call: cst.Call, names: Collection[str], me: str, is_plain: bool) -> cst.BaseExpression:
    """What a call moves, if that is a part of the batch."""
    func = call.func
    if is_plain and isinstance(func, cst.Attribute) and _root(func.value) in names:
        asked = f"{func.attr.value}({', '.join(syntax.code(arg.value) for arg in call.args)})"
        is_all = asked in ("cuda()", "to('cuda')", 'to("cuda")', f"to({me}.device)")
        return func.value if is_all and not any(arg.star for arg in call.args) else call
    given = call.args[0].value if len(call.args) == 3 else None
    move = f"{me}.transfer_batch_to_device"
    is_move = given is not None and syntax.code(call.func) == move
    return given if given is not None and is_move and _root(given) in names else call


def _root(value: cst.BaseExpression) -> str:
    """The variable that an expression is a part of; ``""`` if it is anything else."""
    # Lightning looks into dicts and sequences, and not at the attributes of all that there is.
    while isinstance(value, cst.Subscript):
        value = value.value
    return value.value if isinstance(value, cst.Name) else ""


def _is_idle(line: cst.BaseStatement) -> bool:
    """Whether a statement sets variables to themselves."""
    small = syntax.simple(line)
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return False
    target, value = small.targets[0].target, small.value
    codes = [[syntax.code(part) for part in syntax.parts(each)] for each in (target, value)]
    return codes[0] == codes[1]

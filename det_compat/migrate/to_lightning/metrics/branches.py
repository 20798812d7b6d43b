"""Validations that return what one of several methods finds: one call logs it below all of them."""

from collections.abc import Collection, Sequence

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above

_NAME = "metrics"


def joined(method: cst.FunctionDef) -> cst.FunctionDef:
    """A method that returns at its end what the branches of its last ``if`` have returned.

    It stays as it is where one of them returns anything but a call, or returns before its end.
    """
    body = [*syntax.body_of(method)]
    is_over = len(body) > 1 and _is_bare(body[-1])
    body = body[:-1] if is_over else body
    last = body[-1] if body else None
    taken = {*syntax.names_in(method)}
    if not isinstance(last, cst.If) or last.orelse is None or _NAME in taken:
        return method
    made = _assigning(last)
    if not isinstance(made, cst.If):
        return method
    return syntax.with_body(method, [*body[:-1], made, syntax.statement(f"return {_NAME}")])


def _is_bare(line: cst.BaseStatement) -> bool:
    small = syntax.simple(line)
    return isinstance(small, cst.Return) and syntax.code(small.value or cst.Name("None")) == "None"


def _assigning(branch: cst.If | cst.Else) -> cst.If | cst.Else | None:
    """A branch, with those behind it, that keeps what it has returned; None for another one."""
    *before, last = syntax.body_of(branch)
    value = getattr(syntax.simple(last), "value", None)
    if not isinstance(syntax.simple(last), cst.Return) or not isinstance(value, cst.Call):
        return None
    if syntax.returns_in(before):
        return None
    kept = syntax.statement(f"{_NAME} = {syntax.code(value)}")
    line = above(kept, getattr(last, "leading_lines", ()))
    made = syntax.with_body(branch, [*before, line])
    if isinstance(branch, cst.Else):
        return made
    if branch.orelse is None:
        return made.with_changes(orelse=cst.Else(cst.IndentedBlock(syntax.statements("return\n"))))
    rest = _assigning(branch.orelse)
    return None if rest is None else made.with_changes(orelse=rest)


def without_last(
    body: Sequence[cst.BaseStatement], ends: Collection[cst.BaseStatement]
) -> list[cst.BaseStatement]:
    """The statements of a method without those of ``ends`` behind which it ends anyway."""
    if not body:
        return []
    *first, last = body
    if isinstance(last, cst.If):
        last = _in_branches(last, ends)
    return [*first, *([] if last in ends else [last])]


def _in_branches(node: cst.If, ends: Collection[cst.BaseStatement]) -> cst.If:
    other = node.orelse
    if isinstance(other, cst.If):
        other = _in_branches(other, ends)
    elif other is not None:
        other = other.with_changes(body=_in_block(other.body, ends))
    return node.with_changes(body=_in_block(node.body, ends), orelse=other)


def _in_block(block: cst.BaseSuite, ends: Collection[cst.BaseStatement]) -> cst.BaseSuite:
    if not isinstance(block, cst.IndentedBlock):
        return block
    return block.with_changes(body=without_last(block.body, ends))

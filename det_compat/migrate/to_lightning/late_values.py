"""Attributes that ``__init__`` sets to what is only known when there is a Trainer."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.tree.file import TrialPlan
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.syntax import (
    body_of,
    code,
    find,
    names_in,
    self_name,
    simple,
    statement,
    target_of,
)

_SIZES = ("distributed.get_size", "distributed.size", "get_per_slot_batch_size")
_LATE = frozenset(("device", "get_tensorboard_writer", *_SIZES))


def late_values(
    init: cst.FunctionDef, own: dict[str, cst.FunctionDef], plan: TrialPlan, symbols: Symbols
) -> tuple[list[int], list[cst.BaseStatement]]:
    """The statements of ``__init__`` to leave out, and the properties in their place.

    An attribute becomes a property if nothing else sets it, nothing that runs before there is a
    Trainer reads it, and its value needs nothing but the trial.
    """
    me, body = self_name(init), body_of(init)
    local = {n for t in find(init.body, cst.AssignTarget) for n in names_in(t.target)} - {me}
    local |= {p.name.value for p in init.params.params[1:]}
    indices: list[int] = []
    made: list[cst.BaseStatement] = []
    for index, line in enumerate(body):
        value, target = getattr(simple(line), "value", None), target_of(line) or ""
        attribute = target.removeprefix(f"{me}.")
        if value is None or target == attribute or not attribute.isidentifier():
            continue
        if not _is_late(value, symbols) or names_in(value) & local:
            continue
        early = [other for other in body if other is not line]
        early += [own[name] for name in plan.early - {"__init__"} if name in own]
        if any(_reads(node, attribute) for node in early) or _sets(own, init, attribute):
            continue
        indices.append(index)
        made.append(_property(attribute, value, me))
    return indices, made


def _is_late(value: cst.BaseExpression, symbols: Symbols) -> bool:
    found = (symbols.member(node) for node in find(value, cst.Attribute))
    return any(member is not None and member[1] in _LATE for member in found)


def _reads(node: cst.CSTNode, attribute: str) -> bool:
    return any(found.attr.value == attribute for found in find(node, cst.Attribute))


def _sets(own: dict[str, cst.FunctionDef], init: cst.FunctionDef, attribute: str) -> bool:
    others = [method for method in own.values() if method.name.value != init.name.value]
    targets: list[cst.CSTNode] = []
    for method in others:
        targets += [node.target for node in find(method, cst.AssignTarget)]
        targets += [node.target for node in find(method, cst.AugAssign)]
        targets += [node.target for node in find(method, cst.AnnAssign)]
    return any(_reads(target, attribute) for target in targets)


def _property(attribute: str, value: cst.BaseExpression, me: str) -> cst.BaseStatement:
    made = statement(f"@property\ndef {attribute}({me}):\n    return {code(value)}\n")
    return made.with_changes(leading_lines=[cst.EmptyLine(indent=False)])

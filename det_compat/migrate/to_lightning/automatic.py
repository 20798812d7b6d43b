"""Whether a train_batch is what Lightning's automatic optimization does."""

from __future__ import annotations

import itertools

import libcst as cst

from det_compat.migrate.tree.file import TrialPlan
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.syntax import (
    argument,
    body_of,
    call_of,
    code,
    find,
    mentions,
    methods,
    names_in,
    self_name,
    simple,
)


def is_automatic(node: cst.ClassDef, symbols: Symbols, plan: TrialPlan) -> bool:
    """Whether one optimizer is stepped right after one backward, in straight-line code."""
    own = methods(node)
    method = own.get("train_batch")
    if method is None or len(plan.optimizers) != 1 or _uses(node, symbols, "wrap_optimizer") != 1:
        return False
    if not all(schedule.interval for schedule in plan.schedulers):
        return False
    if _uses(node, symbols, "backward") != 1 or _uses(node, symbols, "step_optimizer") != 1:
        return False
    if any(name.startswith("*") for name in (plan.optimizers[0], *_attributes(plan))):
        return False
    attribute = f"{self_name(method)}.{plan.optimizers[0]}"
    if _is_used_elsewhere(own, attribute):
        return False
    place = place_of_step(method, symbols)
    return place is not None and _is_simple(own, place, symbols, attribute)


def _attributes(plan: TrialPlan) -> list[str]:
    return [schedule.attribute for schedule in plan.schedulers]


def place_of_step(method: cst.FunctionDef, symbols: Symbols) -> int | None:
    """The index of the statement that calls backward, if the next one steps."""
    called = [_called(line, symbols) for line in body_of(method)]
    for index, pair in enumerate(itertools.pairwise(called)):
        if pair == ("backward", "step_optimizer"):
            return index
    return None


def _called(line: cst.BaseStatement, symbols: Symbols) -> str:
    if not isinstance(simple(line), cst.Expr):
        return ""
    found = symbols.called(call_of(line))
    return found[1] if found else ""


def _uses(node: cst.CSTNode, symbols: Symbols, member: str) -> int:
    found = (symbols.member(attribute) for attribute in find(node, cst.Attribute))
    return sum(pair is not None and pair[1] == member for pair in found)


def _is_used_elsewhere(own: dict[str, cst.FunctionDef], attribute: str) -> bool:
    others = (m for name, m in own.items() if name not in ("__init__", "train_batch"))
    if any(mentions(method, attribute) for method in others):
        return True
    return sum(code(n) == attribute for n in find(own["train_batch"], cst.Attribute)) != 1


def _is_simple(
    own: dict[str, cst.FunctionDef], place: int, symbols: Symbols, attribute: str
) -> bool:
    method = own["train_batch"]
    body = body_of(method)
    backward, step = call_of(body[place]), call_of(body[place + 1])
    assert backward is not None and step is not None
    optimizer, clip = argument(step, 0, "optimizer"), argument(step, 1, "clip_grads")
    zero = argument(step, 2, "auto_zero_grads")
    if len(backward.args) != 1:
        return False
    loss = backward.args[0].value
    if not isinstance(loss, cst.Name) and "loss" in names_in(method.body):
        return False
    if optimizer is None or code(optimizer) != attribute or argument(step, 3, "scaler"):
        return False
    if zero is not None and code(zero) != "True":
        return False
    if clip is not None and names_in(clip) & _locals(method):
        return False
    return _ends_plainly(own, place, symbols)


def _locals(method: cst.FunctionDef) -> set[str]:
    given = (p.name.value for p in method.params.params[1:])
    targets = (t.target for t in find(method.body, cst.AssignTarget))
    return {*given, *(name for t in targets for name in names_in(t))}


def _ends_plainly(own: dict[str, cst.FunctionDef], place: int, symbols: Symbols) -> bool:
    method = own["train_batch"]
    after = body_of(method)[place + 2 :]
    returns = [found for line in after for found in find(line, cst.Return)]
    if len(returns) != 1 or not after or not isinstance(simple(after[-1]), cst.Return):
        return False
    # what comes after the step must not see that Lightning steps later
    known = {f"{self_name(method)}.{name}" for name, other in own.items() if _is_function(other)}
    return not any(
        _uses_self(line, self_name(method), known)
        or any(map(symbols.is_context, find(line, cst.Name)))
        for line in after
    )


def _is_function(method: cst.FunctionDef) -> bool:
    """Whether a method depends on nothing but what else it is given."""
    is_plain = not method.decorators and bool(method.params.params)
    return is_plain and self_name(method) not in names_in(method.body)


def _uses_self(line: cst.BaseStatement, own_name: str, known: set[str]) -> bool:
    every = sum(name.value == own_name for name in find(line, cst.Name))
    return every > sum(code(call.func) in known for call in find(line, cst.Call))

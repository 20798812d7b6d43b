"""What a trial has set or wrapped for sure by the time that something else is done."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import libcst as cst

from det_compat.migrate.to_lightning.class_facts import WrappedModel, WrappedReducer
from det_compat.migrate.to_lightning.plan import TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.trial_attributes import values_set

_Made = TypeVar("_Made", WrappedModel, WrappedReducer)


def surely(
    found: Iterable[_Made],
    plan: TrialPlan,
    own: Mapping[str, cst.FunctionDef],
    *starts: str,
) -> list[_Made]:
    """What a class wraps, of which it lacks nothing that some of its methods, or theirs, make.

    Args:
        found: what it wraps.
        plan: what becomes of it.
        own: its methods.
        starts: those that have run.
    """
    # An heir may have other methods.
    methods = [own[name] for name in starts if name in own and plan.is_whole]
    every = [pair for method in own.values() for pair in values_set(method)]
    none = {syntax.code(target) for target, value in every if syntax.code(value) == "None"}

    def lacks(each: _Made) -> bool:
        targets = [f"{syntax.self_name(method)}.{each.attribute}" for method in methods]
        is_there = none.isdisjoint(targets) and any(
            is_set(syntax.body_of(method), target, own)
            for method, target in zip(methods, targets, strict=True)
        )
        return each.may_lack and not is_there

    return [replace(each, may_lack=lacks(each)) for each in found]


def is_set(
    lines: Iterable[cst.BaseStatement],
    target: str,
    own: Mapping[str, cst.FunctionDef],
    above: tuple[str, ...] = (),
) -> bool:
    """Whether lines that run one after the other are sure to set something."""
    for line in lines:
        if syntax.target_of(line) == target:
            return True
        if isinstance(line, cst.With) and is_set(syntax.body_of(line), target, own, above):
            return True
        if isinstance(line, cst.If) and all(
            is_set(part, target, own, above) for part in _branches(line)
        ):
            return True
        call = syntax.call_of(line)
        owner, _, name = syntax.code(call.func).rpartition(".") if call is not None else ("",) * 3
        if (
            name in own
            and name not in above
            and owner == target.partition(".")[0]
            and is_set(syntax.body_of(own[name]), target, own, (*above, name))
        ):
            return True
        if syntax.returns_in([line]):
            return False
    return False


def _branches(node: cst.If) -> Iterator[Sequence[cst.BaseStatement]]:
    """The lines of each branch; none for the one that is not there."""
    yield syntax.body_of(node)
    if isinstance(node.orelse, cst.If):
        yield from _branches(node.orelse)
    else:
        yield syntax.body_of(node.orelse) if node.orelse is not None else ()

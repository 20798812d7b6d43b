"""What a trial has wrapped for sure by the time that something else is done."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import libcst as cst

from det_compat.migrate.to_lightning.class_facts import WrappedModel, WrappedReducer
from det_compat.migrate.to_lightning.optimization.kept import block, kept_by
from det_compat.migrate.to_lightning.plan import TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols

_Made = TypeVar("_Made", WrappedModel, WrappedReducer)


def surely(
    found: Iterable[_Made],
    plan: TrialPlan,
    own: Mapping[str, cst.FunctionDef],
    symbols: Symbols,
    *starts: str,
) -> list[_Made]:
    """What a class wraps, of which it lacks nothing that some of its methods, or theirs, make.

    Args:
        found: what it wraps.
        plan: what becomes of it.
        own: its methods.
        symbols: what placeholders stand for.
        starts: the methods.
    """
    # An heir may have other methods.
    made = _surely_kept(own, symbols, starts) if plan.is_whole else set[str]()
    return [
        replace(each, may_lack=False) if each.attribute.removeprefix("*") in made else each
        for each in found
    ]


def _surely_kept(
    own: Mapping[str, cst.FunctionDef], symbols: Symbols, starts: Sequence[str]
) -> set[str]:
    """The attributes that keep what was wrapped once some methods have run, however they went.

    Args:
        own: the methods of a class that is no base of others.
        symbols: what placeholders stand for.
        starts: the methods.
    """
    names = [name for name in starts if name in own]
    for name in names:
        calls = (c for n in _before_returns(own[name]) for c in _called_at_once(n))
        called = (syntax.code(call.func) for call in calls)
        prefix = f"{syntax.self_name(own[name])}."
        every = (each.removeprefix(prefix) for each in called if each.startswith(prefix))
        names.extend(each for each in every if each in own and each not in names)
    return {
        wrapping.attribute
        for name in names
        for line, wrapping in kept_by(own[name], symbols)
        if not wrapping.is_branch
        and any(line in _lines_of(each) for each in _before_returns(own[name]))
    }


def _before_returns(method: cst.FunctionDef) -> Iterator[cst.BaseStatement]:
    """The statements of a method up to the first that may end it."""
    for line in syntax.body_of(method):
        yield line
        if any(syntax.find(line, cst.Return)):
            return


def _called_at_once(line: cst.BaseStatement) -> Iterator[cst.Call]:
    """The calls of a statement that is no block, or of a block that ``with`` begins."""
    if isinstance(line, cst.With):
        yield from (call for each in block(line.body) for call in _called_at_once(each))
    elif (call := syntax.call_of(line)) is not None:
        yield call


def _lines_of(line: cst.BaseStatement) -> list[cst.BaseStatement]:
    return [*syntax.find(line, cst.SimpleStatementLine)]

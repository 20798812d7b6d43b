"""Where a trial keeps what its context wraps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.syntax import call_of, code, find, simple, target_of

_CASTS = ("cast", "typing.cast")


@dataclass(frozen=True)
class Wrapping:
    """A call that wraps something, and the attribute that keeps it.

    Attributes:
        member: ``wrap_optimizer``, for example.
        call: the call.
        attribute: without ``self.``.
        is_list: whether the attribute is a list of such.
        loop: what the list is made from, as in ``i in range(3)``; ``""`` if it is no comprehension.
    """

    member: str
    call: cst.Call
    attribute: str
    is_list: bool = False
    loop: str = ""


def wrappings(method: cst.FunctionDef, symbols: Symbols) -> Iterator[Wrapping]:
    """What a method wraps and keeps on its object."""
    for line in find(method, cst.SimpleStatementLine):
        small, target = simple(line), target_of(line)
        if target is not None and "." in target:
            value = getattr(small, "value", None)
            yield from _assigned(value, target.partition(".")[2], symbols)
        elif isinstance(small, cst.Expr):
            yield from _appended(call_of(small), symbols)


def _assigned(
    value: cst.BaseExpression | None, attribute: str, symbols: Symbols
) -> Iterator[Wrapping]:
    call, found = _wrap(value, symbols)
    if call is not None:
        yield Wrapping(found, call, attribute)
    elif isinstance(value, cst.ListComp):
        call, found = _wrap(value.elt, symbols)
        inner = value.for_in
        if call is not None:
            loop = f"{code(inner.target)} in {code(inner.iter)}"
            is_plain = not inner.ifs and inner.inner_for_in is None
            yield Wrapping(found, call, attribute, True, loop if is_plain else "")
    elif isinstance(value, (cst.List, cst.Tuple)):
        for element in value.elements:
            call, found = _wrap(element.value, symbols)
            if call is not None:
                yield Wrapping(found, call, attribute, True)


def _appended(call: cst.Call | None, symbols: Symbols) -> Iterator[Wrapping]:
    func = call.func if call is not None else None
    if call is None or not isinstance(func, cst.Attribute) or func.attr.value != "append":
        return
    wrap, found = _wrap(call.args[0].value if call.args else None, symbols)
    owner = code(func.value)
    if wrap is not None and "." in owner:
        yield Wrapping(found, wrap, owner.partition(".")[2], True)


def _wrap(value: cst.BaseExpression | None, symbols: Symbols) -> tuple[cst.Call | None, str]:
    """The call that wraps, without a cast around it, and the member that is called."""
    if isinstance(value, cst.Call) and code(value.func) in _CASTS and len(value.args) == 2:
        value = value.args[1].value
    found = symbols.called(value)
    if found is None or not isinstance(value, cst.Call):
        return None, ""
    return (value, found[1]) if found[1].rpartition(".")[2].startswith("wrap_") else (None, "")

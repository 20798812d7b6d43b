"""What ``__init__`` changes behind statements that are to move elsewhere."""

from collections.abc import Sequence

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols


def is_changed_later(
    body: Sequence[cst.BaseStatement],
    moved: Sequence[cst.BaseStatement],
    early: Sequence[cst.FunctionDef],
    symbols: Symbols,
) -> bool:
    """Whether ``__init__`` gives what statements read another value behind them.

    A parameter that asks for no gradient any more is such a value, too, where they look.
    """
    made = {syntax.target_of(line) or "" for line in moved}
    for at, line in enumerate(body):
        if line not in moved:
            continue
        after = [n for n in body[at:] if n not in moved and not _is_same_model(n, symbols)]
        called = [m for m in early if any(m.name.value in syntax.code(n) for n in after)]
        changing: list[cst.CSTNode] = [*after, *called]
        if _FREEZES in syntax.code(line) and any(_FREEZES in syntax.code(n) for n in changing):
            return True
        targets = [each.target for n in changing for each in syntax.find(n, cst.AssignTarget)]
        targets += [each.target for n in changing for each in syntax.find(n, cst.AugAssign)]
        changed = {syntax.code(part) for target in targets for part in syntax.parts(target)}
        read = {syntax.code(node) for node in syntax.find(line, cst.Attribute)} - made
        if any(_overlap(one, other) for one in changed if "." in one for other in read):
            return True
    return False


_FREEZES = "requires_grad"


def _overlap(one: str, other: str) -> bool:
    """Whether one of two dotted names is, or is a part of, what the other names."""
    short, long = sorted((one, other), key=len)
    return long == short or long.startswith((f"{short}.", f"{short}["))


def _is_same_model(line: cst.BaseStatement, symbols: Symbols) -> bool:
    """Whether a statement wraps the model that its target is already."""
    return symbols.method(syntax.call_of(line)) == "wrap_model" and wraps_itself(line)


def wraps_itself(line: cst.BaseStatement) -> bool:
    """Whether a statement wraps what its own target is by then."""
    call = syntax.call_of(line)
    return (
        call is not None
        and bool(call.args)
        and syntax.target_of(line) == syntax.code(call.args[0].value)
    )

"""What the statements of a script are, as far as those that train are concerned."""

from collections.abc import Sequence

import libcst as cst

from det_compat.migrate.to_lightning.scripts.one_place import TRAINER
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line
from det_compat.migrate.tree.symbols import Symbols


def calls(line: cst.BaseStatement, func: str) -> bool:
    """Whether a statement is a call of this alone."""
    call = syntax.lone_call(line)
    return call is not None and syntax.code(call.func) == func


def is_kept(trial: cst.BaseExpression) -> bool:
    """Whether a trial can be named again."""
    return isinstance(trial, (cst.Name, cst.Attribute))


def names_in(lines: Sequence[cst.BaseStatement]) -> set[str]:
    """The names in some statements."""
    return {name for line in lines for name in syntax.names_in(line)}


def is_off(line: cst.BaseStatement, func: str) -> bool:
    """Whether a statement calls this to turn something off."""
    call = syntax.lone_call(line)
    enabled = syntax.argument(call, 0, "enabled") if call is not None else None
    return calls(line, func) and is_text(enabled, "False")


def is_fit(node: cst.Call) -> bool:
    """Whether a call is one of a method ``fit``."""
    return isinstance(node.func, cst.Attribute) and node.func.attr.value == "fit"


def is_given_to_fit(length: cst.Call, call: cst.Call) -> bool:
    """Whether a period or length is an argument of ``fit()``, or what a period is chosen from."""
    given = (arg for arg in call.args if any(node is length for node in syntax.find(arg, cst.Call)))
    return is_fit(call) and any(
        arg.value is length or (arg.keyword is not None and arg.keyword.value != "max_length")
        for arg in given
    )


def has_trainer(line: cst.BaseStatement, symbols: Symbols) -> bool:
    """Whether a statement makes a Trainer of Determined's somewhere."""
    return any(symbols.path(call.func) == TRAINER for call in syntax.find(line, cst.Call))


def is_trainer(line: cst.BaseStatement, symbols: Symbols) -> bool:
    """Whether a statement only makes such a Trainer."""
    call = syntax.call_of(line) if isinstance(line, Line) else None
    return call is not None and symbols.path(call.func) == TRAINER


def is_text(value: cst.BaseExpression | None, *texts: str | None) -> bool:
    """Whether an expression is written as one of these; None is for no expression."""
    return (None if value is None else syntax.code(value)) in texts

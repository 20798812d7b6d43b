"""What the statements of a script are, as far as those that train are concerned."""

from collections.abc import Collection, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.script_contexts.one_place import TRAINER
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.transformers import with_more
from det_compat.migrate.tree.walking import below


def calls(line: cst.BaseStatement, func: str) -> bool:
    """Whether a statement is a call of this alone."""
    call = syntax.lone_call(line)
    return call is not None and syntax.code(call.func) == func


def is_once(line: Line, block: cst.BaseStatement) -> bool:
    """Whether a statement is this one, or runs once at most in it, if it runs."""
    repeated = (cst.For, cst.While, cst.FunctionDef, cst.ClassDef)
    others = (each for kind in repeated for each in syntax.find(block, kind))
    return line in below(block) and not any(line in below(each) for each in others)


def is_kept(trial: cst.BaseExpression) -> bool:
    """Whether a trial can be named again."""
    return isinstance(trial, (cst.Name, cst.Attribute))


def kept_apart(
    lines: Sequence[cst.BaseStatement], taken: Collection[str], symbols: Symbols
) -> list[cst.BaseStatement]:
    """The statements with each trial in a variable that is to be validated before it trains.

    Args:
        lines: of one block.
        taken: the names of the file.
        symbols: of the file.
    """
    name = next((each for each in ("trial", "module") if each not in taken), "")
    if not name or not any("step_zero_validation" in syntax.code(line) for line in lines):
        return [*lines]
    made: list[cst.BaseStatement] = []
    for line in lines:
        inside = syntax.find(line, cst.Call) if isinstance(line, Line) else ()
        trainers = [call for call in inside if symbols.path(call.func) == TRAINER]
        trial = syntax.argument(trainers[0], 0, "trial") if len(trainers) == 1 else None
        if isinstance(trial, cst.Call):
            first = syntax.statement(f"{name} = {syntax.code(trial)}")
            made.append(above(first, getattr(line, "leading_lines", ())))
            line = syntax.with_node(line, trial, cst.Name(name)).with_changes(leading_lines=())
        made.append(line)
    return made


def names_in(lines: Sequence[cst.BaseStatement]) -> set[str]:
    """The names in some statements."""
    return {name for line in lines for name in syntax.names_in(line)}


def with_profiling(call: cst.Call, profiled: Sequence[cst.Call | None]) -> cst.Call:
    """A call of ``fit()`` that is told what ``configure_profiler()`` was, as in Determined 0.38."""
    enabled = [syntax.argument(each, 1, "enabled") for each in profiled if each is not None]
    if not enabled or enabled[-1] is None:
        return call
    arg = cst.Arg(enabled[-1], keyword=cst.Name("profiling_enabled"))
    return with_more(call, [arg])


def told_at_once(line: cst.BaseStatement) -> cst.BaseStatement:
    """``if asked: trainer.configure_profiler(enabled=True)`` as one call that is told."""
    inner = syntax.body_of(line) if isinstance(line, cst.If) and line.orelse is None else ()
    call = syntax.lone_call(inner[0]) if len(inner) == 1 else None
    if not isinstance(line, cst.If) or call is None:
        return line
    enabled = syntax.argument(call, 1, "enabled")
    is_it = syntax.code(call.func).endswith(".configure_profiler")
    if not is_it or enabled is None or not is_text(enabled, "True"):
        return line
    made = syntax.with_node(inner[0], enabled, line.test)
    return made.with_changes(leading_lines=line.leading_lines)


def profiler(enabled: cst.BaseExpression | None) -> list[str]:
    """The argument of ``pl.Trainer`` by which it profiles, if that is enabled."""
    if is_text(enabled, "False", None):
        return []
    is_sure = is_text(enabled, "True")
    condition = "" if is_sure or enabled is None else f" if {syntax.code(enabled)} else None"
    return [f'profiler="simple"{condition}']


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

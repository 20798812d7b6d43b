"""What clips gradients, where a variable has it: it is given to the step as it is."""

from collections.abc import Sequence

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above, comments_of
from det_compat.migrate.tree.symbols import Symbols


def give_clips(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Give ``clip_grads=f if asked else None`` where a variable was set to one of these before.

    Lightning clips in a method of its own, which has no variables of ``train_batch``.
    """

    def given(function: cst.FunctionDef) -> cst.FunctionDef:
        if not symbols.calls(function, "step_optimizer"):
            return function
        return syntax.transformed(function, _Giving(function, symbols))

    return syntax.each(tree, cst.FunctionDef, given)


class _Giving(cst.CSTTransformer):
    def __init__(self, function: cst.FunctionDef, symbols: Symbols) -> None:
        super().__init__()
        self._uses = [name.value for name in syntax.find(function, cst.Name)]
        self._symbols = symbols

    def leave_IndentedBlock(
        self, original: cst.IndentedBlock, updated: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        lines = [*updated.body]
        for step in updated.body:
            lines = self._without_variable(lines, lines.index(step)) if step in lines else lines
        return updated.with_changes(body=lines)

    def _without_variable(self, lines: list[cst.BaseStatement], at: int) -> list[cst.BaseStatement]:
        """The statements with what clips in the step at this index, if a variable had it."""
        call = syntax.lone_call(lines[at])
        is_step = call is not None and self._symbols.method(call) == "step_optimizer"
        clip = syntax.argument(call, 1, "clip_grads") if call is not None and is_step else None
        if call is None or not isinstance(clip, cst.Name):
            return lines
        name = clip.value
        setting = [i for i in range(at) if name in _names(lines[i])]
        used = sum(_names(lines[i]).count(name) for i in setting)
        value = _value([lines[i] for i in setting], name)
        # What comes between may change what the condition asks for.
        behind = lines[setting[-1] + 1 : at] if setting else []
        are_plain = all(self._symbols.method(syntax.lone_call(e)) == "backward" for e in behind)
        if value is None or not are_plain or self._uses.count(name) != used + 1:
            return lines
        step = syntax.with_node(lines[at], clip, value)
        comments = [comment for i in setting for comment in comments_of(lines[i])]
        kept = [line for i, line in enumerate(lines[:at]) if i not in setting]
        return [*kept, above(step, comments), *lines[at + 1 :]]


def _names(line: cst.BaseStatement) -> list[str]:
    return [name.value for name in syntax.find(line, cst.Name)]


def _value(lines: Sequence[cst.BaseStatement], name: str) -> cst.BaseExpression | None:
    """What these statements set a variable to, as one expression; None for anything else."""
    first = _set(lines[0], name) if lines else None
    if len(lines) == 1 and first is not None:
        return first if isinstance(first, (cst.Lambda, cst.IfExp)) and _is_plain(first) else None
    last = lines[-1] if lines else None
    other = last.orelse if isinstance(last, cst.If) else None
    if len(lines) == 1 and isinstance(other, cst.Else):
        [*before] = syntax.body_of(other)
        first = _set(before[0], name) if len(before) == 1 else None
    elif len(lines) != 2 or other is not None:
        return None
    inner = syntax.body_of(last) if isinstance(last, cst.If) else ()
    value = _set(inner[0], name) if len(inner) == 1 else None
    if not isinstance(last, cst.If) or value is None or not syntax.is_name(first, "None"):
        return None
    made = cst.IfExp(test=last.test, body=_whole(value), orelse=cst.Name("None"))
    return made if _is_plain(made) else None


def _set(line: cst.BaseStatement, name: str) -> cst.BaseExpression | None:
    """What a statement sets a variable to, and does no more."""
    small = syntax.simple(line)
    is_it = isinstance(small, cst.Assign) and syntax.target_of(line) == name
    return small.value if isinstance(small, cst.Assign) and is_it else None


def _is_plain(value: cst.BaseExpression) -> bool:
    """Whether it is the same a little later: it calls nothing but below a lambda."""
    if isinstance(value, cst.IfExp):
        return _is_plain(value.test) and _is_plain(value.body) and _is_plain(value.orelse)
    return isinstance(value, cst.Lambda) or not any(syntax.find(value, cst.Call))


def _whole(value: cst.BaseExpression) -> cst.BaseExpression:
    if not isinstance(value, cst.Lambda) or value.lpar:
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])

"""What ``__init__`` prints or logs of the processes that there are, and of their device."""

from collections.abc import Iterator

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.class_facts import SIZES
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.walking import has

_TELLING = words("print debug info warning")
#: What a context says of the process that asks.
RANKS = {f"distributed.{get}{name}" for get in ("", "get_") for name in ("rank", "local_rank")}
_LATE = SIZES | {"device"}
_KNOWN = _LATE | RANKS | words("get_hparam get_hparams get_global_batch_size")
#: Lightning moves a module, whose device it is then, after it has called ``setup``.
_DEVICE = "self.trainer.strategy.root_device"


def told_later(
    init: cst.FunctionDef, symbols: Symbols
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """The statements of ``__init__`` that only tell what a Trainer knows, and what tells it later.

    With them go the variables that nothing else asks.
    """
    body = syntax.body_of(init)
    answers = {name: line for line in body if (name := _answered(line, init, symbols))}
    local = syntax.local_names(init) - {syntax.self_name(init)} - answers.keys()
    gone: list[cst.BaseStatement] = []
    told: list[cst.BaseStatement] = []
    for line in body:
        asked = line
        for name, answer in answers.items():
            call = syntax.simple(answer)
            assert isinstance(call, cst.Assign)
            asked = syntax.replaced(asked, name, syntax.code(call.value))
        if _tells(asked, symbols) and not syntax.names_in(asked) & local:
            gone.append(line)
            told.append(_with_device(asked, symbols))
    left = [line for line in body if line not in gone]
    was = {name for line in gone for name in syntax.names_in(line)}
    idle = [line for name, line in answers.items() if name in was and _uses(name, left) == 1]
    return [*gone, *idle], told


def apart(init: cst.FunctionDef, symbols: Symbols) -> cst.FunctionDef:
    """An ``__init__`` that asks for one thing a statement, each of which may be told later."""

    lines: list[cst.BaseStatement] = []
    for line in syntax.body_of(init):
        small = syntax.simple(line)
        is_several = isinstance(small, cst.Assign) and isinstance(small.value, cst.Tuple)
        pairs = [*syntax.pairs(small)] if isinstance(small, cst.Assign) and is_several else []
        found = [symbols.called(value) or symbols.member(value) for _, value in pairs]
        is_asked = bool(pairs) and all(each and each[1] in _LATE | RANKS for each in found)
        made = [cst.SimpleStatementLine([syntax.assignment(*pair)]) for pair in pairs]
        lines += [line.with_changes(body=made[0].body), *made[1:]] if is_asked else [line]
    return syntax.with_body(init, lines)


def _uses(name: str, lines: list[cst.BaseStatement]) -> int:
    return sum(each.value == name for line in lines for each in syntax.find(line, cst.Name))


def _answered(line: cst.BaseStatement, init: cst.FunctionDef, symbols: Symbols) -> str:
    """The variable that a statement sets, and no other, to what the context says of a process."""
    small, name = syntax.simple(line), syntax.target_of(line) or ""
    if not isinstance(small, cst.Assign) or not name.isidentifier():
        return ""
    member = symbols.called(small.value) or symbols.member(small.value)
    targets = [syntax.code(each.target) for each in syntax.find(init, cst.AssignTarget)]
    is_one = member is not None and member[1] in _LATE | RANKS and targets.count(name) == 1
    return name if is_one else ""


def _tells(line: cst.BaseStatement, symbols: Symbols) -> bool:
    """Whether a statement prints or logs how many processes there are, or their device.

    It may do so under conditions, of the rank for example.
    """
    calls = [syntax.lone_call(each) for each in _below_conditions(line)]
    names = {"" if call is None else syntax.code(call.func).rpartition(".")[2] for call in calls}
    members = [symbols.member(node) for node in syntax.find(line, cst.Attribute)]
    asked = {found[1] for found in members if found is not None} - {"distributed"}
    # What has no counterpart is marked where it stands.
    is_known = bool(asked & _LATE) and asked <= _KNOWN
    return is_known and names <= _TELLING and not has(line, cst.NamedExpr, cst.Await)


def _below_conditions(line: cst.BaseStatement | cst.Else | None) -> Iterator[cst.BaseStatement]:
    """The statements that run where the conditions around them hold."""
    if isinstance(line, (cst.If, cst.Else)):
        for each in syntax.body_of(line):
            yield from _below_conditions(each)
        yield from _below_conditions(line.orelse) if isinstance(line, cst.If) else ()
    elif line is not None:
        yield line


def _with_device(line: cst.BaseStatement, symbols: Symbols) -> cst.BaseStatement:
    for node in [*syntax.find(line, cst.Attribute)]:
        if (symbols.member(node) or ("", ""))[1] == "device":
            line = syntax.replaced(line, syntax.code(node), _DEVICE)
    return line

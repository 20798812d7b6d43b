"""Optimizers and schedulers that one of several branches makes, wrapped behind the branches.

What the branches make can move on then as one statement, and another wraps it.
"""

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols

#: What wraps, with the variable that has what is wrapped.
_WRAPS = {"wrap_optimizer": "optimizer", "wrap_lr_scheduler": "scheduler"}


def wrapped_behind(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """The file, whose trials wrap behind branches what each of these wraps for one attribute."""
    own = {node.name.value for node in syntax.find(tree, cst.ClassDef)}

    def in_init(method: cst.FunctionDef) -> cst.FunctionDef:
        if method.name.value != "__init__" or not symbols.calls(method, *_WRAPS):
            return method
        body, taken = list[cst.BaseStatement](), syntax.local_names(method) | own
        for line in syntax.body_of(method):
            if not isinstance(line, cst.If) or not _only_makes(line, symbols):
                body.append(line)
                continue
            behind: list[cst.BaseStatement] = []
            for kind in _WRAPS:
                # Without its only optimizer a trial cannot train.
                every = len(symbols.calls(tree, "wrap_optimizer"))
                is_only = kind == "wrap_optimizer" and every == len(symbols.calls(line, kind))
                found = _behind(line, kind, symbols, taken, may_lack=is_only)
                if found is not None:
                    line, wrap = found
                    behind.append(wrap)
            body += [line, *behind]
        return syntax.with_body(method, body)

    return syntax.each(tree, cst.FunctionDef, in_init)


def _blocks(line: cst.If) -> Iterator[Sequence[cst.BaseStatement]]:
    """The statements of each branch; none for what no branch is there for."""
    yield syntax.body_of(line)
    if isinstance(line.orelse, cst.If):
        yield from _blocks(line.orelse)
    else:
        yield syntax.body_of(line.orelse) if line.orelse is not None else ()


def _only_makes(line: cst.If, symbols: Symbols) -> bool:
    """Whether branches do nothing but to set variables, to wrap, and to raise."""
    for each in (each for block in _blocks(line) for each in block):
        small = syntax.simple(each)
        is_wrap = symbols.method(syntax.call_of(each)) in _WRAPS and isinstance(small, cst.Assign)
        is_set = (syntax.target_of(each) or "").isidentifier()
        is_inner = isinstance(each, cst.If) and _only_makes(each, symbols)
        if not (is_wrap or is_set or is_inner or isinstance(small, cst.Raise)):
            return False
    return True


def _wraps(
    line: cst.If, kind: str, symbols: Symbols, *, may_lack: bool
) -> list[cst.BaseStatement] | None:
    """The statement of each branch that wraps; None if one does not go by just one of them."""
    found: list[cst.BaseStatement] = []
    for block in _blocks(line):
        own = [each for each in block if symbols.method(syntax.call_of(each)) == kind]
        last = block[-1] if block else None
        if (
            not own
            and isinstance(last, cst.If)
            and (inner := _wraps(last, kind, symbols, may_lack=may_lack))
        ):
            found += inner
        elif len(own) == 1:
            found += own
        elif own or not ((may_lack and last is None) or _raises(last)):
            return None
    return found


def _raises(line: cst.BaseStatement | None) -> bool:
    return line is not None and isinstance(syntax.simple(line), cst.Raise)


def _behind(
    line: cst.If, kind: str, symbols: Symbols, taken: set[str], *, may_lack: bool
) -> tuple[cst.If, cst.BaseStatement] | None:
    """Branches that set a variable, and the statement that wraps it; None if they stay."""
    wraps = _wraps(line, kind, symbols, may_lack=may_lack) or []
    calls = [call for each in wraps if (call := syntax.call_of(each)) is not None]
    if len(calls) < 2 or len(symbols.calls(line, kind)) != len(calls):
        return None
    targets = {syntax.target_of(each) or "" for each in wraps}
    given = {tuple(_as_written(arg, symbols) for arg in call.args[1:]) for call in calls}
    firsts = [call.args[0] for call in calls if call.args]
    is_one = len(targets) == len(given) == 1 and len(firsts) == len(calls)
    # A class of the file may be no scheduler of torch's.
    makers = {syntax.code(call.func) for arg in firsts for call in syntax.find(arg, cst.Call)}
    if not is_one or any(arg.star or arg.keyword for arg in firsts) or makers & taken:
        return None
    target = targets.pop()
    # The attribute becomes a variable of its own name.
    own = target.partition(".")[2]
    name = own if own.isidentifier() and own not in taken else _WRAPS[kind]
    if not own or name in taken:
        return None
    for each, arg in zip(wraps, firsts, strict=True):
        made = syntax.assignment(cst.Name(name), arg.value)
        line = syntax.with_node(line, each, each.with_changes(body=[made]))
    line = syntax.replaced(line, target, name)
    whole = [calls[0].args[0].with_changes(value=cst.Name(name)), *calls[0].args[1:]]
    wrap = wraps[0].with_deep_changes(calls[0], args=whole)
    return line, wrap.with_changes(leading_lines=[])


def _as_written(arg: cst.Arg, symbols: Symbols) -> str:
    """An argument as it stands in the file, where each name of Determined's is one of its own."""

    def written(name: re.Match[str]) -> str:
        symbol = symbols.get(cst.Name(name[0]))
        return name[0] if symbol is None else syntax.code(symbol.original)

    return re.sub(r"__det_\d+__", written, syntax.code(arg).rstrip(", "))

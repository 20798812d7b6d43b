"""What a function returns, and what wraps each part of it."""

from collections.abc import Iterator

import libcst as cst

from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.to_lightning.optimization.kept import wrappings
from det_compat.migrate.to_lightning.optimization.wrapping import KEPT, WRAPPING
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols

#: What may as well be asked of a context where a function is called.
_ASKING = ("get_hparam", "get_hparams")


def results_of(function: cst.FunctionDef, symbols: Symbols) -> list[cst.Call | None]:
    """The calls that wrap what a function returns, part by part; one of several that are alike."""
    return [part[0] if part else None for part in wraps_of(function, symbols)]


def wraps_of(function: cst.FunctionDef, symbols: Symbols) -> list[list[cst.Call]]:
    """The calls that wrap each part of what a function returns, which its branches do alike.

    There are none if it wraps something else that it does not keep, or with something else of the
    function's.
    """
    if not symbols.calls(function, *WRAPPING):
        return []
    found: list[list[cst.Call]] = []
    for column in _columns(function):
        made = [each for each in column if syntax.code(each) != "None"]
        wraps = [each for each in made if isinstance(each, cst.Call)]
        wraps = [call for call in wraps if symbols.method(call) in WRAPPING]
        if wraps and len(wraps) < len(made):
            return []
        found.append(wraps)
    parts = [call for wraps in found for call in wraps]
    # What it keeps in an attribute, and does not return, is seen there, as a model is.
    kept = [each.call for each in wrappings(function, symbols)]
    calls = [call for call in symbols.calls(function, *KEPT) if call in parts or call not in kept]
    calls += [call for call in symbols.calls(function, "wrap_model") if call in parts]
    # What is returned beside it is known to who calls the function.
    names = names_of(function)
    beside = {name for name, wraps in zip(names, found, strict=False) if not wraps}
    local = syntax.local_names(function) - {syntax.self_name(function), *beside}
    is_known = all(
        call in parts
        and bool(call.args)
        and not call.args[0].star
        and syntax.argument(call, 0, WRAPPING[symbols.method(call)]) is call.args[0].value
        and not any(syntax.names_in(arg.value) & local for arg in given_to(call, function, symbols))
        for call in calls
    )
    ways = [{_way(call, function, symbols) for call in wraps} for wraps in found]
    if not calls or not is_known or any(len(each) > 1 for each in ways):
        return []
    return [] if len(found) > 1 and _may_end(function) else found


def keeps(method: cst.FunctionDef, target: str) -> bool:
    """Whether a target is an attribute, or a variable that a method keeps in one, or returns."""
    own = syntax.self_name(method)
    if not target.isidentifier():
        return target.startswith(f"{own}.")
    lines = (line for line in syntax.find(method, cst.Assign) if syntax.is_name(line.value, target))
    kept = (each.target for line in lines for each in line.targets)
    values = (each.value for each in _returned(method) if each.value is not None)
    is_returned = any(
        syntax.is_name(part, target) for each in values for part in syntax.parts(each)
    )
    return is_returned or any(syntax.code(each).startswith(f"{own}.") for each in kept)


def _way(call: cst.Call, function: cst.FunctionDef, symbols: Symbols) -> str:
    given = (syntax.code(arg) for arg in syntax.without_commas(given_to(call, function, symbols)))
    return ", ".join((symbols.method(call), *given))


def _columns(function: cst.FunctionDef) -> list[list[cst.BaseExpression]]:
    """All that each part of what a function returns may be; nothing if that is not known."""
    values: dict[str, list[cst.BaseExpression]] = {}
    for line in syntax.find(function.body, cst.Assign):
        for target, value in syntax.pairs(line):
            values.setdefault(syntax.code(target), []).append(value)
    rows = [syntax.parts(each.value) for each in _returned(function) if each.value is not None]
    if len({len(row) for row in rows}) != 1:
        return []
    return [
        [each for part in parts for each in values.get(syntax.code(part), [part])]
        for parts in zip(*rows, strict=True)
    ]


def names_of(function: cst.FunctionDef) -> list[str]:
    """What the parts are called that a function returns; ``""`` for one that has no name."""
    rows = [syntax.parts(each.value) for each in _returned(function) if each.value is not None]
    rows = [row for row in rows if any(syntax.code(part) != "None" for part in row)]
    found = [[part.value if isinstance(part, cst.Name) else "" for part in row] for row in rows]
    return found[0] if found and all(names == found[0] for names in found) else []


def given_to(call: cst.Call, function: cst.FunctionDef, symbols: Symbols) -> list[cst.Arg]:
    """What a call is given beside what it wraps, with what the function's variables are set to.

    What the function returns beside it has a name where it is called.
    """
    beside = names_of(function)
    known = {name: value for name, value in assigned(function).items() if name.isidentifier()}
    known = {name: value for name, value in known.items() if name not in beside}

    def inlined(node: cst.BaseExpression) -> cst.BaseExpression:
        value = known.get(syntax.code(node))
        if not isinstance(node, cst.Name):
            return syntax.each(node, cst.Name, inlined)
        calls = [] if value is None else [*syntax.find(value, cst.Call)]
        if value is None or not all(symbols.method(call) in _ASKING for call in calls):
            return node
        value = inlined(value.deep_clone())
        if isinstance(value, (cst.BooleanOperation, cst.IfExp, cst.Lambda)):
            return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return value

    return [arg.with_changes(value=inlined(arg.value)) for arg in call.args[1:]]


def _returned(function: cst.FunctionDef) -> Iterator[cst.Return]:
    """The statements by which a function returns something."""
    for each in syntax.returns(function):
        if each.value is not None and syntax.code(each.value) != "None":
            yield each


def lacking(function: cst.FunctionDef) -> list[bool]:
    """Whether each part of what a function returns may be None."""
    may_end, columns = _may_end(function), _columns(function)
    return [may_end or any(syntax.code(each) == "None" for each in column) for column in columns]


def _may_end(function: cst.FunctionDef) -> bool:
    """Whether a function may return None alone."""
    returns = syntax.returns(function)
    return len(returns) > len([*_returned(function)]) or not _leaves(function)


def _leaves(block: cst.FunctionDef | cst.If | cst.Else) -> bool:
    """Whether a block never comes to its end."""
    last: cst.CSTNode | None = next(iter(syntax.body_of(block)[-1:]), None)
    while isinstance(last, cst.If) and _leaves(last):
        last = last.orelse
    if isinstance(last, cst.Else):
        return _leaves(last)
    return last is not None and isinstance(syntax.simple(last), (cst.Return, cst.Raise))

"""Code of the project that is handed the ``distributed`` of a context, and asks it for ranks."""

from collections.abc import Sequence

import libcst as cst

from det_compat.migrate.to_lightning.context.counterparts import CALLED, READ
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.symbols import Symbols

#: The member of a context that knows them.
RANKS = "distributed"
#: What such code has of a module in its place.
_KNOWN = {name.partition(".")[2] for name in (*CALLED, *READ) if name.startswith(f"{RANKS}.")}


def handing_modules(call: cst.Call, elsewhere: Elsewhere, symbols: Symbols) -> cst.Call:
    """A call that hands on a module where it did its ``distributed``, if that is asked for ranks.

    Args:
        call: of whatever function or class.
        elsewhere: what the project has.
        symbols: of the file of the call.
    """
    found = [symbols.member(arg.value) for arg in call.args]
    if not any(each is not None and each[1] == RANKS for each in found):
        return call
    name = syntax.code(call.func).rpartition(".")[2]
    taken, inner = _taken(name, elsewhere)
    params = [] if taken is None else [p.name.value for p in taken.params.params]
    if taken is not None and inner:
        params = params[1:]
    args = []
    for at, (arg, member) in enumerate(zip(call.args, found, strict=True)):
        placed = params[at] if at < len(params) and not arg.star else ""
        param = arg.keyword.value if arg.keyword is not None else placed
        is_known = member is not None and member[1] == RANKS and param
        if member and is_known and taken is not None and _asks_ranks(taken, param, inner):
            arg = arg.with_changes(value=syntax.expression(symbols.module(member[0])))
        args.append(arg)
    return call.with_changes(args=args)


def _taken(name: str, elsewhere: Elsewhere) -> tuple[cst.FunctionDef | None, list[cst.FunctionDef]]:
    """The function of a name, or what makes an object of its class, with all methods of that."""
    if (function := elsewhere.functions.get(name)) is not None:
        return function, []
    lines = syntax.looked_at(elsewhere.texts[name]).body if name in elsewhere.texts else ()
    classes = [line for line in lines if isinstance(line, cst.ClassDef)]
    methods = syntax.methods(classes[0]) if len(classes) == len(lines) == 1 else {}
    return methods.get("__init__"), [*methods.values()]


def _asks_ranks(function: cst.FunctionDef, param: str, methods: Sequence[cst.FunctionDef]) -> bool:
    """Whether a parameter is asked for ranks alone, also where an object keeps it."""
    kept = [
        syntax.code(target)
        for line in syntax.find(function.body, cst.Assign)
        for target, value in syntax.pairs(line)
        if methods and isinstance(target, cst.Attribute) and syntax.code(value) == param
    ]
    names, uses = _asked(function, param)
    uses -= len(kept)
    for text in kept:
        for method in methods:
            asked, used = _asked(method, text)
            names |= asked
            # It is set by one of them.
            uses += used - (method is function)
    return uses == 0 and bool(names) and names <= _KNOWN


def _asked(function: cst.FunctionDef, text: str) -> tuple[set[str], int]:
    """What a name or attribute is asked for in a function, and how often it is used otherwise."""
    attributes = [*syntax.find(function.body, cst.Attribute)]
    names = [each.attr.value for each in attributes if syntax.code(each.value) == text]
    labels = {id(each.attr) for each in attributes}
    labels |= {id(arg.keyword) for arg in syntax.find(function.body, cst.Arg)}
    plain = [each for each in syntax.find(function.body, cst.Name) if id(each) not in labels]
    uses = [each for each in (*plain, *attributes) if syntax.code(each) == text]
    return {*names}, len(uses) - len(names)

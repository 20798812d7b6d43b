"""What is wrapped, put where it can be seen: in the attributes of the trial that wraps it."""

from collections.abc import Mapping

import libcst as cst

from det_compat.migrate.to_lightning.optimization.kept import wrappings
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.metric_shapes import assigned
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.transformers import ScopedTransformer

#: What must be returned from configure_optimizers, and the attribute that keeps it.
_KEPT = {"wrap_optimizer": "optimizer", "wrap_lr_scheduler": "lr_scheduler"}


def spread_choices(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Write ``self.a = wrapped if given else None`` as two statements, of which one may not run."""

    def spread(line: cst.SimpleStatementLine) -> cst.BaseStatement:
        value, target = getattr(syntax.simple(line), "value", None), syntax.target_of(line) or ""
        branches = [value.body, value.orelse] if isinstance(value, cst.IfExp) else []
        is_one = any(symbols.method(syntax.call_of(each)).startswith("wrap_") for each in branches)
        if not isinstance(value, cst.IfExp) or not is_one or "." not in target:
            return line
        test, first, second = map(syntax.code, (value.test, *branches))
        made = syntax.statement(
            f"if {syntax.whole(test)}:\n    {target} = {syntax.whole(first)}\n"
            f"else:\n    {target} = {syntax.whole(second)}\n"
        )
        return made.with_changes(leading_lines=line.leading_lines)

    return syntax.each(tree, cst.SimpleStatementLine, spread)


def hoist_wraps(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Wrap what a function or method returns wrapped where the trial calls it.

    ``self.opt = make(context)`` says no more what it is once ``make`` wraps nothing.
    """
    wrapping = {
        function.name.value: found
        for function in syntax.find(tree, cst.FunctionDef)
        if (found := _wrapped_result(function, symbols)) is not None
    }
    if not wrapping:
        return tree
    hoisting = _Hoisting(symbols, wrapping)
    made = syntax.transformed(tree, hoisting)

    def unwrapped(function: cst.FunctionDef) -> cst.FunctionDef:
        found = _wrapped_result(function, symbols)
        if found is None or function.name.value not in hoisting.hoisted:
            return function
        return syntax.with_node(function, found, found.args[0].value)

    return syntax.each(made, cst.FunctionDef, unwrapped)


def _wrapped_result(function: cst.FunctionDef, symbols: Symbols) -> cst.Call | None:
    """The one call that wraps what a function returns, if it has nothing else of the function's."""
    calls = symbols.calls(function, *_KEPT)
    returns = [*syntax.find(function.body, cst.Return)]
    if len(calls) != 1 or len(returns) != 1 or returns[0].value is None:
        return None
    value, call = returns[0].value, calls[0]
    if isinstance(value, cst.Name):
        value = assigned(function).get(value.value) or value
    local = syntax.local_names(function) | {syntax.self_name(function)}
    known = all(not syntax.names_in(arg) & local for arg in call.args[1:])
    is_first = bool(call.args) and call.args[0].star == ""
    return call if value is call and known and is_first else None


class _Hoisting(ScopedTransformer):
    """Wraps in methods of classes that keep it what a function has wrapped."""

    def __init__(self, symbols: Symbols, wrapping: Mapping[str, cst.Call]) -> None:
        super().__init__()
        self._symbols = symbols
        self._wrapping = wrapping
        self.hoisted: set[str] = set()

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        small, target = syntax.simple(updated), syntax.target_of(updated) or ""
        call = syntax.call_of(updated)
        func = syntax.code(call.func) if call is not None else ""
        name = func.rpartition(".")[2]
        found = self._wrapping.get(name)
        if small is None or call is None or found is None or self.method is None:
            return updated
        own = syntax.self_name(self.method)
        if func not in (name, f"{own}.{name}") or not target.startswith(f"{own}."):
            return updated
        self.hoisted.add(name)
        first = found.args[0].with_changes(value=call)
        made = found.with_changes(args=[first, *found.args[1:]]).deep_clone()
        return updated.with_deep_changes(small, value=made)


def _kept_names(line: Line, own: str) -> list[str]:
    """The variables that a statement keeps in attributes."""
    small = syntax.simple(line)
    target = syntax.target_of(line) or ""
    if not isinstance(small, cst.Assign) or f"{own}." not in target:
        return []
    return [syntax.code(part) for part in syntax.parts(small.value)]


def keep_wrapped(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Keep what ``__init__`` wraps in an attribute.

    A trial need not keep what it wraps; a module that must return it does.
    """

    def keeping(init: cst.FunctionDef) -> cst.FunctionDef:
        if init.name.value != "__init__":
            return init
        return syntax.transformed(init, _Keeping(init, symbols))

    return syntax.each(tree, cst.FunctionDef, keeping)


class _Keeping(cst.CSTTransformer):
    """Gives what a method wraps and does not keep an attribute."""

    def __init__(self, method: cst.FunctionDef, symbols: Symbols) -> None:
        super().__init__()
        self._own = syntax.self_name(method)
        self._symbols = symbols
        lines = [*syntax.find(method, cst.SimpleStatementLine)]
        self._taken = {syntax.target_of(line) for line in lines}
        self._kept = {name for line in lines for name in _kept_names(line, self._own)}

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        call, variable = syntax.call_of(updated), syntax.target_of(updated) or ""
        member = self._symbols.method(call)
        is_lost = not variable or (variable.isidentifier() and variable not in self._kept)
        if call is None or member not in _KEPT or not is_lost:
            return updated
        name = f"{self._own}.{variable or _KEPT[member]}"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        target = syntax.expression(name)
        if not variable:
            return updated.with_changes(body=[syntax.assignment(target, call)])
        more = syntax.assignment(target, cst.Name(variable))
        return cst.FlattenSentinel([updated, cst.SimpleStatementLine([more])])


#: What a context has of what was wrapped.
_LISTS = {
    "models": "wrap_model",
    "optimizers": "wrap_optimizer",
    "lr_schedulers": "wrap_lr_scheduler",
}


def name_wrapped(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Name the attributes where a trial asks for ``context.models[0]`` and the like."""

    def named(node: cst.ClassDef) -> cst.ClassDef:
        kept = {
            name: _attributes(node, member, symbols)
            for name, member in _LISTS.items()
            if any(f".{name}" in syntax.code(line) for line in syntax.find(node, cst.FunctionDef))
        }
        known = {name: found for name, found in kept.items() if found}
        return syntax.transformed(node, _Naming(symbols, known)) if known else node

    return syntax.each(tree, cst.ClassDef, named)


def _attributes(node: cst.ClassDef, member: str, symbols: Symbols) -> list[str]:
    """The attributes that keep what a class wraps; none if one of them is not a single one."""
    methods = [*syntax.methods(node).values()]
    found = [w for each in methods for w in wrappings(each, symbols) if w.member == member]
    is_known = len(found) == len(symbols.calls(node, member))
    names = [*dict.fromkeys(w.attribute for w in found)]
    return names if is_known and not any(w.is_list for w in found) else []


class _Naming(ScopedTransformer):
    def __init__(self, symbols: Symbols, known: dict[str, list[str]]) -> None:
        super().__init__()
        self._symbols = symbols
        self._known = known

    def _names(self, node: cst.CSTNode) -> list[str]:
        member = self._symbols.member(node)
        if member is None or self.method is None:
            return []
        own = syntax.self_name(self.method)
        return [f"{own}.{name}" for name in self._known.get(member[1], ())]

    def leave_Subscript(
        self, original: cst.Subscript, updated: cst.Subscript
    ) -> cst.BaseExpression:
        names = self._names(original.value)
        index = original.slice[0].slice
        at = syntax.code(index.value) if isinstance(index, cst.Index) else ""
        return (
            syntax.expression(names[int(at)]) if at.isdigit() and int(at) < len(names) else updated
        )

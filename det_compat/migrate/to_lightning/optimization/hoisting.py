"""What functions return wrapped, wrapped where a trial calls them: there it is seen what it is.

So is what an object keeps wrapped that a trial makes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.to_lightning.class_facts import calls
from det_compat.migrate.to_lightning.optimization.kept import wrappings
from det_compat.migrate.to_lightning.optimization.step_modes import hand_modes_on
from det_compat.migrate.to_lightning.optimization.wrapping import (
    KEPT,
    WRAPPING,
    kept_by_objects,
    unset,
)
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.transformers import ScopedTransformer


@dataclass(frozen=True)
class Resolved:
    """A file: its tree with placeholders, and what these stand for."""

    path: Path
    tree: cst.Module
    symbols: Symbols


@dataclass(frozen=True)
class _Wrapped:
    """A function that wraps what it returns, or a class that wraps what its objects keep.

    Attributes:
        stem: the name of its module.
        symbols: those of its file.
        results: for each part of what it returns, or keeps, the call that wraps it, or None.
        may_lack: whether each part may be None.
        attributes: of a class, what keeps each part.
        function: of a function, which wraps with what it has set, and what it asks of its object.
    """

    stem: str
    symbols: Symbols
    results: Sequence[cst.Call | None]
    may_lack: Sequence[bool]
    attributes: Sequence[str] = ()
    function: cst.FunctionDef | None = None

    def given(self, call: cst.Call) -> list[cst.Arg]:
        """What a call is given beside what it wraps."""
        return [*call.args[1:]] if self.function is None else _given(call, self.function)

    def is_asked_by(self, owner: str, own: str) -> bool:
        """Whether a call of a method, or function, has all that it wraps with."""
        calls = [call for call in self.results if call is not None]
        names = {n for call in calls for arg in self.given(call) for n in syntax.names_in(arg)}
        me = syntax.self_name(self.function) if self.function is not None else ""
        return me not in names or owner == own == me

    @property
    def kinds(self) -> list[str]:
        """How it wraps each part, as text that does not depend on its file."""
        return [
            "" if call is None else "|".join([self.symbols.method(call), *self._texts(call)])
            for call in self.results
        ]

    def _texts(self, call: cst.Call) -> Iterator[str]:
        for arg in self.given(call):
            text = syntax.code(arg)
            for name in syntax.find(arg, cst.Name):
                text = text.replace(name.value, self.symbols.path(name) or name.value)
            yield text


def hoist_wraps(files: Sequence[Resolved]) -> dict[Path, cst.Module]:
    """The trees of some files, with what functions return wrapped wrapped by those who call them.

    ``self.opt = make(context)`` says no more what it is once ``make`` wraps nothing. What some
    caller does not keep in an attribute stays as it is, for all of them.
    """
    handed = hand_modes_on([(file.tree, file.symbols) for file in files])
    files = [replace(file, tree=tree) for file, tree in zip(files, handed, strict=True)]
    functions = [
        (
            function.name.value,
            _Wrapped(file.path.stem, file.symbols, results, _may_lack(function), function=function),
        )
        for file in files
        if len(file.symbols)
        for function in syntax.find(file.tree, cst.FunctionDef)
        if (results := _results(function, file.symbols))
    ]
    functions += [pair for file in files if len(file.symbols) for pair in _objects(file, files)]
    wrapping: dict[str, _Wrapped] = {}
    for name, found in functions:
        first = wrapping.setdefault(name, found)
        if (first.kinds, first.may_lack) != (found.kinds, found.may_lack):
            wrapping[name] = replace(found, results=[])
    trees = {file.path: file.tree for file in files}
    if not wrapping:
        return trees
    called = [name for tree in trees.values() for name in calls(tree)]
    hoisting = [_Hoisting(file, wrapping) for file in files]
    made = [syntax.transformed(file.tree, each) for file, each in zip(files, hoisting, strict=True)]
    kept = [name for each in hoisting for name in each.kept]
    known = {name: w for name, w in wrapping.items() if kept.count(name) == called.count(name) > 0}
    if known.keys() != {*kept}:
        hoisting = [_Hoisting(file, known) for file in files]
        made = [syntax.transformed(f.tree, each) for f, each in zip(files, hoisting, strict=True)]
    return {
        file.path: _unwrapped(tree, file.symbols, known)
        for file, tree in zip(files, made, strict=True)
    }


def _unwrapped(tree: cst.Module, symbols: Symbols, known: Collection[str]) -> cst.Module:
    """The tree with functions that wrap nothing of what they return."""

    def unwrapped(function: cst.FunctionDef) -> cst.FunctionDef:
        is_known = function.name.value in known
        calls = [call for part in _wraps(function, symbols) if is_known for call in part]
        if not calls:
            return function
        said = {name for c in calls for arg in c.args[1:] for name in syntax.names_in(arg)}
        return _without_idle(syntax.transformed(function, _Unwrapping(calls)), said)

    def without(node: cst.ClassDef) -> cst.ClassDef:
        pairs = kept_by_objects(node, symbols) if node.name.value in known else []
        return syntax.transformed(node, _Unwrapping([c for _, c in pairs])) if pairs else node

    return syntax.each(syntax.each(tree, cst.FunctionDef, unwrapped), cst.ClassDef, without)


def _objects(file: Resolved, files: Sequence[Resolved]) -> Iterator[tuple[str, _Wrapped]]:
    """The classes of a file that are no trials and wrap what their objects keep.

    An optimizer that something else keeps, too, stays with the class: it would not be Lightning's.
    """
    trees = [each.tree for each in files if len(each.symbols)]
    assigned_to = [line.value for tree in trees for line in syntax.find(tree, cst.Assign)]
    kept = {value.attr.value for value in assigned_to if isinstance(value, cst.Attribute)}
    for node in syntax.find(file.tree, cst.ClassDef):
        pairs = kept_by_objects(node, file.symbols)
        shared = {name for name, call in pairs if file.symbols.method(call) in KEPT} & kept
        if pairs and not shared:
            names, calls = zip(*pairs, strict=True)
            none = unset(syntax.methods(node)["__init__"])
            may_lack = [name in none for name in names]
            yield node.name.value, _Wrapped(file.path.stem, file.symbols, calls, may_lack, names)


class _Unwrapping(cst.CSTTransformer):
    def __init__(self, calls: Collection[cst.Call]) -> None:
        super().__init__()
        self._calls = {id(call) for call in calls}

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        return updated.args[0].value if id(original) in self._calls else updated


def _results(function: cst.FunctionDef, symbols: Symbols) -> list[cst.Call | None]:
    """The calls that wrap what a function returns, part by part; one of several that are alike."""
    return [part[0] if part else None for part in _wraps(function, symbols)]


def _wraps(function: cst.FunctionDef, symbols: Symbols) -> list[list[cst.Call]]:
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
    names = _names(function)
    beside = {name for name, wraps in zip(names, found, strict=False) if not wraps}
    local = syntax.local_names(function) - {syntax.self_name(function), *beside}
    is_known = all(
        call in parts
        and bool(call.args)
        and not call.args[0].star
        and syntax.argument(call, 0, WRAPPING[symbols.method(call)]) is call.args[0].value
        and not any(syntax.names_in(arg.value) & local for arg in _given(call, function))
        for call in calls
    )
    ways = [{_way(call, function, symbols) for call in wraps} for wraps in found]
    if not calls or not is_known or any(len(each) > 1 for each in ways):
        return []
    return [] if len(found) > 1 and _may_end(function) else found


def _keeps(method: cst.FunctionDef, target: str) -> bool:
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
    given = (syntax.code(arg) for arg in syntax.without_commas(_given(call, function)))
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


def _names(function: cst.FunctionDef) -> list[str]:
    """What the parts are called that a function returns; ``""`` for one that has no name."""
    rows = [syntax.parts(each.value) for each in _returned(function) if each.value is not None]
    rows = [row for row in rows if any(syntax.code(part) != "None" for part in row)]
    found = [[part.value if isinstance(part, cst.Name) else "" for part in row] for row in rows]
    return found[0] if found and all(names == found[0] for names in found) else []


def _given(call: cst.Call, function: cst.FunctionDef) -> list[cst.Arg]:
    """What a call is given beside what it wraps, with what the function's variables are set to.

    What the function returns beside it has a name where it is called.
    """
    beside = _names(function)
    known = {name: value for name, value in assigned(function).items() if name.isidentifier()}
    known = {name: value for name, value in known.items() if name not in beside}

    def inlined(node: cst.BaseExpression) -> cst.BaseExpression:
        value = known.get(syntax.code(node))
        if not isinstance(node, cst.Name):
            return syntax.each(node, cst.Name, inlined)
        if value is None or any(syntax.find(value, cst.Call)):
            return node
        value = inlined(value.deep_clone())
        if isinstance(value, (cst.BooleanOperation, cst.IfExp, cst.Lambda)):
            return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return value

    return [arg.with_changes(value=inlined(arg.value)) for arg in call.args[1:]]


def _without_idle(function: cst.FunctionDef, names: set[str]) -> cst.FunctionDef:
    """A function without the variables among these that nothing but each other uses now."""
    lines = [*syntax.body_of(function)]
    for line in reversed(lines[:]):
        target = syntax.target_of(line) or ""
        uses = sum(name.value == target for each in lines for name in syntax.find(each, cst.Name))
        if target in names and uses == 1:
            lines.remove(line)
            names = names | syntax.names_in(line)
    return syntax.with_body(function, lines)


def _returned(function: cst.FunctionDef) -> Iterator[cst.Return]:
    """The statements by which a function returns something."""
    for each in syntax.returns(function):
        if each.value is not None and syntax.code(each.value) != "None":
            yield each


def _may_lack(function: cst.FunctionDef) -> list[bool]:
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


def _origins(tree: cst.Module) -> dict[str, set[str]]:
    """The last parts of the modules that names of a file, or all (``*``), come from or are."""
    found: dict[str, set[str]] = {}
    for line in syntax.find(tree, cst.ImportFrom):
        module = syntax.code(line.module).rpartition(".")[2] if line.module is not None else ""
        if isinstance(line.names, cst.ImportStar):
            found.setdefault("*", set()).add(module)
            continue
        for each in line.names:
            name = each.evaluated_alias or each.evaluated_name
            found.setdefault(name, set()).update((module, each.evaluated_name))
    for plain in syntax.find(tree, cst.Import):
        for each in plain.names:
            last = each.evaluated_name.rpartition(".")[2]
            found.setdefault(each.evaluated_alias or last, set()).add(last)
    return found


class _Hoisting(ScopedTransformer):
    """Wraps in methods of classes that keep it what a function has wrapped.

    Attributes:
        kept: the names of the functions, once for each call.
    """

    def __init__(self, file: Resolved, wrapping: Mapping[str, _Wrapped]) -> None:
        super().__init__()
        self._file = file
        self._wrapping = wrapping
        self._origins = _origins(file.tree) if wrapping else {}
        self.kept: list[str] = []

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        small, call = syntax.simple(updated), syntax.call_of(updated)
        if call is None or self.method is None or not isinstance(small, (cst.Assign, cst.Return)):
            return updated
        owner, _, name = syntax.code(call.func).rpartition(".")
        found, own = self._wrapping.get(name), syntax.self_name(self.method)
        if found is None or not self._is_of(found, owner or name, own):
            return updated
        targets = syntax.parts(small.targets[0].target) if isinstance(small, cst.Assign) else []
        if not targets and (found.attributes or any(found.may_lack)):
            return updated
        wrapped = [True] if found.attributes else [call is not None for call in found.results]
        kept = [_keeps(self.method, syntax.code(target)) for target in targets] or [True]
        if len(kept) != len(wrapped) or not all(k for k, w in zip(kept, wrapped, strict=True) if w):
            return updated
        if not found.is_asked_by(owner, own):
            return updated
        method = syntax.methods(self.classes[-1]).get(name) if owner == own else None
        if method is not None and not _results(method, self._file.symbols):
            # Another class has a method of this name that wraps what it returns.
            return updated
        self.kept.append(name)
        if found.attributes:
            owner = syntax.code(targets[0])
            targets = [syntax.expression(f"{owner}.{each}") for each in found.attributes]
        elif len(kept) == 1 and not any(found.may_lack):
            return updated.with_deep_changes(small, value=self._wrap(found, 0, call))
        parts = [index for index, made in enumerate(found.results) if made is not None]
        lines = [self._line(found, index, targets) for index in parts]
        return cst.FlattenSentinel([updated, *lines])

    def _line(
        self, found: _Wrapped, index: int, targets: Sequence[cst.BaseExpression]
    ) -> cst.BaseStatement:
        target = targets[index]
        value = self._wrap(found, index, target)
        if found.function is not None and not found.attributes:
            for name, kept in zip(_names(found.function), targets, strict=False):
                value = syntax.replaced(value, name, syntax.code(kept)) if name else value
        line = cst.SimpleStatementLine([syntax.assignment(target, value)])
        test = syntax.expression(f"{syntax.code(target)} is not None")
        return cst.If(test, cst.IndentedBlock([line])) if found.may_lack[index] else line

    def _is_of(self, found: _Wrapped, owner: str, own: str) -> bool:
        """Whether a function, or its owner, is of the module of one that is known."""
        if owner == own or found.stem == self._file.path.stem:
            return True
        origins = (self._origins.get(name, ()) for name in (owner.rpartition(".")[2], "*"))
        return any(found.stem in each for each in origins)

    def _wrap(self, found: _Wrapped, index: int, value: cst.BaseExpression) -> cst.BaseExpression:
        """What wraps a value as a function did, with placeholders of this file."""
        made = ensure_type(found.results[index], cst.Call)
        call = made.with_changes(args=[made.args[0], *found.given(made)])
        if found.symbols is not self._file.symbols:
            call = self._with_own_placeholders(call, found.symbols)
        return call.with_deep_changes(call.args[0], value=value).deep_clone()

    def _with_own_placeholders(self, call: cst.Call, symbols: Symbols) -> cst.Call:
        own = cst.Name(syntax.self_name(ensure_type(self.method, cst.FunctionDef)))
        here = {
            name.value: self._file.symbols.add(replace(symbol, module=own))
            for name in syntax.find(call, cst.Name)
            if (symbol := symbols.get(name)) is not None
        }
        # All at once: a placeholder of this file may be called as another one of that file is.
        return syntax.each(call, cst.Name, lambda name: here.get(name.value, name))

"""What functions return wrapped, wrapped where a trial calls them: there it is seen what it is.

So is what an object keeps wrapped that a trial makes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.class_facts import calls
from det_compat.migrate.to_lightning.optimization.step_modes import hand_modes_on
from det_compat.migrate.to_lightning.optimization.wrapping import (
    KEPT,
    kept_by_objects,
    unset,
)
from det_compat.migrate.to_lightning.returned.results import (
    given_to,
    keeps,
    lacking,
    names_of,
    results_of,
    wraps_of,
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
        if self.function is None:
            return [*call.args[1:]]
        return given_to(call, self.function, self.symbols)

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
            _Wrapped(file.path.stem, file.symbols, results, lacking(function), function=function),
        )
        for file in files
        if len(file.symbols)
        for function in syntax.find(file.tree, cst.FunctionDef)
        if (results := results_of(function, file.symbols))
    ]
    functions += [pair for file in files if len(file.symbols) for pair in _objects(file, files)]
    wrapping: dict[str, _Wrapped] = {}
    for name, found in functions:
        first = wrapping.setdefault(name, found)
        if (first.kinds, first.may_lack) != (found.kinds, found.may_lack):
            wrapping[name] = replace(found, results=[])
    # What another gives a function is wrapped in this first, and then where this is called.
    asking = {
        name
        for name, found in wrapping.items()
        if found.function is not None and {*calls(found.function)} & (wrapping.keys() - {name})
    }
    wrapping = {name: found for name, found in wrapping.items() if name not in asking}
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
        calls = [call for part in wraps_of(function, symbols) if is_known for call in part]
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


def _collected(value: cst.BaseExpression | None) -> list[cst.BaseExpression]:
    """What a list or dict is made of, that is written out or made in a loop."""
    if isinstance(value, cst.ListComp):
        return [value.elt]
    if isinstance(value, cst.DictComp):
        return [value.value]
    if isinstance(value, (cst.List, cst.Tuple, cst.Dict)):
        return [each.value for each in value.elements]
    return []


class _Unwrapping(cst.CSTTransformer):
    def __init__(self, calls: Collection[cst.Call]) -> None:
        super().__init__()
        self._calls = {id(call) for call in calls}

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        return updated.args[0].value if id(original) in self._calls else updated


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
        if self.method is None or not isinstance(small, (cst.Assign, cst.Return)):
            return updated
        if call is None:
            return self._with_each(updated, small)
        found = self._known(call)
        if found is None:
            return updated
        name = syntax.code(call.func).rpartition(".")[2]
        targets = syntax.parts(small.targets[0].target) if isinstance(small, cst.Assign) else []
        if not targets and (found.attributes or any(found.may_lack)):
            return updated
        wrapped = [True] if found.attributes else [call is not None for call in found.results]
        kept = [keeps(self.method, syntax.code(target)) for target in targets] or [True]
        if len(kept) != len(wrapped) or not all(k for k, w in zip(kept, wrapped, strict=True) if w):
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

    def _with_each(self, line: Line, small: cst.Assign | cst.Return) -> Line:
        """A statement with each of several calls in it wrapped that gives one wrapped thing."""
        assert self.method is not None
        values = syntax.parts(small.value) if small.value is not None else []
        targets = syntax.parts(small.targets[0].target) if isinstance(small, cst.Assign) else []
        is_kept = len(targets) == len(values) or isinstance(small, cst.Return)
        is_several = is_kept and len(values) > 1
        if len(targets) == 1 and (inner := _collected(small.value)):
            values, targets, is_several = inner, [*targets] * len(inner), True
        for at, value in enumerate(values if is_several else ()):
            found = self._known(value) if isinstance(value, cst.Call) else None
            target = syntax.code(targets[at]) if targets else ""
            is_one = found is not None and len(found.results) == 1 and not found.attributes
            if found is None or not is_one or any(found.may_lack):
                continue
            if target and not keeps(self.method, target):
                continue
            self.kept.append(syntax.code(ensure_type(value, cst.Call).func).rpartition(".")[2])
            line = syntax.with_node(line, value, self._wrap(found, 0, value))
        return line

    def _known(self, call: cst.Call) -> _Wrapped | None:
        """The function that a call is one of, which wraps what it returns."""
        owner, _, name = syntax.code(call.func).rpartition(".")
        found, own = (
            self._wrapping.get(name),
            syntax.self_name(ensure_type(self.method, cst.FunctionDef)),
        )
        if found is None or not self._is_of(found, owner or name, own):
            return None
        if not found.is_asked_by(owner, own):
            return None
        node = self.classes[-1] if owner == own and self.classes else None
        method = syntax.methods(node).get(name) if node is not None else None
        # Another class may have a method of this name that wraps what it returns.
        is_other = method is not None and not results_of(method, self._file.symbols)
        return None if is_other else found

    def _line(
        self, found: _Wrapped, index: int, targets: Sequence[cst.BaseExpression]
    ) -> cst.BaseStatement:
        target = targets[index]
        value = self._wrap(found, index, target)
        if found.function is not None and not found.attributes:
            for name, kept in zip(names_of(found.function), targets, strict=False):
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

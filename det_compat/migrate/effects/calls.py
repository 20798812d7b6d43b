"""Follows the calls of a function into the project, and knows what libraries do."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping

from det_compat.analysis.expressions import last_name
from det_compat.migrate.effects import harmless
from det_compat.migrate.effects.expressions import Expressions, parameters
from det_compat.migrate.effects.makers import (
    CALCULATED,
    DRAWING,
    FOREIGN,
    LAYER,
    LITERAL,
    UNKNOWN,
    Kind,
    Makers,
)
from det_compat.migrate.effects.source import Scope, dotted, is_static, self_name
from det_compat.migrate.effects.tracing import MOST, Trace
from det_compat.migrate.effects.values import ANYTHING, GLOBAL, ITSELF, NEW, Value, held, of
from det_compat.migrate.tree.elsewhere import CHANGING_KEYWORDS, is_changing


def called(
    trace: Trace,
    scope: Scope,
    args: list[Value],
    keywords: dict[str, Value],
    own: Mapping[str, Scope] | None = None,
) -> Value:
    """What a function returns; ``own`` are the methods of the class of which it is one."""
    key = (id(scope), tuple(args), tuple(sorted(keywords.items(), key=lambda each: each[0])))
    if key not in trace.known:
        trace.known[key] = NEW
        if len(trace.known) > MOST:
            trace.unproven.add(scope.name)
            return NEW
        for each in scope.decorator_list:
            if not harmless.is_pure_decorator(each, trace.project):
                trace.unproven.add(f"@{ast.unparse(each)}")
        me = self_name(scope) if own is not None else ""
        trace.known[key] = _Frame(trace, scope, me, parameters(scope, args, keywords), own).result()
    return trace.known[key]


class _Frame(Expressions):
    """A function, and what it calls."""

    def __init__(
        self,
        trace: Trace,
        scope: Scope,
        me: str,
        given: Mapping[str, Value],
        own: Mapping[str, Scope] | None,
    ) -> None:
        super().__init__(trace, scope, me, given)
        self._own = own or {}

    def own_method(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        """What a method of the object returns that is followed."""
        method = self.trace.own[name]
        itself = [] if is_static(method) else [of(ITSELF)]
        return called(self.trace, method, [*itself, *args], keywords, self.trace.own)

    def call(self, node: ast.Call) -> Value:
        """What a call returns; what it changes is noted."""
        args: list[Value] = []
        keywords: dict[str, Value] = {}
        for each in node.args:
            value = self.value(each)
            if isinstance(each, ast.Starred):
                keywords["*"] = keywords.get("*", NEW) | value
            else:
                args.append(value)
        for keyword in node.keywords:
            value = self.value(keyword.value)
            keywords[keyword.arg or "*"] = value
            if keyword.arg in CHANGING_KEYWORDS:
                self.trace.change(value)
        func = node.func
        handed = args[:1] if last_name(func) in harmless.CALLING else []
        for value in (*handed, keywords.get("key", NEW)):
            if value.every:
                self._object(node, value.element, "__call__", [of(ANYTHING)], {})
        if isinstance(func, ast.Name) and func.id not in self.names:
            return self._function(node, func.id, args, keywords)
        if isinstance(func, ast.Attribute):
            return self._method(node, func, args, keywords)
        return self._object(node, self.value(func).element, "__call__", args, keywords)

    def _function(
        self, node: ast.Call, name: str, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """A function, or class, that is called by its name."""
        if name in self.nested:
            for each, value in parameters(self.nested[name], args, keywords).items():
                self.names[each] = self.names.get(each, NEW) | value
            return self.returned.get(name, NEW)
        if name.startswith("__det_"):
            return held(args, keywords)
        if name in self.imports:
            return self._path(node, [self.imports[name]], args, keywords)
        if name in self.trace.project:
            return self._project(node, name, args, keywords)
        if paths := self.trace.project.paths(name):
            return self._path(node, paths, args, keywords)
        if hasattr(builtins, name):
            return self._builtin(node, name, args, keywords)
        if self.trace.project.is_variable(name):
            return self._object(node, of(f"{GLOBAL}{name}"), "__call__", args, keywords)
        return self.note(node)

    def _path(
        self, node: ast.Call, paths: list[str], args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """A function that is imported."""
        last = paths[0].rpartition(".")[2]
        if last in self.trace.project:
            return self._project(node, last, args, keywords)
        if not all(map(harmless.is_pure, paths)):
            return self.note(node)
        if last in harmless.CHANGING_FIRST or harmless.is_in_place(last):
            self.trace.change(args[0] if args else NEW)
        every = held(args, keywords)
        root = paths[0].partition(".")[0]
        if last in harmless.SHARING:
            return (args[0] if args else NEW) | every
        return NEW if root in ("torch", "numpy", "math") and last != "partial" else every

    def _builtin(
        self, node: ast.Call, name: str, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        first = args[0] if args else NEW
        if name in ("setattr", "delattr"):
            named = node.args[1] if len(node.args) > 1 else None
            text = named.value if isinstance(named, ast.Constant) else ""
            self.trace.change(first, str(text))
            return NEW
        if name == "getattr" and len(node.args) > 1:
            named = node.args[1]
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                made = ast.Attribute(node.args[0], named.value, ast.Load())
                return self.value(made) | held(args[2:], {})
            if ITSELF in first.state:
                self.note(node)
        if name in harmless.UNKNOWN_BUILTINS and not (name == "open" and _only_reads(node)):
            return self.note(node)
        if name in harmless.CHANGING_FIRST:
            self.trace.change(first)
            return first.element
        for each in node.args if name in _ITERATING else ():
            self.iterated(each)
        every = held(args, keywords)
        return first | every if name in ("vars", "iter", "type") else every

    def part(self, node: ast.expr, value: Value, method: str) -> bool:
        """Follow what Python calls of an object of the project, such as ``__getitem__``.

        Returns:
            Whether that has such a method.
        """
        names = {*value.classes}
        for each in value.state:
            names |= {name for how, name in self.trace.makers.of(each) if how == "class"}
        known = [own for name in sorted(names) for own in self.trace.project.methods(name)]
        known = [own for own in known if method in own]
        for own in known:
            called(self.trace, own[method], [Value(value.state, value.inside)], {}, own)
        return bool(known)

    def _project(
        self, node: ast.Call, name: str, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """A function or class of the project."""
        found = NEW
        for each in self.trace.project.definitions(name):
            if isinstance(each, ast.ClassDef):
                found |= Value(inside=held(args, keywords).every, classes=frozenset({name}))
            else:
                found |= called(self.trace, each, args, keywords)
        for own in self.trace.project.methods(name):
            if "__init__" in own:
                made = Value(classes=frozenset({name}))
                called(self.trace, own["__init__"], [made, *args], keywords, own)
        return found

    def _method(
        self, node: ast.Call, func: ast.Attribute, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """What is called as ``owner.name``."""
        code = dotted(func) or ""
        root, owner = code.partition(".")[0], func.value
        if root and root not in self.names:
            if root.startswith("__det_"):
                return held(args, keywords)
            if root in self.imports:
                return self._path(node, [code.replace(root, self.imports[root], 1)], args, keywords)
            paths = self.trace.project.paths(code)
            if paths and self._is_module_or_library(func, paths):
                return self._path(node, paths, args, keywords)
            if isinstance(owner, ast.Name) and root in self.trace.project:
                return self._of_class(node, root, func.attr, args, keywords)
        if isinstance(owner, ast.Call) and dotted(owner.func) == "super":
            is_covered = func.attr in self.trace.covered or func.attr == "__init__"
            return NEW if is_covered else self.note(node)
            if not paths and self.is_unknown(root):
                return self.note(node)
        value = self.value(owner)
        if ITSELF in value.state:
            if func.attr in self.trace.own:
                return self.own_method(func.attr, args, keywords)
            if func.attr.startswith("__"):
                return self.note(node)
            kept = self.value(func)
            return self._object(node, kept, "__call__", args, keywords)
        if (ANYTHING in value.state or not value.every) and not value.classes:
            if ANYTHING in value.state and is_changing(func.attr):
                self.trace.change(value)
            every = held(args, keywords)
            # `list.append(self.seen, 1)` changes what it is given, as a method of a class does.
            is_class = isinstance(owner, ast.Name) and isinstance(getattr(builtins, root, 0), type)
            if harmless.writes(func.attr) or (is_class and root not in self.names and every.inside):
                return self.note(node)
            self.keep(owner, every)
            return every
        return self._object(node, value, func.attr, args, keywords)

    def _is_module_or_library(self, func: ast.Attribute, paths: list[str]) -> bool:
        """Whether ``a.b.c`` is a function of a module, or anything of a library."""
        project = self.trace.project
        owner = last_name(func.value)
        if owner in project or project.is_variable(owner):
            return False
        return (
            func.attr in project
            or all(map(harmless.is_pure, paths))
            or not any(project.is_variable(path.rpartition(".")[2]) for path in paths)
        )

    def _of_class(
        self, node: ast.Call, name: str, method: str, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """A method that is called by its class, with its object or without."""
        found, is_known = NEW, False
        for own in self.trace.project.methods(name):
            if method in own:
                is_known = True
                decorators = {last_name(each) for each in own[method].decorator_list}
                first = [of(f"{GLOBAL}{name}")] if "classmethod" in decorators else []
                found |= called(self.trace, own[method], [*first, *args], keywords, own)
        return found if is_known else self.note(node)

    def _object(
        self,
        node: ast.Call,
        value: Value,
        method: str,
        args: list[Value],
        keywords: dict[str, Value],
    ) -> Value:
        """A method of something that stays, or of a new object of a class of the project."""
        found = NEW
        for name in value.classes:
            found |= self._of_object(node, name, value, method, args, keywords)
        for name in sorted(value.state):
            one = Value(frozenset({name}), value.inside)
            variable = name.removeprefix(GLOBAL)
            if name != variable and method == "__call__" and variable in self.trace.project:
                found |= self._project(node, variable, args, keywords)
                continue
            if name != variable and any(
                method in own for own in self.trace.project.methods(variable)
            ):
                found |= self._of_class(node, variable, method, args, keywords)
                continue
            owner, _, named = name.rpartition(".")
            if method == "__call__" and owner and not self._is_attribute(owner, named):
                # A method that was looked up, and is called now.
                found |= self._object(node, of(owner), named, args, keywords)
                continue
            kinds = self.trace.makers.of(name) if name == variable else {UNKNOWN}
            for kind in kinds:
                found |= self._of_kind(node, one, kind, method, args, keywords)
        if value.state:
            return found
        if value.inside and not value.classes:
            if method not in harmless.READING | harmless.FILLING:
                return self.note(node)
            func = node.func
            if isinstance(func, ast.Attribute):
                self.keep(func.value, held(args, keywords))
            found |= value.element if method in harmless.SHARING | harmless.FILLING else NEW
        return found

    def _is_attribute(self, owner: str, name: str) -> bool:
        """Whether an object of the project has something that is none of its methods."""
        classes = [found for how, found in self.trace.makers.of(owner) if how == "class"]
        every = [own for each in classes for own in self.trace.project.methods(each)]
        return bool(every) and not any(name in own for own in every)

    def _of_object(
        self,
        node: ast.Call,
        name: str,
        value: Value,
        method: str,
        args: list[Value],
        keywords: dict[str, Value],
    ) -> Value:
        """A method of an object of a class of the project."""
        found = NEW
        for own in self.trace.project.methods(name):
            known = own.get(method)
            if known is None and method == "__call__":
                known = own.get("forward")
            if known is not None:
                first = [] if is_static(known) else [Value(value.state, value.inside)]
                found |= called(self.trace, known, [*first, *args], keywords, own)
            elif value.state and Makers(own, self.trace.project).sets(method):
                # It is called for an attribute of it, which may be anything.
                part = Value(frozenset(f"{each}.{method}" for each in value.state), value.inside)
                found |= self._object(node, part, "__call__", args, keywords)
            elif value.state:
                bases = self.trace.project.foreign_bases(name)
                others = [base for base in bases if not hasattr(builtins, base)]
                paths = [p for base in others for p in self.trace.project.paths(base) or ["?"]]
                is_known = all(map(harmless.is_layer, paths))
                kind = FOREIGN if not is_known else LAYER if paths else LITERAL
                found |= self._of_kind(node, value, kind, method, args, keywords)
        return found

    def _of_kind(
        self,
        node: ast.Call,
        value: Value,
        kind: Kind,
        method: str,
        args: list[Value],
        keywords: dict[str, Value],
    ) -> Value:
        """A method of something that stays, given what that was made by."""
        how, name = kind
        if how == "class":
            return self._of_object(node, name, value, method, args, keywords)
        if how == "function" and method == "__call__":
            return self._project(node, name, args, keywords)
        if how == "own" and method == "__call__":
            return self.own_method(name, args, keywords)
        if value.state & {*self.trace.reset} and method in _ADDING:
            return NEW
        # It may be an object of any class that has such a method.
        for each in self.trace.project.having(method) if kind == UNKNOWN else ():
            self._of_object(node, each, value, method, args, keywords)
        is_global = any(each.startswith(GLOBAL) for each in value.state)
        is_filled = kind == LITERAL or (kind == UNKNOWN and is_global)
        is_drawn = kind == DRAWING and "state" not in method
        if is_changing(method) or is_drawn or (is_filled and method in harmless.FILLING):
            if not (kind == LITERAL and method == "get"):
                self.trace.change(value)
            return value.element
        if kind == LAYER and harmless.only_calculates(method) and not self.trace.project.has_hooks:
            return value if method in harmless.SHARING else NEW
        if kind == CALCULATED and method == "__call__":
            return NEW
        if method in harmless.READING or kind == LITERAL:
            return value if method in harmless.SHARING else NEW
        return self.note(node)


#: What is added to is reset before it is asked.
_ADDING = ("update", "__call__", "compute", "reset", "forward", "add", "append")
#: Functions that go through all of what they are given.
_ITERATING = ("list", "tuple", "set", "sorted", "sum", "max", "min", "dict", "any", "all")


def _only_reads(node: ast.Call) -> bool:
    modes = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "mode")]
    return all(isinstance(each, ast.Constant) and str(each.value)[:1] == "r" for each in modes)

"""What is made in some files, and what their variables, arguments and results may be."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

from det_compat.analysis.expressions import called, decorators, last_name, literal, walked, words

#: An expression, and the function, class or file that it stands in.
Placed: TypeAlias = tuple[ast.expr, ast.AST]
#: What a loop goes through that is as plain as what it is given.
_COUNTING = words("range zip product combinations permutations keys")
#: What gives an entry of a dict, or all of them.
_OF_DICTS = words("get pop values items")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Given:
    """What is called in some files, and what variables, arguments and results may be.

    Attributes:
        calls: each by the last part of its name, with what it stands in.
        returned: what each function returns; None for nothing.
    """

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        self.calls: dict[str, list[tuple[ast.Call, ast.AST]]] = {}
        self.returned: dict[str, list[Placed | None]] = {}
        self._made: dict[tuple[ast.AST, str], list[Placed | None]] = {}
        self._put: dict[str, list[tuple[ast.AST, Placed]]] = {}
        self._file: dict[ast.AST, ast.Module] = {}
        self._around: dict[ast.AST, ast.AST] = {}
        self._class: dict[ast.AST, ast.ClassDef] = {}
        for tree in trees:
            self._read_all(tree, tree)
        self._functions: dict[str, list[ast.FunctionDef]] = {}
        for function in [each for each in self._file if isinstance(each, ast.FunctionDef)]:
            self._functions.setdefault(function.name, []).append(function)
            owner = self._class.get(function)
            name = owner.name if owner and function.name == "__init__" else function.name
            for call, scope in self.calls.get(name, ()):
                self._hand_in(function, call, scope)
            if owner and "classmethod" in decorators(function):
                first = function.args.args[0].arg if function.args.args else ""
                self._made[function, first] = [(ast.Name(owner.name), self._around[function])]
        for node in [each for tree in trees for each in walked(tree)]:
            if isinstance(node, ast.ClassDef):
                self._decorate(node)
        for call, scope in [found for every in self.calls.values() for found in every]:
            for made, _ in self.standing_for(call.func, scope):
                if isinstance(made, ast.Lambda):
                    self._hand_in(made, call, scope)

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        """All classes."""
        return [node for node in self._file if isinstance(node, ast.ClassDef)]

    @cached_property
    def inits(self) -> dict[str, ast.FunctionDef]:
        """The ``__init__`` of each class that has one, by name."""
        functions = self._functions.get("__init__", ())
        return {self._class[each].name: each for each in functions if each in self._class}

    def owner(self, function: ast.AST) -> ast.ClassDef | None:
        """The class whose method a function is."""
        return self._class.get(function)

    def of(self, name: str, scope: ast.AST) -> list[Placed | None]:
        """What a variable may be; None for each number of a loop."""
        return self._made.get(self._key(name, scope), [])

    def put_in(self, name: str, scope: ast.AST) -> list[Placed]:
        """What is put into a variable by a key."""
        key = self._key(name, scope)
        return [placed for to, placed in self._put.get(name, ()) if self._key(name, to) == key]

    def of_own(self, node: ast.Attribute, scope: ast.AST) -> list[Placed | None]:
        """What an attribute may be of the object, or class, whose method something stands in."""
        while isinstance(scope, ast.Lambda):
            scope = self._around[scope]
        owner = self._class.get(scope)
        is_own = isinstance(node.value, ast.Name) and node.value.id in _first(scope)
        return self._made.get((owner, node.attr), []) if owner and is_own else []

    def of_file(self, name: str, scope: ast.AST) -> list[ast.Call]:
        """The calls of a name in the file in which something stands."""
        every = self.calls.get(name, ())
        return [call for call, at in every if self._file[at] is self._file[scope]]

    def are_near(self, start: tuple[ast.Call, ast.AST], scope: ast.AST) -> bool:
        """Whether a call stands in a function; in its file if that has no such call."""
        others = [at for _, at in self.calls[called(start[0])]]
        near = scope if scope in others else self._file[scope]
        return near in (start[1], self._file[start[1]])

    def to(self, name: str, parameters: Sequence[str]) -> Iterator[tuple[str, Placed]]:
        """What the parameters of a class are given wherever it is made, by whichever name."""
        for call, scope in [found for every in self.calls.values() for found in every]:
            is_part = called(call) == "partial" and bool(call.args)
            func, args = (call.args[0], call.args[1:]) if is_part else (call.func, call.args)
            for made, bound in self.standing_for(func, scope):
                if last_name(made) == name:
                    yield from self._arguments(call, args, parameters[bound:], scope)
        # A class that derives from it makes it, too.
        for call, scope in self.calls.get("__init__", ()):
            owner, of = self._class.get(scope), getattr(call.func, "value", None)
            is_super = isinstance(of, ast.Call) and called(of) == "super"
            if not owner or name not in map(last_name, owner.bases):
                continue
            # One that names its base gives the object first.
            if is_super or last_name(of) == name:
                args = call.args if is_super else call.args[1:]
                yield from self._arguments(call, args, parameters, scope)

    def standing_for(
        self,
        node: ast.expr,
        scope: ast.AST,
        bound: int = 0,
        seen: frozenset[ast.expr] = frozenset(),
    ) -> Iterator[tuple[ast.expr, int]]:
        """The names and lambdas that an expression may stand for.

        With each is how many arguments ``functools.partial`` has given it by place.
        """
        made: Iterable[Placed | None] = ()
        parts: Sequence[ast.expr | None] = ()
        if node in seen:
            return
        if isinstance(node, ast.Lambda):
            yield node, bound
        elif isinstance(node, ast.Name):
            made = [*self.of(node.id, scope), *self.put_in(node.id, scope)]
            yield from () if made else [(node, bound)]
        elif isinstance(node, ast.Attribute):
            made = self.of_own(node, scope)
            yield from () if made else [(node, bound)]
        elif isinstance(node, ast.Call):
            name = called(node)
            if name == "partial" and node.args:
                bound += len(node.args) - 1
                parts = node.args[:1]
            elif name == "getattr" and len(node.args) > 1 and (text := literal(node.args[1])):
                yield ast.Name(text), bound
            elif name in _OF_DICTS and isinstance(node.func, ast.Attribute):
                parts = [node.func.value]
            else:
                made = self.returned.get(name, ())
        elif isinstance(node, (ast.Subscript, ast.DictComp, ast.NamedExpr)):
            parts = [node.value]
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            parts = [node.elt]
        elif isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, (ast.Dict, ast.BoolOp)):
            parts = node.values
        elif isinstance(node, (ast.List, ast.Tuple)):
            parts = node.elts
        for placed in (*made, *((part, scope) for part in parts if part is not None)):
            if placed is not None:
                yield from self.standing_for(*placed, bound, seen | {node})

    def _key(self, name: str, scope: ast.AST) -> tuple[ast.AST, str]:
        """A variable, with the function or file that it is of."""
        while (scope, name) not in self._made and scope in self._around:
            scope = self._around[scope]
        return scope, name

    def _arguments(
        self, call: ast.Call, args: Sequence[ast.expr], parameters: Sequence[str], scope: ast.AST
    ) -> Iterator[tuple[str, Placed]]:
        named = [keyword.arg for keyword in call.keywords]
        for index, value in enumerate(args):
            if isinstance(value, ast.Starred):
                rest = [to for to in parameters[index:] if to not in named]
                yield from ((to, (value.value, scope)) for to in rest)
                break
            yield from ((to, (value, scope)) for to in parameters[index : index + 1])
        for keyword in call.keywords:
            if keyword.arg:
                yield keyword.arg, (keyword.value, scope)
            else:
                yield from self._entries(keyword.value, scope)

    def _entries(self, node: ast.expr, scope: ast.AST) -> Iterator[tuple[str, Placed]]:
        """What stands in a dict that is written out, or in a variable that is one."""
        if isinstance(node, ast.Name):
            made = self.of(node.id, scope)
            for placed in made if len(made) == 1 else ():
                if placed is not None and not isinstance(placed[0], ast.Name):
                    yield from self._entries(*placed)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                name = None if key is None else literal(key)
                yield from [(name, (value, scope))] if name else ()
        elif isinstance(node, ast.Call) and called(node) == "dict":
            for keyword in node.keywords:
                yield from [(keyword.arg, (keyword.value, scope))] if keyword.arg else ()

    def _hand_in(
        self, function: ast.FunctionDef | ast.Lambda, call: ast.Call, scope: ast.AST
    ) -> None:
        """Keep what a call gives the parameters of a function."""
        names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        is_method = function in self._class and "staticmethod" not in decorators(function)
        for to, value in self._arguments(call, call.args, names[is_method:], scope):
            self._made.setdefault((function, to), []).append(value)

    def _decorate(self, owner: ast.ClassDef) -> None:
        """Keep that decorators are given a class."""
        for decorator in owner.decorator_list:
            is_made = isinstance(decorator, ast.Call)
            name = called(decorator) if isinstance(decorator, ast.Call) else last_name(decorator)
            for function in self._functions.get(name, ()):
                inner = [f for f, around in self._around.items() if around is function]
                for each in inner if is_made else [function]:
                    for to in _first(each):
                        found = self._made.setdefault((each, to), [])
                        found.append((ast.Name(owner.name), self._file[owner]))

    def _read_all(self, scope: ast.AST, tree: ast.Module) -> None:
        """Read what stands in a file, and in the functions and classes in it."""
        self._file[scope] = tree
        found = [*ast.iter_child_nodes(scope)]
        for node in found:
            if isinstance(node, _SCOPES):
                # What a class has are no variables of its methods.
                is_method = isinstance(scope, ast.ClassDef)
                self._around[node] = self._around[scope] if is_method else scope
                if isinstance(scope, ast.ClassDef):
                    self._class[node] = scope
                self._read_all(node, tree)
            else:
                found.extend(ast.iter_child_nodes(node))
        for node in found:
            self._read(node, scope)

    def _read(self, node: ast.AST, scope: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self.calls.setdefault(called(node), []).append((node, scope))
        elif isinstance(node, ast.Return) and isinstance(scope, ast.FunctionDef):
            value = None if node.value is None else (node.value, scope)
            self.returned.setdefault(scope.name, []).append(value)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._keep(target, node.value, scope)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._keep(node.target, node.value, scope)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self._keep_each(node.target, node.iter, scope)

    def _keep_each(self, target: ast.expr, values: ast.expr, scope: ast.AST) -> None:
        """Keep what a loop gives its variables."""
        name = called(values) if isinstance(values, ast.Call) else ""
        if name == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            assert isinstance(values, ast.Call)
            self._keep(target.elts[0], None, scope)
            if values.args:
                self._keep_each(target.elts[1], values.args[0], scope)
        elif name in ("items", "values") and isinstance(values, ast.Call):
            owner = values.func.value if isinstance(values.func, ast.Attribute) else None
            if name == "items" and isinstance(target, ast.Tuple):
                self._keep(target.elts[0], None, scope)
                target = target.elts[-1]
            self._keep(target, owner, scope)
        else:
            self._keep(target, None if name in _COUNTING else values, scope)

    def _keep(self, target: ast.expr, value: ast.expr | None, scope: ast.AST) -> None:
        placed = None if value is None else (value, scope)
        if isinstance(target, ast.Name):
            self._made.setdefault((scope, target.id), []).append(placed)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            owner = self._class.get(scope)
            if owner and target.value.id in _first(scope):
                self._made.setdefault((owner, target.attr), []).append(placed)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            found = self._put.setdefault(target.value.id, [])
            found += [] if placed is None else [(scope, placed)]
        elif isinstance(target, (ast.Tuple, ast.List)):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else ()
            same = len(values) == len(target.elts)
            for number, part in enumerate(target.elts):
                self._keep(part, values[number] if same else value, scope)


def _first(scope: ast.AST | None) -> list[str]:
    """The first parameter of a function, as a list of one."""
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return []
    return [arg.arg for arg in (*scope.args.posonlyargs, *scope.args.args)][:1]

"""What names stand for in the code of one function, and what values may be or hold."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.moving import known
from det_compat.migrate.to_lightning.moving.effects import GLOBAL, HPARAMS, Effects
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.walking import below, children

if TYPE_CHECKING:
    from det_compat.migrate.to_lightning.moving.reading import Reader


class Scope:
    """The names of a function, with those of functions in it.

    Args:
        function: the function.
        is_trial: whether it is a method of the trial whose ``__init__`` is read.
        tag: what stands behind its variables, to tell them from those of others.
    """

    def __init__(self, function: cst.FunctionDef, *, is_trial: bool, tag: str = "") -> None:
        self.me = syntax.self_name(function) if is_trial else ""
        self.tag = tag
        self.functions = {n.name.value: n for n in syntax.find(function.body, cst.FunctionDef)}
        self.imports: dict[str, str] = {}
        names = {param.name.value for param in syntax.find(function, cst.Param)}
        for node in below(function.body):
            for target in targets(node):
                names |= {each.value for each in syntax.parts(target) if isinstance(each, cst.Name)}
            if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                names.add(node.name.value)
            elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
                module = "." * len(node.relative) + (
                    syntax.code(node.module) if node.module else ""
                )
                for alias in node.names:
                    name = alias.evaluated_alias or alias.evaluated_name
                    self.imports[name] = f"{module}.{alias.evaluated_name}"
            elif isinstance(node, cst.Import):
                for alias in node.names:
                    whole = alias.evaluated_name
                    first = whole.partition(".")[0]
                    self.imports[alias.evaluated_alias or first] = (
                        whole if alias.evaluated_alias else first
                    )
        self.names = names - {self.me}


class Names:
    """The names of a function, and what is known of the code that it calls.

    Attributes:
        found: what that code does.
    """

    def __init__(self, reader: Reader, scope: Scope) -> None:
        self.reader, self.scope, self.found = reader, scope, Effects()

    def root(self, node: cst.BaseExpression) -> str:
        """What an attribute, or what is in brackets, belongs to; ``""`` if that is no name."""
        last: cst.BaseExpression = node
        while isinstance(node, (cst.Attribute, cst.Subscript)):
            last, node = node, node.value
        if not isinstance(node, cst.Name):
            return ""
        return self.known_name(node, last)

    def known_name(self, node: cst.Name, last: cst.BaseExpression) -> str:
        name = node.value
        if self.scope.me and name == self.scope.me:
            is_one = isinstance(last, cst.Attribute) and last.attr.value not in known.WHOLE
            return (
                f"self.{last.attr.value}" if isinstance(last, cst.Attribute) and is_one else "self"
            )
        if name == self.reader.name and isinstance(last, cst.Attribute):
            # What the class has, the trial has as well.
            return f"self.{last.attr.value}"
        if name in self.scope.imports or self.reader.symbols.get(node) is not None:
            return ""
        if name in self.scope.names:
            return f"{name}{self.scope.tag}"
        reader = self.reader
        if name in reader.around.imported or name in reader.around.texts:
            # A variable of another file may be imported.
            return self._global(name) if reader.around.holds(name) else ""
        if hasattr(builtins, name):
            return ""
        return self._global(name)

    def _global(self, name: str) -> str:
        self.found.holds.add((GLOBAL, f"{GLOBAL}.{name}"))
        return f"{GLOBAL}.{name}"

    def parts_of(self, node: cst.CSTNode) -> set[str]:
        """What an expression is, has or is a part of."""
        one, held = self.value(node)
        return one | held

    def value(self, node: cst.CSTNode) -> tuple[set[str], set[str]]:
        """What an expression may be, or be a part of; and what it may hold."""
        if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            if root := self.root(node):
                # A method of the trial has all of it.
                is_method = root.removeprefix("self.") in self.reader.own and bool(self.scope.me)
                return {"self" if is_method else root}, set()
            inner = node.value if isinstance(node, (cst.Attribute, cst.Subscript)) else None
            return (self.parts_of(inner), set()) if inner is not None else (set(), set())
        if isinstance(node, cst.Call):
            return self._returned(node)
        if isinstance(node, (cst.Comparison, cst.FormattedString, cst.Integer, cst.Float)):
            return set(), set()
        if isinstance(node, (cst.IfExp, cst.BooleanOperation, cst.NamedExpr)):
            some = [self.value(each) for each in children(node)]
            return set().union(*(one for one, _ in some)), set().union(*(h for _, h in some))
        held = set[str]().union(*(self.parts_of(each) for each in children(node)))
        if isinstance(node, cst.Lambda) and self.scope.me in syntax.names_in(node):
            held.add("self")
        return set(), held

    def _returned(self, call: cst.Call) -> tuple[set[str], set[str]]:
        """The same of what a call returns."""
        symbols, func = self.reader.symbols, call.func
        given = set().union(*(self.parts_of(arg.value) for arg in call.args))
        member = symbols.method(call)
        if member in ("get_hparam", "get_hparams"):
            text = call.args[0].value if call.args else None
            name = f".{text.raw_value}" if isinstance(text, cst.SimpleString) else ""
            return {f"{HPARAMS}{name}"}, set()
        if member.startswith("wrap_") and call.args:
            return self.value(call.args[0].value)
        if symbols.called(call) is not None:
            return set(), given
        last = syntax.code(func).rpartition(".")[2]
        if isinstance(func, cst.Name):
            if last in known.NUMBERS:
                return set(), set()
            if last in known.CONTAINERS:
                return set(), given
        path = self.path(func)
        if path in ("copy.deepcopy",) or path.startswith("math."):
            return set(), set()
        if last[:1].isupper() and (path or last in self.reader.around.texts):
            return set(), given
        owner = self.parts_of(func.value) if isinstance(func, cst.Attribute) else set()
        if isinstance(func, cst.Attribute) and last in known.OF_CONTAINERS and not path:
            return set(), owner | given
        if isinstance(func, cst.Attribute) and syntax.is_name(func.value, self.scope.me):
            owner = self.own_call(last, call).read
        elif last in self.reader.around.texts:
            owner = owner | self.project_call(last, call).read
        seen = {n for n in owner if "@" not in n or n.endswith(self.scope.tag)}
        return seen | given, set()

    def path(self, node: cst.BaseExpression) -> str:
        """The whole path of what a library has; ``""`` of anything else."""
        base, names = node, list[str]()
        while isinstance(base, cst.Attribute):
            names.insert(0, base.attr.value)
            base = base.value
        if not isinstance(base, cst.Name):
            return ""
        if base.value in self.scope.imports:
            path = ".".join([self.scope.imports[base.value], *names])
            return path if path.partition(".")[0] in known.LIBRARIES else ""
        if base.value in self.scope.names:
            return ""
        last = names[-1] if names else base.value
        return "" if last in self.reader.around.texts else self.reader.path(node)

    def own_call(self, name: str, call: cst.Call) -> Effects:
        if name not in self.reader.own:
            return Effects()
        return self.reader.of_method(name, *self.arguments(call))

    def project_call(self, name: str, call: cst.Call) -> Effects:
        return self.reader.of_project(name, *self.arguments(call))

    def arguments(self, call: cst.Call) -> tuple[Sequence[set[str]], Mapping[str, set[str]]]:
        given: list[set[str]] = []
        names: dict[str, set[str]] = {}
        for arg in call.args:
            parts = self.parts_of(arg.value)
            if arg.star:
                names["*"] = names.get("*", set()) | parts
            elif arg.keyword is not None:
                names[arg.keyword.value] = parts
            else:
                given.append(parts)
        return given, names


def targets(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What a statement, or a part of it, gives another value."""
    if type(node) not in _GIVING:
        # Asking for LibCST's kinds one by one takes long, and most nodes are none of them.
        return []
    if isinstance(node, cst.Assign):
        return [each.target for each in node.targets]
    if isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For, cst.CompFor, cst.NamedExpr)):
        return [node.target]
    if isinstance(node, cst.AsName):
        return [node.name]
    if isinstance(node, cst.Del):
        return [node.target]
    if isinstance(node, (cst.MatchAs, cst.MatchStar)) and node.name is not None:
        return [node.name]
    if isinstance(node, cst.MatchMapping) and node.rest is not None:
        return [node.rest]
    if isinstance(node, cst.FunctionDef):
        return [node.name]
    return []


_GIVING = frozenset(
    getattr(cst, kind)
    for kind in words(
        "Assign AugAssign AnnAssign For CompFor NamedExpr AsName Del MatchAs MatchStar "
        "MatchMapping FunctionDef"
    )
)

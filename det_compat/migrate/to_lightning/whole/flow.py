"""Which variables a block of code needs of the code before it, and which it sets."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
#: Where code like this stands, the variables cannot be told from the text.
_UNKNOWN = (
    ast.Global,
    ast.Nonlocal,
    ast.Match,
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.AsyncFor,
    ast.AsyncWith,
    getattr(ast, "TryStar", ast.Match),
)
_LOOKING = {"locals", "vars", "exec", "eval", "globals"}


@dataclass
class Flow:
    """What a block does with variables.

    Attributes:
        read: those that it may read before it has set them.
        bound: those that it may set.
    """

    read: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)

    def _block(self, body: Iterable[ast.stmt], sure: set[str]) -> set[str] | None:
        """The variables that are set behind these statements; None where nothing goes on."""
        for line in body:
            after = self._line(line, sure)
            if after is None:
                return None
            sure = after
        return sure

    def _line(self, line: ast.stmt, sure: set[str]) -> set[str] | None:
        if isinstance(line, ast.If):
            self._reads([line.test], sure)
            return _both([self._block(line.body, {*sure}), self._block(line.orelse, {*sure})])
        if isinstance(line, (ast.For, ast.While)):
            self._reads([line.iter if isinstance(line, ast.For) else line.test], sure)
            given = self._sets(line.target, sure) if isinstance(line, ast.For) else set()
            self._block(line.body, sure | given)
            self._block(line.orelse, {*sure})
            return sure
        if isinstance(line, ast.With):
            for item in line.items:
                self._reads([item.context_expr], sure)
                sure = sure | (
                    self._sets(item.optional_vars, sure) if item.optional_vars else set()
                )
            return self._block(line.body, sure)
        if isinstance(line, ast.Try):
            return self._tried(line, sure)
        self._reads([line], sure)
        self.bound |= (made := {*_made(line)})
        is_end = isinstance(line, (ast.Return, ast.Raise, ast.Continue, ast.Break))
        return None if is_end else sure | made

    def _tried(self, line: ast.Try, sure: set[str]) -> set[str] | None:
        ends = [self._block([*line.body, *line.orelse], {*sure})]
        for handler in line.handlers:
            named = {handler.name} if handler.name else set()
            self.bound |= named
            self._reads([handler.type] if handler.type else [], sure)
            ends.append(self._block(handler.body, sure | named))
        last = self._block(line.finalbody, {*sure})
        after = _both(ends)
        return None if last is None or after is None else after | last

    def _sets(self, target: ast.expr, sure: set[str]) -> set[str]:
        self._reads([target], sure)
        self.bound |= (made := {*stored(target)})
        return made

    def _reads(self, nodes: Iterable[ast.AST], sure: set[str]) -> None:
        nodes = [*nodes]
        self.read |= {name for node in nodes for name in loads(node)} - sure
        walrus = (each for node in nodes for each in ast.walk(node))
        self.bound |= {each.target.id for each in walrus if isinstance(each, ast.NamedExpr)}


def flow(body: Sequence[ast.stmt], given: Iterable[str] = ()) -> Flow:
    """What a block does with variables, where these are set before it."""
    made = Flow()
    made._block(body, {*given})
    return made


def _both(ends: Iterable[set[str] | None]) -> set[str] | None:
    known = [end for end in ends if end is not None]
    return set.intersection(*known) if known else None


def _made(line: ast.stmt) -> Iterator[str]:
    """The variables that a statement sets which has no others in it."""
    if isinstance(line, _DEFINITIONS):
        yield line.name
    elif isinstance(line, (ast.Import, ast.ImportFrom)):
        yield from (each.asname or each.name.partition(".")[0] for each in line.names)
    elif isinstance(line, ast.Assign):
        yield from (name for target in line.targets for name in stored(target))
    elif isinstance(line, ast.AugAssign) or (isinstance(line, ast.AnnAssign) and line.value):
        yield from stored(line.target)


def stored(node: ast.AST) -> Iterator[str]:
    """The variables that are set somewhere below a node."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id


def loads(node: ast.AST) -> set[str]:
    """The variables of the code around it that an expression or statement reads."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Store) else {node.id}
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return {node.target.id} | loads(node.value)
    found = {name for child in ast.iter_child_nodes(node) for name in loads(child)}
    if isinstance(node, _COMPREHENSIONS):
        own = {name for each in node.generators for name in stored(each.target)}
        return (found - own) | loads(node.generators[0].iter)
    if isinstance(node, (*_DEFINITIONS, ast.Lambda)):
        return found - {*_inner(node)}
    return found


def _inner(node: ast.AST) -> Iterator[str]:
    """The variables and parameters that a function has for itself."""
    yield from (each.arg for each in ast.walk(node) if isinstance(each, ast.arg))
    yield from () if isinstance(node, ast.ClassDef) else stored(node)


def set_otherwise(body: Sequence[ast.stmt]) -> set[str]:
    """The variables that are set somewhere by more than assignments, or hidden by others."""
    found: set[str] = set()
    for node in (each for line in body for each in ast.walk(line)):
        if isinstance(node, (ast.For, ast.comprehension, ast.NamedExpr)):
            found |= {*stored(node.target)}
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            found |= {*stored(node.optional_vars)}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {*_made(node)}
        elif isinstance(node, (*_DEFINITIONS, ast.Lambda)):
            found |= {*_inner(node), *stored(node), getattr(node, "name", "")}
    return found


def is_plain(body: Sequence[ast.stmt]) -> bool:
    """Whether the text tells which variables there are."""
    nodes = [each for line in body for each in ast.walk(line)]
    named = {each.id for each in nodes if isinstance(each, ast.Name)}
    return not named & _LOOKING and not any(isinstance(each, _UNKNOWN) for each in nodes)

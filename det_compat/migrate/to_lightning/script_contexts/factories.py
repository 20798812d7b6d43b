"""Functions that only make a trial, for one script that has them from another file."""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import libcst as cst

from det_compat.migrate.target import Target
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.imports import added, dropping

_INIT = re.compile(rb"\binit\(")


@dataclass(frozen=True)
class _Factory:
    """A function that comes to the script that calls it, and the imports that it needs there."""

    name: str
    home: Path
    needs: tuple[str, ...]


class Factories(Target):
    """Moves what makes a trial of a context to the one script that asks for it.

    Below ``pytorch.init()`` the trial is made at once then, as one of the script's own file is.
    """

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether some script may make a context."""
        return any(map(_INIT.search, texts))

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it neither has nor asks for such a function."""
        own, gone = self._of_scripts.get(path, []), [*self._of_home(path)]
        if not own and not gone:
            return None
        tree = cst.parse_module(self.sources[path])
        tree = tree.with_changes(body=[line for line in tree.body if _name(line) not in gone])
        for factory in own:
            tree = _with_function(tree, factory, self.sources[factory.home])
        return tree.bytes

    def _of_home(self, path: Path) -> Iterator[str]:
        every = (each for found in self._of_scripts.values() for each in found)
        return (each.name for each in every if each.home == path)

    @cached_property
    def _of_scripts(self) -> dict[Path, list[_Factory]]:
        """What comes to each script."""
        paths = (path for path, text in self.sources.items() if _INIT.search(text))
        found = {path: [*self._asked(path)] for path in paths}
        return {path: factories for path, factories in found.items() if factories}

    def _asked(self, path: Path) -> Iterator[_Factory]:
        tree = ast.parse(self.sources[path])
        contexts = {*_contexts(tree)}
        for line in tree.body if contexts else ():
            for alias in line.names if isinstance(line, ast.ImportFrom) else ():
                name = alias.name
                uses = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name]
                calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.func in uses]
                args = [arg for call in calls for arg in (*call.args, *_values(call))]
                given = {arg.id for arg in args if isinstance(arg, ast.Name)}
                is_one = len(uses) == len(calls) == 1 and not alias.asname
                if is_one and contexts & given and isinstance(line, ast.ImportFrom):
                    yield from self._factory(path, name, line, tree)

    def _factory(
        self, path: Path, name: str, line: ast.ImportFrom, script: ast.Module
    ) -> Iterator[_Factory]:
        """The function that a script imports, if it may come to it."""
        of_name = f"def {name}(".encode()
        homes = [each for each in self.analysis.imported(path) if of_name in self.sources[each]]
        word = re.compile(rf"\b{name}\b".encode())
        used = {each: len(word.findall(text)) for each, text in self.sources.items()}
        used = {each: count for each, count in used.items() if count}
        if len(homes) != 1 or used != {homes[0]: 1, path: 2}:
            return
        tree = ast.parse(self.sources[homes[0]])
        function = next((each for each in tree.body if _is_factory(each, name)), None)
        if not isinstance(function, ast.FunctionDef):
            return
        params = {each.arg for each in function.args.args}
        nodes = (n for n in ast.walk(function) if isinstance(n, ast.Name))
        free = {each.id for each in nodes} - params - {*dir(builtins)}
        imports = {each: _import(each, homes[0], tree, line) for each in sorted(free)}
        taken = {*_bound(script)} - {name}
        there = {text for each in script.body for _, text in _imported(each)}
        is_free = all(n not in taken or text in there for n, text in imports.items())
        if is_free and all(imports.values()):
            yield _Factory(name, homes[0], tuple(text for text in imports.values() if text))


def _contexts(tree: ast.Module) -> Iterator[str]:
    """The names of the contexts that a script enters."""
    for node in ast.walk(tree):
        for item in node.items if isinstance(node, ast.With) else ():
            call, name = item.context_expr, item.optional_vars
            is_init = isinstance(call, ast.Call) and re.search(r"\binit$", ast.unparse(call.func))
            if is_init and isinstance(name, ast.Name):
                yield name.id


def _values(call: ast.Call) -> list[ast.expr]:
    return [each.value for each in call.keywords]


def _is_factory(line: ast.stmt, name: str) -> bool:
    """Whether a statement is the function of this name, and that only gives what a call makes."""
    if not isinstance(line, ast.FunctionDef) or line.name != name or line.decorator_list:
        return False
    body = line.body[1:] if ast.get_docstring(line) is not None else line.body
    made = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    is_plain = not (line.args.vararg or line.args.kwarg or line.args.kwonlyargs)
    return isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and is_plain


def _bound(tree: ast.Module) -> Iterator[str]:
    """The names that anything in a file may bind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]


def _imported(line: ast.stmt) -> Iterator[tuple[str, str]]:
    """The names that a line imports, each with an import of it alone."""
    for alias in line.names if isinstance(line, (ast.Import, ast.ImportFrom)) else ():
        alone: ast.stmt = ast.Import([alias])
        if isinstance(line, ast.ImportFrom):
            alone = ast.ImportFrom(line.module, [alias], line.level)
        yield alias.asname or alias.name, ast.unparse(alone)


def _import(name: str, home: Path, tree: ast.Module, line: ast.ImportFrom) -> str | None:
    """The import of a name of another file, from which a line imports; None if there is no one."""
    for each in tree.body:
        if isinstance(each, (ast.ClassDef, ast.FunctionDef)) and each.name == name:
            return ast.unparse(ast.ImportFrom(line.module, [ast.alias(name)], line.level))
        if isinstance(each, ast.ImportFrom) and each.level:
            # What is near that file may be elsewhere, seen from the one that imports it.
            around = line.module.split(".") if line.module else []
            left = len(around) + (home.stem == "__init__") - each.level
            if left < 0 or not (module := [*around[:left], *filter(None, [each.module])]):
                continue
            each = ast.ImportFrom(".".join(module), each.names, line.level)
        found = dict(_imported(each))
        if name in found:
            return found[name]
    return None


def _name(line: cst.CSTNode) -> str:
    return line.name.value if isinstance(line, cst.FunctionDef) else ""


def _with_function(tree: cst.Module, factory: _Factory, source: bytes) -> cst.Module:
    """The script with the function behind its imports, of which it is none any more."""
    function = next(n for n in cst.parse_module(source).body if _name(n) == factory.name)
    tree = added(dropping(tree, _WithoutImport(factory.name)), factory.needs)
    lines = [*tree.body]
    small = map(syntax.simple, lines)
    imports = [i for i, each in enumerate(small) if isinstance(each, (cst.Import, cst.ImportFrom))]
    at = imports[-1] + 1 if imports else 0
    return tree.with_changes(body=[*lines[:at], function, *lines[at:]])


class _WithoutImport(cst.CSTTransformer):
    """Leaves out one name of the imports of a file."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def leave_ImportFrom(
        self, original: cst.ImportFrom, updated: cst.ImportFrom
    ) -> cst.ImportFrom | cst.RemovalSentinel:
        if isinstance(updated.names, cst.ImportStar):
            return updated
        left = [each for each in updated.names if each.evaluated_name != self._name]
        if len(left) == len(updated.names):
            return updated
        if not left:
            return cst.RemoveFromParent()
        return updated.with_changes(names=syntax.without_commas(left))

"""Code that is followed: the functions and classes of a project, and the paths of names."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from functools import cache, cached_property
from typing import TypeAlias

from det_compat.migrate.tree.elsewhere import Elsewhere

Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def self_name(method: Scope) -> str:
    """What a method calls its object."""
    given = [*method.args.posonlyargs, *method.args.args]
    return given[0].arg if given and not is_static(method) else ""


def is_static(method: Scope) -> bool:
    """Whether a method gets no object."""
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in method.decorator_list)


def methods(node: ast.ClassDef) -> dict[str, Scope]:
    """The methods of a class by name."""
    return {line.name: line for line in node.body if isinstance(line, FUNCTIONS)}


def dotted(node: ast.expr) -> str | None:
    """The text of a dotted name; None of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)) is not None:
        return f"{owner}.{node.attr}"
    return None


@cache
def parsed(text: str) -> ast.Module:
    """The statements of a text; none if it cannot be parsed by itself."""
    try:
        return ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return ast.Module([], [])


#: What these are given is called with each batch.
_HOOKS = ("register_forward_hook", "register_forward_pre_hook", "register_module_forward_hook")


class Project:
    """What names stand for in the files that are migrated together."""

    def __init__(self, around: Elsewhere) -> None:
        self._around = around

    def __contains__(self, name: str) -> bool:
        return name in self._around.texts

    def definitions(self, name: str) -> list[Scope | ast.ClassDef]:
        """All functions and classes of a name."""
        body = parsed(self._around.texts.get(name, "")).body
        return [line for line in body if isinstance(line, (*FUNCTIONS, ast.ClassDef))]

    def methods(self, name: str) -> Iterator[dict[str, Scope]]:
        """The methods of each class of a name, with those that it inherits in the project."""
        for node in self.definitions(name):
            if isinstance(node, ast.ClassDef):
                yield self._with_inherited(node, {name})

    def having(self, method: str) -> list[str]:
        """The classes, but for trials, that have a method of this name."""
        return [
            name
            for name in self._around.classes
            if any(method in own for own in self.methods(name))
        ]

    def _with_inherited(self, node: ast.ClassDef, known: set[str]) -> dict[str, Scope]:
        found: dict[str, Scope] = {}
        for base in reversed(node.bases):
            name = (dotted(base) or "").rpartition(".")[2]
            if name not in known:
                for each in self.definitions(name):
                    if isinstance(each, ast.ClassDef):
                        found |= self._with_inherited(each, {*known, name})
        return found | methods(node)

    @cached_property
    def has_hooks(self) -> bool:
        """Whether some code has models call it."""
        return not self._around.asked.isdisjoint(_HOOKS)

    def foreign_bases(self, name: str) -> list[str]:
        """The bases of the classes of a name that no file of the project defines."""
        found, known = [], [name]
        for each in known:
            for node in self.definitions(each):
                for base in node.bases if isinstance(node, ast.ClassDef) else ():
                    path = dotted(base) or "?"
                    last = path.rpartition(".")[2]
                    if last not in self:
                        found.append(path)
                    elif last not in known:
                        known.append(last)
        return found

    def paths(self, code: str) -> list[str]:
        """What a dotted name that begins with an import may be; nothing for any other."""
        root, dot, rest = code.partition(".")
        return [f"{path}{dot}{rest}" for path in sorted(self._around.imported.get(root, ()))]

    def path(self, node: ast.expr) -> str | None:
        """A dotted name, as it is written, that begins with an import; None for any other."""
        text = dotted(node)
        return text if text is not None and self.paths(text) else None

    def is_variable(self, name: str) -> bool:
        """Whether a name may be that of a variable of a file."""
        last = {path.rpartition(".")[2] for path in self._around.imported.get(name, (name,))}
        return not last.isdisjoint(self._around.variables)

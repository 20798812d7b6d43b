"""Imports of Determined's that nothing needs any more, and those that are still there.

A file that only hands names of Determined's on to others has nothing else that is rewritten.
"""

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst

from det_compat.catalog.support import exports, is_determined
from det_compat.migrate.refused import of_model_hub
from det_compat.migrate.results import FileResult
from det_compat.migrate.review.names import defined
from det_compat.migrate.review.project import Code, Finding, Text, imports
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.imports import dropping
from det_compat.migrate.tree.marks import MARK


def without_unneeded(
    files: Sequence[FileResult], but: Collection[Path], read: Code
) -> list[FileResult]:
    """The files without the imports of Determined's that neither they nor other files use.

    Args:
        files: the results.
        but: the files that stay as they are.
        read: what is in them by now.
    """
    made = []
    for file in files:
        text = read.files.get(file.path)
        if text is not None and not file.problem and file.path not in but:
            found = _unneeded(text, read) if not of_model_hub(file.before) else set()
            if found:
                tree = dropping(cst.parse_module(file.after), _Dropping(found))
                file = replace(file, after=tree.bytes)
        made.append(file)
    return made


def still_there(text: Text) -> Iterator[Finding]:
    """The imports of Determined's of a file in which nothing says why they are there."""
    if MARK.encode() in text.source:
        return
    for node, module, level in imports(text.nodes):
        if not level and is_determined(module):
            yield Finding(node.lineno, f"{module} is imported here, and not rewritten")


@dataclass(frozen=True)
class _Import:
    """A name that a line imports: the module, and the name in it; ``""`` for the module itself."""

    module: str
    name: str


def _unneeded(text: Text, read: Code) -> set[_Import]:
    """The imports of Determined's at the top level of a file that nothing uses."""
    lines = [line for line in text.tree.body if isinstance(line, (ast.Import, ast.ImportFrom))]
    found = [each for each in imports(lines) if not each[2] and is_determined(each[1])]
    if not found:
        return set()
    used = {node.id for node in text.nodes if isinstance(node, ast.Name)}
    used |= {str(node.value) for node in text.nodes if isinstance(node, ast.Constant)}
    asked = used | {*_asked(text, read)}
    idle: set[_Import] = set()
    for node, module, _ in found:
        for alias in node.names:
            bound = (alias.asname or alias.name).partition(".")[0]
            if not isinstance(node, ast.ImportFrom):
                idle |= set() if bound in asked or alias.name != module else {_Import(module, "")}
            elif alias.name != "*":
                idle |= set() if bound in asked else {_Import(module, alias.name)}
            elif (known := {*exports(module)}) and known.isdisjoint(asked):
                idle.add(_Import(module, "*"))
    return idle


def _asked(text: Text, read: Code) -> Iterator[str]:
    """The names that other files import from a file; all of theirs where they import a star."""
    for other in read.files.values():
        for node, module, level in imports(other.nodes) if other is not text else ():
            if read.lookup(other.path, module, level) != text.path:
                continue
            names = {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom) and "*" not in names:
                yield from names
            else:
                # With a star, or as attributes of the module.
                own = defined(other)
                yield from (
                    n.id for n in other.nodes if isinstance(n, ast.Name) and n.id not in own
                )
                yield from (n.attr for n in other.nodes if isinstance(n, ast.Attribute))


class _Dropping(cst.CSTTransformer):
    def __init__(self, found: set[_Import]) -> None:
        super().__init__()
        self._found = found

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def leave_ImportFrom(
        self, original: cst.ImportFrom, updated: cst.ImportFrom
    ) -> cst.ImportFrom | cst.RemovalSentinel:
        if updated.module is None or updated.relative:
            return updated
        module = syntax.code(updated.module)
        if isinstance(updated.names, cst.ImportStar):
            is_idle = _Import(module, "*") in self._found
            return cst.RemoveFromParent() if is_idle else updated
        kept = [n for n in updated.names if _Import(module, syntax.code(n.name)) not in self._found]
        if len(kept) == len(updated.names):
            return updated
        if not kept:
            return cst.RemoveFromParent()
        return updated.with_changes(names=syntax.without_commas(kept))

    def leave_Import(
        self, original: cst.Import, updated: cst.Import
    ) -> cst.Import | cst.RemovalSentinel:
        kept = [n for n in updated.names if _Import(syntax.code(n.name), "") not in self._found]
        if len(kept) == len(updated.names):
            return updated
        return (
            updated.with_changes(names=syntax.without_commas(kept))
            if kept
            else (cst.RemoveFromParent())
        )

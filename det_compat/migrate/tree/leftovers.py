"""What nothing has replaced: it becomes what it was, below a comment that says so.

A function that still needs Determined imports it by itself, so that the file can be imported
without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import libcst as cst

from det_compat.catalog import support
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import File, FileTransformer
from det_compat.migrate.tree.imports import imported
from det_compat.migrate.tree.symbols import CONTEXT

_Block = TypeVar("_Block", cst.FunctionDef, cst.If)


def put_back(tree: cst.Module, file: File) -> cst.Module:
    """Put back what placeholders stand for; a context that is handed on is the module now."""
    imports = dict(pair for line in tree.body for pair in imported(line))
    return tree.visit(_Leftovers(file, imports))


def put_back_silently(tree: cst.Module, file: File) -> cst.Module:
    """Put back everything, without comments: this code is still Determined's."""
    return tree.visit(_AsItWas(file))


class _AsItWas(FileTransformer[File]):
    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        symbol = self.symbols.get(original)
        if symbol is None:
            return updated
        self.file.imports.kept |= syntax.names_in(symbol.original)
        return symbol.original.deep_clone()


class _Leftovers(FileTransformer[File]):
    marked_statements = (cst.SimpleStatementLine, cst.FunctionDef, cst.ClassDef, cst.If)

    def __init__(self, file: File, imports: dict[str, str]) -> None:
        super().__init__(file)
        self._imports = imports
        # the names that each function around needs, below the module's own
        self._needed: list[set[str]] = [file.imports.kept]
        self._by_block: dict[cst.FunctionDef | cst.If, set[str]] = {}
        self._in_annotation = 0

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        found = self.symbols.member(node)
        if found is None:
            return True
        link = support.of_member(CONTEXT, found[1].partition(".")[0]).link
        self._mark(f"the context's {found[1]}", link)
        return False

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> syntax.Expression:
        found = self.symbols.member(original)
        if found is None:
            return updated
        symbol = self.symbols.get(found[0])
        assert symbol is not None
        return syntax.expression(f"{syntax.code(symbol.original)}.{found[1]}")

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> syntax.Expression:
        symbol = self.symbols.get(original)
        if symbol is None:
            return updated
        if symbol.is_object and symbol.path == CONTEXT:
            return symbol.module.deep_clone()
        if self._in_annotation:
            self.file.imports.new.add("from typing import Any")
            return cst.Name("Any")
        link = support.of_name(symbol.path).link
        self._mark(symbol.path.removeprefix("det_compat."), link)
        names = syntax.names_in(symbol.original)
        self._needed[-1 if names <= self._imports.keys() else 0] |= names
        return symbol.original.deep_clone()

    def _mark(self, what: str, link: str) -> None:
        self.mark(f"{what} has no counterpart", link)

    def visit_Annotation(self, node: cst.Annotation) -> None:
        self._in_annotation += 1

    def leave_Annotation(self, original: cst.Annotation, updated: cst.Annotation) -> cst.Annotation:
        self._in_annotation -= 1
        return updated

    def visit_FunctionDef_body(self, node: cst.FunctionDef) -> None:
        self._needed.append(set())

    def leave_FunctionDef_body(self, node: cst.FunctionDef) -> None:
        self._leave_block(node)

    def leave_FunctionDef(
        self, original: cst.FunctionDef, updated: cst.FunctionDef
    ) -> cst.BaseStatement:
        return self._importing(original, updated)

    def visit_If_body(self, node: cst.If) -> None:
        if _is_main(node):
            self._needed.append(set())

    def leave_If_body(self, node: cst.If) -> None:
        if _is_main(node):
            self._leave_block(node)

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.BaseStatement:
        return self._importing(original, updated)

    def _leave_block(self, node: cst.FunctionDef | cst.If) -> None:
        names = self._needed.pop()
        if len(self._needed) > 1:
            # the outermost function imports
            self._needed[-1] |= names
        else:
            self._by_block[node] = names

    def _importing(self, original: cst.FunctionDef | cst.If, node: _Block) -> _Block:
        names = self._by_block.pop(original, set())
        lines = sorted({self._imports[name] for name in names})
        if not lines:
            return node
        self.file.imports.local.update(lines)
        body: Sequence[cst.BaseStatement] = syntax.body_of(node)
        at: int = 1 if syntax.has_docstring(body) else 0
        made: list[cst.BaseStatement] = syntax.statements("".join(f"{line}\n" for line in lines))
        return syntax.with_body(node, [*body[:at], *made, *body[at:]])


def _is_main(node: cst.If) -> bool:
    """Whether a block only runs where its file is the program."""
    return syntax.code(node.test).startswith("__name__ ==")

"""What nothing has replaced: it becomes what it was, below a comment that says so.

A function that still needs Determined imports it by itself, so that the file can be imported
without.
"""

from __future__ import annotations

from typing import TypeVar

import libcst as cst

from det_compat.catalog import support
from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.imports import bound_name
from det_compat.migrate.tree.marks import REST, marked
from det_compat.migrate.tree.symbols import CONTEXT
from det_compat.migrate.tree.syntax import code, has_docstring, names_in, simple, statements

_Block = TypeVar("_Block", cst.FunctionDef, cst.If)


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Put back what stand-ins stand for; a context that is handed on is the module now."""
    return tree.visit(_Leftovers(file, _imports_of(tree)))


def _imports_of(tree: cst.Module) -> dict[str, str]:
    """The statements that import each name, of the imports of the file itself."""
    found: dict[str, str] = {}
    for line in tree.body:
        small = simple(line)
        if not isinstance(small, (cst.Import, cst.ImportFrom)):
            continue
        if isinstance(small.names, cst.ImportStar) or getattr(small, "relative", None):
            continue
        start = "import"
        if isinstance(small, cst.ImportFrom) and small.module is not None:
            start = f"from {code(small.module)} import"
        for alias in small.names:
            text = code(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT))
            found[bound_name(alias)] = f"{start} {text}"
    return found


class _AsItWas(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        symbol = self._file.symbols.get(original_node)
        if symbol is None:
            return updated_node
        self._file.kept |= names_in(symbol.original)
        return symbol.original.deep_clone()


def restore(tree: cst.Module, file: File) -> cst.Module:
    """Put back everything, without comments: this code is still Determined's."""
    return tree.visit(_AsItWas(file))


class _Leftovers(cst.CSTTransformer):
    def __init__(self, file: File, imports: dict[str, str]) -> None:
        self._file = file
        self._imports = imports
        self._found: list[dict[str, str]] = [{}]
        # the names that each function around needs, below the module's own
        self._needed: list[set[str]] = [file.kept]
        self._by_block: dict[cst.FunctionDef | cst.If, set[str]] = {}
        self._in_annotation = 0

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        found = self._file.symbols.member(node)
        if found is None:
            return True
        link = support.of_member(CONTEXT, found[1].partition(".")[0]).link
        self._found[-1][f"the context's {found[1]}"] = link or REST
        return False

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        found = self._file.symbols.member(original_node)
        if found is None:
            return updated_node
        symbol = self._file.symbols.get(found[0])
        assert symbol is not None
        text = f"{code(symbol.original)}.{found[1]}"
        return cst.parse_expression(text)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        symbol = self._file.symbols.get(original_node)
        if symbol is None:
            return updated_node
        if symbol.is_object and symbol.path == CONTEXT:
            return symbol.module.deep_clone()
        if self._in_annotation:
            self._file.imports.add("from typing import Any")
            return cst.Name("Any")
        name = symbol.path.removeprefix("det_compat.")
        self._found[-1][name] = support.of_name(symbol.path).link or REST
        names = names_in(symbol.original)
        self._needed[-1 if names <= self._imports.keys() else 0] |= names
        return symbol.original.deep_clone()

    def visit_Annotation(self, node: cst.Annotation) -> None:
        self._in_annotation += 1

    def leave_Annotation(
        self, original_node: cst.Annotation, updated_node: cst.Annotation
    ) -> cst.Annotation:
        self._in_annotation -= 1
        return updated_node

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self._found.append({})

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement:
        return self._marked(updated_node)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._found.append({})

    def visit_FunctionDef_body(self, node: cst.FunctionDef) -> None:
        self._enter_block()

    def leave_FunctionDef_body(self, node: cst.FunctionDef) -> None:
        self._leave_block(node)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.BaseStatement:
        updated_node = self._importing(original_node, updated_node)
        return self._marked(updated_node)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._found.append({})

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.BaseStatement:
        return self._marked(updated_node)

    def visit_If(self, node: cst.If) -> None:
        self._found.append({})

    def visit_If_body(self, node: cst.If) -> None:
        if _is_main(node):
            self._enter_block()

    def leave_If_body(self, node: cst.If) -> None:
        if _is_main(node):
            self._leave_block(node)

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.BaseStatement:
        return self._marked(self._importing(original_node, updated_node))

    def _enter_block(self) -> None:
        self._needed.append(set())

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
        self._file.local.update(lines)
        made: list[cst.BaseStatement] = statements("".join(f"{line}\n" for line in lines))
        block = node.body
        if isinstance(block, cst.SimpleStatementSuite):
            block = cst.IndentedBlock([cst.SimpleStatementLine(block.body)])
        body: list[cst.BaseStatement] = [
            line for line in block.body if isinstance(line, cst.BaseStatement)
        ]
        at: int = 1 if has_docstring(body) else 0
        return node.with_changes(body=block.with_changes(body=[*body[:at], *made, *body[at:]]))

    def _marked(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        for what, link in self._found.pop().items():
            statement = marked(statement, f"{what} has no counterpart", link)
        return statement


def _is_main(node: cst.If) -> bool:
    """Whether a block only runs where its file is the program."""
    return code(node.test).startswith("__name__ ==")

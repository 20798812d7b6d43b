"""What nothing has replaced: it becomes what it was, below a comment that says so."""

from __future__ import annotations

import libcst as cst

from det_compat.check import support
from det_compat.migrate.file import File
from det_compat.migrate.marks import REST, marked
from det_compat.migrate.symbols import CONTEXT
from det_compat.migrate.syntax import code, names_in


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Put back what stand-ins stand for; a context that is handed on is the module now."""
    return tree.visit(_Leftovers(file))


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
    def __init__(self, file: File) -> None:
        self._file = file
        self._found: list[dict[str, str]] = [{}]

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
        name = symbol.path.removeprefix("det_compat.")
        self._found[-1][name] = support.of_name(symbol.path).link or REST
        self._file.kept |= names_in(symbol.original)
        return symbol.original.deep_clone()

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self._found.append({})

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement:
        return self._marked(updated_node)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._found.append({})

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.BaseStatement:
        return self._marked(updated_node)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._found.append({})

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.BaseStatement:
        return self._marked(updated_node)

    def visit_If(self, node: cst.If) -> None:
        self._found.append({})

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.BaseStatement:
        return self._marked(updated_node)

    def _marked(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        for what, link in self._found.pop().items():
            statement = marked(statement, f"{what} has no counterpart", link)
        return statement

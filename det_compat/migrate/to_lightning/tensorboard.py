"""TorchWriters: the logger of the module writes instead."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.symbols import WRITER
from det_compat.migrate.tree.syntax import call_of, code, expression, simple


def apply(tree: cst.Module, file: File) -> cst.Module:
    """``self.logger = TorchWriter()`` goes, its ``writer`` is ``self.logger.experiment``."""
    return tree.visit(_Writers(file))


class _Writers(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small = simple(updated_node)
        call = call_of(small) if isinstance(small, (cst.Assign, cst.AnnAssign)) else None
        made = call is not None and self._file.symbols.path(call.func) == WRITER
        return cst.RemoveFromParent() if made else updated_node

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        symbols = self._file.symbols
        if not symbols.is_writer(updated_node.value) or updated_node.attr.value != "writer":
            return updated_node
        symbol = symbols.get(updated_node.value)
        assert symbol is not None
        if code(symbol.module) == code(symbol.original):
            # not a trial's
            return updated_node
        return expression(f"{code(symbol.module)}.logger.experiment")

"""Functions of Determined's that are a few lines of torch."""

from __future__ import annotations

import libcst as cst

from det_compat import LOG_FORMAT
from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.marks import above, comments_of
from det_compat.migrate.tree.syntax import argument, code, simple, statement

_LOG_FORMAT = "det_compat.LOG_FORMAT"
_RESET = "det_compat.pytorch.reset_parameters"


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Write out ``reset_parameters(model)`` where it is a statement, and the log format."""
    return tree.visit(_Functions(file))


class _Functions(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement:
        small = simple(updated_node)
        call = small.value if isinstance(small, cst.Expr) else None
        if not isinstance(call, cst.Call) or self._file.symbols.path(call.func) != _RESET:
            return updated_node
        model = argument(call, 0, "model")
        if model is None:
            return updated_node
        made = statement(
            f"for module in {code(model)}.modules():\n"
            '    if hasattr(module, "reset_parameters"):\n'
            "        module.reset_parameters()\n"
        )
        return above(made, comments_of(updated_node))

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if self._file.symbols.path(original_node) != _LOG_FORMAT:
            return updated_node
        return cst.SimpleString(repr(LOG_FORMAT).replace("'", '"'))

"""Functions of Determined's that are a few lines of torch."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.file import File
from det_compat.migrate.marks import above, comments_of
from det_compat.migrate.syntax import argument, code, simple, statement

_RESET = "det_compat.pytorch.reset_parameters"


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Write out ``reset_parameters(model)`` where it is a statement."""
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

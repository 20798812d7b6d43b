"""Optimizers and schedulers that are wrapped and not kept: the module must keep them."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.syntax import self_name, simple

_NAMES = {"wrap_optimizer": "optimizer", "wrap_lr_scheduler": "lr_scheduler"}


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Assign what ``context.wrap_lr_scheduler(...)`` returns in ``__init__`` to an attribute."""
    return tree.visit(_Assigning(file))


class _Assigning(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file
        self._own: list[str] = []
        self._taken: set[str] = set()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._own.append(self_name(node) if node.name.value == "__init__" else "")
        self._taken = set()

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self._own.pop()
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        small = simple(updated_node)
        found = self._file.symbols.called(small.value) if isinstance(small, cst.Expr) else None
        name = _NAMES.get(found[1]) if found else None
        if name is None or not isinstance(small, cst.Expr) or not self._own or not self._own[-1]:
            return updated_node
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        target = cst.AssignTarget(cst.Attribute(cst.Name(self._own[-1]), cst.Name(name)))
        return updated_node.with_changes(body=[cst.Assign([target], small.value)])

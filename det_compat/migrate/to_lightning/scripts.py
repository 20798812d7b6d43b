"""Scripts that train with det_compat: the migrated module needs no adapter."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.syntax import argument, code, expression, simple

_ALIASING = "det_compat.alias_determined"
_ADAPTING = ("det_compat.to_lightning", "det_compat.adapters.to_lightning")
_KNOWN = {"hparams", "exp_conf"}


def apply(tree: cst.Module, file: File) -> cst.Module:
    """``to_lightning(MyTrial)(hparams, exp_conf)`` is ``MyTrial(**hparams)`` now."""
    return tree.visit(_Scripts(file))


class _Scripts(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small = simple(updated_node)
        call = small.value if isinstance(small, cst.Expr) else None
        is_aliasing = isinstance(call, cst.Call) and self._file.symbols.path(call.func) == _ALIASING
        return cst.RemoveFromParent() if is_aliasing else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        adapting = updated_node.func
        if not isinstance(adapting, cst.Call) or len(adapting.args) != 1:
            return updated_node
        if self._file.symbols.path(adapting.func) not in _ADAPTING:
            return updated_node
        trial = code(adapting.args[0].value)
        plan = self._file.trials.get(trial.rpartition(".")[2])
        if plan is None or any(arg.star for arg in updated_node.args):
            return updated_node
        if any(arg.keyword and arg.keyword.value not in _KNOWN for arg in updated_node.args):
            return updated_node
        hparams, config = (
            argument(updated_node, 0, "hparams"),
            argument(updated_node, 1, "exp_conf"),
        )
        given = [f"**{code(hparams)}"] if hparams is not None else []
        if config is not None and "experiment_config" in plan.arguments:
            given.append(f"experiment_config={code(config)}")
        if config is not None and "data_config" in plan.arguments:
            given.append(f'data_config={code(config)}["data"]')
        return expression(f"{trial}({', '.join(given)})")

"""Loader methods, under Lightning's names and with torch's loaders."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.syntax import argument, call_of, code, expression, simple, target_of

_NAMES = {
    "build_training_data_loader": "train_dataloader",
    "build_validation_data_loader": "val_dataloader",
}
_SAMPLERS = "det_compat.pytorch.samplers."
#: Lightning repeats and shards by itself.
_UNNEEDED = {
    f"{_SAMPLERS}{name}"
    for name in (
        "RepeatSampler",
        "RepeatBatchSampler",
        "DistributedSampler",
        "DistributedBatchSampler",
        "SkipSampler",
        "SkipBatchSampler",
    )
} | {"det_compat.pytorch.adapt_batch_sampler"}


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Rename loader methods wherever they are named, and drop what Lightning does by itself."""
    return tree.visit(_Loaders(file))


class _Loaders(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file
        self._classes: list[str] = []
        self._whole: list[bool] = []

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._classes.append(node.name.value)

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        self._classes.pop()
        return updated_node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        plan = self._file.plans.get(self._classes[-1]) if self._classes else None
        is_validation = node.name.value == "build_validation_data_loader"
        self._whole.append(is_validation and plan is not None and plan.evaluates_whole)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self._whole.pop()
        new = _NAMES.get(updated_node.name.value)
        if new is None or not self._classes or self._classes[-1] not in self._file.plans:
            return updated_node
        return updated_node.with_changes(name=cst.Name(new))

    def leave_AssignTarget(
        self, original_node: cst.AssignTarget, updated_node: cst.AssignTarget
    ) -> cst.AssignTarget:
        target = updated_node.target
        in_class = bool(self._classes) and self._classes[-1] in self._file.plans
        if not in_class or self._whole or not isinstance(target, cst.Name):
            return updated_node
        # `build_validation_data_loader = build_training_data_loader`
        new = _NAMES.get(target.value)
        return updated_node.with_changes(target=cst.Name(new)) if new else updated_node

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        value = updated_node.value
        new = _NAMES.get(value.value) if isinstance(value, cst.Name) else None
        return updated_node.with_changes(value=cst.Name(new)) if new else updated_node

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        if not self._whole or not self._whole[-1] or updated_node.value is None:
            return updated_node
        # one item, the loader itself, so that validation_step gets it whole
        self._file.imports.add("import torch")
        text = f"torch.utils.data.DataLoader([{code(updated_node.value)}], batch_size=None)"
        return updated_node.with_changes(
            value=expression(text), whitespace_after_return=cst.SimpleWhitespace(" ")
        )

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small = simple(updated_node)
        is_idle = isinstance(small, cst.Assign) and target_of(updated_node) == code(small.value)
        was_call = call_of(original_node) is not None
        return cst.RemoveFromParent() if is_idle and was_call else updated_node

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        new = _NAMES.get(updated_node.attr.value)
        return updated_node.with_changes(attr=cst.Name(new)) if new else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        path = self._file.symbols.path(updated_node.func)
        if path in _UNNEEDED and updated_node.args:
            return updated_node.args[0].value
        func = updated_node.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "get_data_loader":
            return updated_node
        repeat = argument(updated_node, 0, "repeat")
        is_once = repeat is None or code(repeat) == "False"
        return func.value if is_once else updated_node

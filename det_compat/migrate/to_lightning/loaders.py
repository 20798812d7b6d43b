"""Loaders and their batches: methods with Lightning's names, torch's loaders, batches as before."""

from collections.abc import Iterable

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile, LightningTransformer
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines

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


def rename_loaders(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Rename loader methods wherever they are named, and drop what Lightning does by itself."""
    return tree.visit(_Loaders(file))


class _Loaders(LightningTransformer):
    def _is_whole(self) -> bool:
        """Whether this is where a trial makes the loader that it evaluates as a whole."""
        if not self.functions or self.plan is None or not self.plan.evaluates_whole:
            return False
        return self.functions[-1].name.value == "build_validation_data_loader"

    def leave_FunctionDef(
        self, original: cst.FunctionDef, updated: cst.FunctionDef
    ) -> cst.FunctionDef:
        new = _NAMES.get(updated.name.value)
        if new is None or self.plan is None:
            return updated
        return updated.with_changes(name=cst.Name(new))

    def leave_AssignTarget(
        self, original: cst.AssignTarget, updated: cst.AssignTarget
    ) -> cst.AssignTarget:
        target = updated.target
        if self.plan is None or self.functions or not isinstance(target, cst.Name):
            return updated
        # `build_validation_data_loader = build_training_data_loader`
        new = _NAMES.get(target.value)
        return updated.with_changes(target=cst.Name(new)) if new else updated

    def leave_Assign(self, original: cst.Assign, updated: cst.Assign) -> cst.Assign:
        value = updated.value
        new = _NAMES.get(value.value) if isinstance(value, cst.Name) else None
        return updated.with_changes(value=cst.Name(new)) if new else updated

    def leave_Return(self, original: cst.Return, updated: cst.Return) -> cst.Return:
        if updated.value is None or not self._is_whole():
            return updated
        # one item, the loader itself, so that validation_step gets it whole
        self.file.imports.new.add("import torch")
        text = f"torch.utils.data.DataLoader([{syntax.code(updated.value)}], batch_size=None)"
        return updated.with_changes(
            value=syntax.expression(text), whitespace_after_return=cst.SimpleWhitespace(" ")
        )

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        was_call = syntax.call_of(original) is not None
        return cst.RemoveFromParent() if was_call and syntax.is_idle(updated) else updated

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        new = _NAMES.get(updated.attr.value)
        return updated.with_changes(attr=cst.Name(new)) if new else updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        path = self.symbols.path(updated.func)
        if path in _UNNEEDED and updated.args:
            return updated.args[0].value
        func = updated.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "get_data_loader":
            return updated
        repeat = syntax.argument(updated, 0, "repeat")
        is_once = repeat is None or syntax.code(repeat) == "False"
        return func.value if is_once else updated


_STAYING = """\
def transfer_batch_to_device(self, batch, device, dataloader_idx):
    # batches stay where loaders make them
    return batch
"""
_CONVERTING = """\
def on_before_batch_transfer(self, batch, dataloader_idx):
    # the collate_fn makes NumPy arrays
    return torch.utils.data.default_convert(batch)
"""


def transfer_hooks(stays: bool, arrays: bool) -> list[cst.BaseStatement]:
    """The hooks of a trial whose batches stay, or have NumPy's arrays."""
    if stays:
        return [syntax.method(_STAYING)]
    return [syntax.method(_CONVERTING)] if arrays else []


def collates_arrays(trees: Iterable[cst.Module]) -> bool:
    """Whether a ``collate_fn`` of these files makes arrays, which Determined made tensors of."""
    trees = [*trees]
    names = {name for tree in trees for name in _collating(tree)}
    return any(
        node.name.value in names and syntax.names_in(node.body) & {"np", "numpy"}
        for tree in trees
        for node in syntax.find(tree, cst.FunctionDef)
    )


def _collating(tree: cst.Module) -> set[str]:
    """The names of the functions that loaders collate with."""
    given = [
        arg.value
        for arg in syntax.find(tree, cst.Arg)
        if arg.keyword is not None and arg.keyword.value == "collate_fn"
    ]
    names = {syntax.code(value).rpartition(".")[2] for value in given}
    for assign in syntax.find(tree, cst.Assign):
        if syntax.code(assign.targets[0].target).rpartition(".")[2] in names:
            # `collate = staticmethod(function)`
            names |= syntax.names_in(assign.value)
    return names

"""Batches on their way to a device: the hooks for it, and what code moves by itself."""

from collections.abc import Iterable, Mapping

import libcst as cst

from det_compat.migrate.to_lightning.data.loaders import made_loaders
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols

_STEPS = ("training_step", "validation_step", "train_batch", "evaluate_batch")


def is_batch(data: cst.BaseExpression, function: cst.FunctionDef | None) -> bool:
    """Whether this is the batch that a step has been given."""
    if function is None or function.name.value not in _STEPS:
        return False
    names = [param.name.value for param in function.params.params]
    return len(names) > 1 and syntax.code(data) == names[1]


def is_tensor(data: cst.BaseExpression, function: cst.FunctionDef | None) -> bool:
    """Whether this is what a function of torch's has returned."""
    if isinstance(data, cst.Name) and function is not None:
        values = [
            a.value
            for a in syntax.find(function, cst.Assign)
            if syntax.code(a.targets[0].target) == data.value
        ]
        return any(isinstance(v, cst.Call) and is_tensor(v, None) for v in values)
    return isinstance(data, cst.Call) and syntax.code(data.func).startswith("torch.")


_STAYING = """\
def transfer_batch_to_device(self, batch, device, dataloader_idx):
    # batches stay where loaders make them
    return batch
"""
_CONVERTING = """\
def on_before_batch_transfer(self, batch, dataloader_idx):
    # what a collate_fn makes may be NumPy arrays
    return torch.utils.data.default_convert(batch)
"""


#: The hook that makes tensors of the arrays in a batch.
CONVERTING = "on_before_batch_transfer"


def is_converting(method: cst.FunctionDef) -> bool:
    """Whether a method is nothing but that hook as it is written here."""
    return syntax.code(syntax.method(_CONVERTING)).strip() == syntax.code(method).strip()


def transfer_hooks(stays: bool, arrays: bool) -> list[cst.BaseStatement]:
    """The hooks of a trial whose batches stay, or have NumPy's arrays."""
    if stays:
        return [syntax.method(_STAYING)]
    return [syntax.method(_CONVERTING)] if arrays else []


def is_default_collated(own: Mapping[str, cst.FunctionDef], symbols: Symbols) -> bool:
    """Whether the loaders of a trial are known to make tensors of arrays by themselves."""
    made = made_loaders(own, symbols)
    return bool(made) and all(
        symbols.path(call.func) == "det_compat.pytorch.DataLoader"
        and syntax.argument(call, 6, "collate_fn") is None
        for call in made
    )


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
    given = ((arg.keyword, arg.value) for arg in syntax.find(tree, cst.Arg))
    collating = (value for keyword, value in given if syntax.is_name(keyword, "collate_fn"))
    names = {syntax.code(value).rpartition(".")[2] for value in collating}
    for assign in syntax.find(tree, cst.Assign):
        if syntax.code(assign.targets[0].target).rpartition(".")[2] in names:
            # A class may say `collate = staticmethod(function)`.
            names |= syntax.names_in(assign.value)
    return names

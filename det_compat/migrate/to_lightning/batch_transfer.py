"""What batches were when they arrived: on the device or not, tensors in the place of arrays."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.syntax import code, find, method, names_in

_STAYS = "experimental.disable_auto_to_device"
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


def stays_put(node: cst.CSTNode, symbols: Symbols) -> bool:
    """Whether a trial asks for batches that are not moved to the device."""
    calls = (symbols.called(call) for call in find(node, cst.Call))
    return any(found is not None and found[1] == _STAYS for found in calls)


def hooks(stays: bool, arrays: bool) -> list[cst.BaseStatement]:
    """The hooks of a trial whose batches stay, or have NumPy's arrays."""
    if stays:
        return [method(_STAYING)]
    return [method(_CONVERTING)] if arrays else []


def collates_arrays(trees: Iterable[cst.Module]) -> bool:
    """Whether a ``collate_fn`` of these files makes arrays, which Determined made tensors of."""
    trees = [*trees]
    names = {name for tree in trees for name in _collating(tree)}
    return any(
        node.name.value in names and names_in(node.body) & {"np", "numpy"}
        for tree in trees
        for node in find(tree, cst.FunctionDef)
    )


def _collating(tree: cst.Module) -> set[str]:
    """The names of the functions that loaders collate with."""
    given = [
        arg.value
        for arg in find(tree, cst.Arg)
        if arg.keyword is not None and arg.keyword.value == "collate_fn"
    ]
    names = {code(value).rpartition(".")[2] for value in given}
    for assign in find(tree, cst.Assign):
        if code(assign.targets[0].target).rpartition(".")[2] in names:
            # `collate = staticmethod(function)`
            names |= names_in(assign.value)
    return names

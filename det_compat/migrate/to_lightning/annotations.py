"""Determined's types, under the names that torch and Lightning have for them."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.syntax import expression

_LIGHTNING = "import pytorch_lightning as pl"
_TYPES = {
    "det_compat.pytorch.DataLoader": ("DataLoader", "from torch.utils.data import DataLoader"),
    "det_compat.pytorch.TorchData": ("Any", "from typing import Any"),
    "det_compat.pytorch.PyTorchTrial": ("pl.LightningModule", _LIGHTNING),
    "det_compat.pytorch.PyTorchTrialContext": ("pl.LightningModule", _LIGHTNING),
    "det_compat.pytorch.PyTorchCallback": ("pl.Callback", _LIGHTNING),
    "det_compat.pytorch.MetricReducer": ("torchmetrics.Metric", "import torchmetrics"),
    "det_compat.pytorch.LRScheduler": ("torch.optim.lr_scheduler.LRScheduler", "import torch"),
    "det_compat.errors.InvalidHP": ("ValueError", ""),
}
_CONTEXTS = ("det_compat.pytorch.PyTorchTrialContext", "determined.TrialContext")


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Rename types wherever they are named: bases, annotations, calls."""
    return tree.visit(_Types(file))


class _Types(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        path = self._file.symbols.path(original_node)
        if path is None:
            return updated_node
        if path in _CONTEXTS or path.endswith(".TrialContext"):
            path = _CONTEXTS[0]
        if path.endswith(".InvalidHP"):
            path = "det_compat.errors.InvalidHP"
        found = _TYPES.get(path)
        if found is None:
            return updated_node
        name, statement = found
        if statement:
            self._file.imports.add(statement)
        return expression(name)

"""Determined's names that torch or Lightning have others for: types, functions, adapters."""

import libcst as cst

from det_compat import LOG_FORMAT
from det_compat.migrate.configs import BATCHES
from det_compat.migrate.to_lightning.plan import LightningFile, LightningTransformer
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import above, comments_of
from det_compat.migrate.tree.symbols import WRITER

_LIGHTNING = "import pytorch_lightning as pl"
_TYPES = {
    "det_compat.pytorch.DataLoader": ("DataLoader", "from torch.utils.data import DataLoader"),
    "det_compat.pytorch.TorchData": ("Any", "from typing import Any"),
    "det_compat.pytorch.PyTorchTrial": ("pl.LightningModule", _LIGHTNING),
    "det_compat.pytorch.PyTorchTrialContext": ("pl.LightningModule", _LIGHTNING),
    "det_compat.pytorch.PyTorchCallback": ("pl.Callback", _LIGHTNING),
    "det_compat.pytorch.MetricReducer": ("torchmetrics.Metric", "import torchmetrics"),
    "det_compat.pytorch.reducer.FunctionReducer": ("torchmetrics.Metric", "import torchmetrics"),
    "det_compat.pytorch.LRScheduler": ("torch.optim.lr_scheduler.LRScheduler", "import torch"),
    "InvalidHP": ("ValueError", ""),
    "TrialContext": ("pl.LightningModule", _LIGHTNING),
}
_LOG_FORMAT = "det_compat.LOG_FORMAT"
_DOWNLOAD = "det_compat.util.download_gcs_blob_with_backoff"
_RESET = "det_compat.pytorch.reset_parameters"
_ALIASING = "det_compat.alias_determined"
_ADAPTING = ("det_compat.to_lightning", "det_compat.adapters.to_lightning")
_ARGUMENTS = {"hparams", "exp_conf"}


def rename_types(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Rename types wherever they are named: bases, annotations, calls."""

    def renamed(node: cst.Name) -> cst.BaseExpression:
        path = file.symbols.path(node) or ""
        # Some types can be imported from several modules: their last name tells them.
        name, statement = _TYPES.get(path) or _TYPES.get(path.rpartition(".")[2]) or ("", "")
        file.imports.new.update([statement] if statement else [])
        return syntax.expression(name) if name else node

    return syntax.each(tree, cst.Name, renamed)


def write_out_functions(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Write out functions of Determined's, and its log format.

    These are ``reset_parameters(model)`` where it is a statement, and the download of a blob, which
    Google's client tries again by itself.
    """
    has_some = file.symbols.has(_RESET, _LOG_FORMAT, _DOWNLOAD)
    return syntax.transformed(tree, _Functions(file)) if has_some else tree


class _Functions(LightningTransformer):
    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        call = syntax.lone_call(updated)
        if call is None or self.symbols.path(call.func) != _RESET:
            return updated
        model = syntax.argument(call, 0, "model")
        if model is None:
            return updated
        made = syntax.statement(
            f"for module in {syntax.code(model)}.modules():\n"
            '    if hasattr(module, "reset_parameters"):\n'
            "        module.reset_parameters()\n"
        )
        return above(made, comments_of(updated))

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        blob = syntax.argument(updated, 0, "blob")
        if blob is None or self.symbols.path(updated.func) != _DOWNLOAD:
            return updated
        return syntax.expression(f"{syntax.code(blob)}.download_as_bytes()")

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> syntax.Expression:
        if self.symbols.path(original) != _LOG_FORMAT:
            return updated
        return cst.SimpleString(repr(LOG_FORMAT).replace("'", '"'))


def use_loggers(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Drop ``self.logger = TorchWriter()``, whose ``writer`` is ``self.logger.experiment`` now."""
    return syntax.transformed(tree, _Writers(file)) if file.symbols.has(WRITER) else tree


class _Writers(LightningTransformer):
    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        small = syntax.simple(updated)
        call = syntax.call_of(small) if isinstance(small, (cst.Assign, cst.AnnAssign)) else None
        made = call is not None and self.symbols.path(call.func) == WRITER
        return cst.RemoveFromParent() if made else updated

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> syntax.Expression:
        symbol = self.symbols.get(updated.value)
        if self.symbols.is_new_writer(original) and self._has_trainer:
            return syntax.expression(f"{syntax.self_name(self.functions[0])}.logger.experiment")
        is_writer = self.symbols.is_writer(updated.value) and updated.attr.value == "writer"
        if symbol is None or not is_writer or symbol.module.deep_equals(symbol.original):
            # The writer of a TorchWriter outside of a trial has no logger in its place.
            return updated
        return syntax.expression(f"{syntax.code(symbol.module)}.logger.experiment")

    @property
    def _has_trainer(self) -> bool:
        """Whether this runs in a method of a trial that has a logger by then."""
        early = self.file.early.get(self.plan.own.name, ()) if self.plan is not None else None
        names = [function.name.value for function in self.functions]
        return early is not None and bool(names) and names[0] not in early


def make_modules(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Make ``MyTrial(**hparams)`` of ``to_lightning(MyTrial)(hparams, exp_conf)``."""
    return (
        syntax.transformed(tree, _Scripts(file))
        if file.symbols.has(_ALIASING, *_ADAPTING)
        else tree
    )


class _Scripts(LightningTransformer):
    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        call = syntax.lone_call(updated)
        is_aliasing = call is not None and self.symbols.path(call.func) == _ALIASING
        return cst.RemoveFromParent() if is_aliasing else updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        adapting = updated.func
        if not isinstance(adapting, cst.Call) or len(adapting.args) != 1:
            return updated
        if self.symbols.path(adapting.func) not in _ADAPTING:
            return updated
        trial = syntax.code(adapting.args[0].value)
        plan = self.file.trials.get(trial.rpartition(".")[2])
        if plan is None or any(arg.star for arg in updated.args):
            return updated
        if any(arg.keyword and arg.keyword.value not in _ARGUMENTS for arg in updated.args):
            return updated
        hparams = syntax.argument(updated, 0, "hparams")
        config = syntax.argument(updated, 1, "exp_conf")
        given = [f"**{syntax.code(hparams)}"] if hparams is not None else []
        if config is not None and "experiment_config" in plan.arguments.sections:
            given.append(f"experiment_config={syntax.code(config)}")
        if config is not None and "data_config" in plan.arguments.sections:
            given.append(f'data_config={syntax.code(config)}["data"]')
        if plan.accumulation is not None:
            section = '.get("optimizations", {}).get("aggregation_frequency", 1)'
            batches = f"{syntax.code(config)}{section}" if config is not None else "1"
            given.append(f"{BATCHES}={batches}")
        return syntax.expression(f"{trial}({', '.join(given)})")

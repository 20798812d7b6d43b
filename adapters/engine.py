"""What the API asks of det_compat, answered with Lightning, ``fit`` and ``search``.

This module is the ``Engine`` of ``det_compat.pytorch.engine``, where its functions are described.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from det_compat import core
from det_compat.adapters.data.loaders import UNSIZED
from det_compat.adapters.generations.adapted import user_trial
from det_compat.adapters.generations.generation import generation_of
from det_compat.adapters.generations.generation import in_context_api as in_context_api
from det_compat.catalog.generations import Generation
from det_compat.config.hyperparameters import batch_size
from det_compat.config.lengths import parse_length
from det_compat.core.reports.kept import RunReports
from det_compat.experiment.checkpoints import task_checkpoints
from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.engine import FitArguments
from det_compat.pytorch.train_unit import Batch, TrainUnit
from det_compat.script.task import Task
from det_compat.search.searchers.validations import RungsToo
from det_compat.search.train_context import SearchedTrainContext
from det_compat.shared.importing import large_imports

if TYPE_CHECKING:
    from det_compat.adapters.lightning.determined_pace import OnValidationSaved

checkpoints = task_checkpoints


def fit(trial: Any, context: PyTorchTrialContext, arguments: FitArguments) -> None:
    """Train ``trial`` with Lightning, which is imported now."""
    with large_imports("det_compat.adapters.trainer"):
        from det_compat.adapters import trainer
    trainer.fit(trial, context, arguments, on_validated=_tell_search(context))


def build_without_data(
    trial_cls: Any, context: PyTorchTrialContext, kwargs: dict[str, Any]
) -> tuple[Any, bool]:
    """The user's own trial, and whether it is of an older generation."""
    if generation_of(trial_cls) is Generation.CONTEXT:
        return trial_cls(context, **kwargs), False
    adapted = in_context_api(trial_cls, _no_data, _no_data)(context, **kwargs)
    return user_trial(adapted), True


def train_context(task: Task, tensorboard_path: Path) -> core.TrainContext:
    """Where the chief of a script reports; its search hears of it, if there is one."""
    if not task.run_dir:
        return core.TrainContext(tensorboard_path)
    folder = Path(task.run_dir)
    if task.search is None:
        return RunReports(folder, tensorboard_path)
    return SearchedTrainContext(folder, tensorboard_path, task.search)


def validation_period(task: Task, own: TrainUnit, context: PyTorchTrialContext) -> TrainUnit:
    """The period of a script with a search: its ``own``, and the rungs of the search."""
    rungs = [parse_length(length) for length in task.validate_at]
    size = batch_size(task.hparams, context.distributed.size)
    records = task.config.get("records_per_epoch")
    return Batch(RungsToo(own, rungs, size, lambda: _epoch_batches(context), records))


def _epoch_batches(context: PyTorchTrialContext) -> int | None:
    length = Steering(context).epoch_length()
    return None if length >= UNSIZED else length


def _no_data(*_: Any) -> str:
    """Stand in for the functions that download and make data."""
    return ""


def _tell_search(context: PyTorchTrialContext) -> OnValidationSaved | None:
    """What tells the search of validations, on the chief of a script that has one."""
    train = Steering(context).core.train
    return train.validated if isinstance(train, SearchedTrainContext) else None


if TYPE_CHECKING:
    from det_compat.adapters import engine as _this_module
    from det_compat.pytorch.engine import Engine

    _ANSWERS_ALL: Engine = _this_module

"""What the API asks of det_compat, answered with Lightning, ``fit`` and ``search``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from det_compat import core
from det_compat.adapters.generations.adapted import user_trial
from det_compat.adapters.generations.generation import generation_of, in_context_api
from det_compat.catalog.generations import Generation
from det_compat.config.hyperparameters import batch_size
from det_compat.config.lengths import parse_length
from det_compat.fit.checkpoints import RunCheckpoints, task_checkpoints
from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.engine import Engine, FitArguments
from det_compat.pytorch.train_unit import Batch, TrainUnit
from det_compat.script.task import Task
from det_compat.search.searchers.validations import RungsToo
from det_compat.search.train_context import SearchedTrainContext
from det_compat.shared.random_state import preserved_random_state

if TYPE_CHECKING:
    from det_compat.adapters.lightning.determined_pace import OnValidationSaved


class LightningEngine(Engine):
    """The engine of ``det_compat.pytorch``, whose methods are described there."""

    def fit(self, trial: Any, context: PyTorchTrialContext, arguments: FitArguments) -> None:
        with preserved_random_state():
            from det_compat.adapters.trainer import fit
        fit(trial, context, arguments, on_validated=_tell_search(context))

    def in_context_api(
        self,
        trial_cls: type,
        make_data_loaders: Callable[..., Any] | None,
        download_data: Callable[..., Any] | None,
    ) -> type:
        return in_context_api(trial_cls, make_data_loaders, download_data)

    def build_without_data(
        self, trial_cls: Any, context: PyTorchTrialContext, kwargs: dict[str, Any]
    ) -> tuple[Any, bool]:
        if generation_of(trial_cls) is Generation.CONTEXT:
            return trial_cls(context, **kwargs), False
        adapted = in_context_api(trial_cls, _no_data, _no_data)(context, **kwargs)
        return user_trial(adapted), True

    def checkpoints(self, task: Task) -> core.CheckpointContext:
        return task_checkpoints(task)

    def train_context(self, task: Task, tensorboard_path: Path) -> core.TrainContext:
        if task.search is None:
            return core.TrainContext(tensorboard_path)
        return SearchedTrainContext(tensorboard_path, task.search)

    def validation_period(
        self, task: Task, own: TrainUnit, context: PyTorchTrialContext
    ) -> TrainUnit:
        rungs = [parse_length(length) for length in task.validate_at]
        size = batch_size(task.hparams, context.distributed.size)
        return Batch(RungsToo(own, rungs, size, Steering(context).epoch_length))


ENGINE = LightningEngine()


def _no_data(*_: Any) -> str:
    """Stand in for the functions that download and make data."""
    return ""


def _tell_search(context: PyTorchTrialContext) -> OnValidationSaved | None:
    """What tells the search of validations, on the chief of a script that has one."""
    found = Steering(context).core
    train, checkpoints = found.train, found.checkpoint
    if not isinstance(train, SearchedTrainContext) or not isinstance(checkpoints, RunCheckpoints):
        return None

    def tell(batches: int, metrics: dict[str, Any], checkpoint: str | None) -> None:
        location = None if checkpoint is None else checkpoints.location(checkpoint)
        train.validated(batches, metrics, location)

    return tell

"""The door from the API to what trains: the one module of the API that knows of its engine."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from det_compat import core
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.schedule import Schedule
from det_compat.pytorch.train_unit import TrainUnit
from det_compat.script.task import Task
from det_compat.shared.importing import collect_as_usual, large_imports

_ENGINE = "det_compat.adapters.engine"


@dataclass(frozen=True)
class FitArguments:
    """The arguments of ``Trainer.fit``, checked and complete.

    Attributes:
        owns_start: whether the run that wrote ``latest_checkpoint`` is this one.
    """

    schedule: Schedule
    checkpoint_policy: str
    latest_checkpoint: str | None
    step_zero_validation: bool
    owns_start: bool


class Engine(Protocol):
    """What the API asks of the rest of det_compat; a module has it as functions."""

    def fit(self, trial: Any, context: PyTorchTrialContext, arguments: FitArguments) -> None:
        """Train ``trial``, which was built with ``context``."""

    def in_context_api(
        self,
        trial_cls: type,
        make_data_loaders: Callable[..., Any] | None,
        download_data: Callable[..., Any] | None,
    ) -> type:
        """A trial class of any generation as one of the context API.

        Raises:
            TypeError: it is no trial class, or has loader methods and the functions are given.
        """

    def build_without_data(
        self, trial_cls: Any, context: PyTorchTrialContext, kwargs: dict[str, Any]
    ) -> tuple[Any, bool]:
        """The user's own trial, whose data nobody will ask for, built with ``context``.

        The second value is whether the trial is of an older generation, which builds nothing by
        itself.

        Raises:
            TypeError: ``trial_cls`` is no trial class.
        """

    def checkpoints(self, task: Task) -> core.CheckpointStore:
        """The checkpoints of the run that a script of ``det-compat fit`` or ``search`` is.

        Raises:
            FitError: the storage that the config names cannot be used.
        """

    def train_context(self, task: Task, tensorboard_path: Path) -> core.TrainContext:
        """Where the chief of such a script reports; a search hears of it, if there is one."""

    def validation_period(
        self, task: Task, own: TrainUnit, context: PyTorchTrialContext
    ) -> TrainUnit:
        """The periods of a script with a search: its ``own``, and where the search validates."""


def engine() -> Engine:
    """The engine, which is loaded when it is first used: its imports take seconds."""
    collect_as_usual()
    with large_imports(_ENGINE):
        return cast("Engine", importlib.import_module(_ENGINE))

"""The callbacks that a module adds to its Trainer for as long as a trial runs on it."""

import logging
import sys
from typing import Any

from det_compat.adapters.lightning import door
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.lightning.publish import MetricsPublisher
from det_compat.adapters.lightning.strategy import callbacks_of

logger = logging.getLogger("det_compat")


class HasRun:
    """What the callbacks need of a module, which defines what is not defined here."""

    publisher: MetricsPublisher
    trainer: pl.Trainer

    def prepare_run(self) -> None:
        """Build the trial, or get ready the one that is built."""
        raise NotImplementedError

    def end_run(self, error: BaseException | None = None) -> None:
        """Shut the run down, which ``error`` may have ended."""
        raise NotImplementedError

    def hand_over_reports(self, error: BaseException | None = None) -> None:
        """Let all loggers have what was reported, before a run ends with ``error`` if there is one.

        What a logger then raises, of a deleted directory for example, must not hide why.
        """
        try:
            self.publisher.hand_over(self.trainer)
        except Exception as failed:
            if error is None:
                raise
            logger.warning(f"the last second of reports did not reach a logger: {failed}")


class BuildTrialFirst(pl.Callback):
    """Builds the trial before the user's callbacks look at the module, as pruning does."""

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if isinstance(pl_module, HasRun):
            _move_last(trainer)
            pl_module.prepare_run()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if isinstance(pl_module, HasRun):
            pl_module.hand_over_reports()


class _LeavesSteps:
    """A module that says that it leaves steps to Lightning; by its own word, steps are counted."""

    automatic_optimization = True

    def __init__(self, module: pl.LightningModule) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class SaveByTheTime(pl.Callback):
    """Has ModelCheckpoints with a ``train_time_interval`` look at the clock after each batch.

    In Lightning 2.6.6 they do so for modules alone that leave steps to Lightning.
    """

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        for callback in callbacks_of(trainer):
            if door.saves_by_the_time(callback):
                stand_in: Any = _LeavesSteps(pl_module)
                callback.on_train_batch_end(trainer, stand_in, *args)


class EndRunOnException(pl.Callback):
    """Ends the run of a trial when the Trainer stops on an exception."""

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        if isinstance(pl_module, HasRun):
            pl_module.end_run(exception)


def raise_what_has_ended(module: HasRun) -> None:
    """Raise the exception again for which a callback saves a run that has never begun.

    There is nothing to save, and an error that says so would hide why.
    """
    if (error := sys.exc_info()[1]) is not None:
        module.end_run(error)
        raise error


def _move_last(trainer: pl.Trainer) -> None:
    """Let the run end after callbacks that write checkpoints, which Lightning puts last."""
    callbacks = callbacks_of(trainer)
    callbacks.sort(key=lambda callback: isinstance(callback, EndRunOnException))


def add_first(trainer: pl.Trainer) -> None:
    """Add the callback that comes before those of the user."""
    callbacks_of(trainer).insert(0, BuildTrialFirst())


def remove_first(trainer: pl.Trainer) -> None:
    """Remove what ``add_first`` added."""
    callbacks: list[Any] = callbacks_of(trainer)
    callbacks[:] = [c for c in callbacks if not isinstance(c, BuildTrialFirst)]


def added_last(trainer: pl.Trainer) -> list[pl.Callback]:
    """The callbacks that come after those of the user; none if they are there."""
    callbacks = callbacks_of(trainer)
    if any(isinstance(c, EndRunOnException) for c in callbacks):
        return []
    by_the_time = any(map(door.saves_by_the_time, callbacks))
    return [*([SaveByTheTime()] if by_the_time else []), EndRunOnException()]


def are_all(trainer: pl.Trainer) -> bool:
    """Whether the Trainer has no other callbacks than these."""
    ours = (BuildTrialFirst, SaveByTheTime, EndRunOnException)
    return all(isinstance(callback, ours) for callback in callbacks_of(trainer))

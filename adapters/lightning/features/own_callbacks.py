"""The callbacks that a module adds to its Trainer for as long as a trial runs on it."""

from typing import Any

from det_compat.adapters.lightning.package import pl
from det_compat.adapters.lightning.strategy import callbacks_of


class HasRun:
    """What the callbacks need of a module."""

    def prepare_run(self) -> None:
        """Build the trial, or get ready the one that is built."""
        raise NotImplementedError

    def end_run(self, error: BaseException | None = None) -> None:
        """Shut the run down, which ``error`` may have ended."""
        raise NotImplementedError


class BuildTrialFirst(pl.Callback):
    """Builds the trial before the user's callbacks look at the module, as pruning does."""

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if isinstance(pl_module, HasRun):
            _move_last(trainer)
            pl_module.prepare_run()


class EndRunOnException(pl.Callback):
    """Ends the run of a trial when the Trainer stops on an exception."""

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        if isinstance(pl_module, HasRun):
            pl_module.end_run(exception)


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
    """The callback that comes after those of the user; none if it is there."""
    is_there = any(isinstance(c, EndRunOnException) for c in callbacks_of(trainer))
    return [] if is_there else [EndRunOnException()]


def are_all(trainer: pl.Trainer) -> bool:
    """Whether the Trainer has no other callbacks than these."""
    ours = (BuildTrialFirst, EndRunOnException)
    return all(isinstance(callback, ours) for callback in callbacks_of(trainer))

"""Who sets the pace of a run: what is due when, beside the batches themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from det_compat.adapters.checkpoints.resume import Resume
from det_compat.adapters.lightning import door, loop_progress, strategy
from det_compat.adapters.lightning.features import own_callbacks
from det_compat.adapters.lightning.package import pl

if TYPE_CHECKING:
    from det_compat.adapters.lightning.run_module import RunModule

#: A function that hears of each validation that is part of training: batches trained, metrics.
OnValidated = Callable[[int, dict[str, Any]], None]


class Pace:
    """Says what is due when; a module asks it at the moments that its methods are named after.

    A pace that has nothing to do at a moment leaves the method as it is here.
    """

    def __init__(self) -> None:
        #: These functions are called in order, before a checkpoint may follow the validation.
        self.on_validated: list[OnValidated] = []

    def fit_starts(self, trainer: pl.Trainer) -> None:
        """This is asked before a checkpoint is read and loaders are built."""

    def epoch_is_known(self, module: RunModule) -> None:
        """The length of an epoch is known, and the run is where a checkpoint left it."""

    def training_starts(self, module: RunModule, resume: Resume | None) -> None:
        """The trial's callbacks are about to hear that training starts."""

    def go_on(self, module: RunModule) -> None:
        """Do what was due after the last batch before the checkpoint, and was not done then."""

    def first_batch_is_next(self, module: RunModule) -> None:
        """All is set up for the first batch of this fit."""

    def nothing_due_before(self, module: RunModule) -> int:
        """The number of batches before which neither of the two next methods has anything to do."""
        raise NotImplementedError

    def batch_is_trained(self, module: RunModule) -> None:
        """A batch is trained, and Lightning's callbacks have not heard that it has ended."""

    def batch_has_ended(self, module: RunModule) -> None:
        """Lightning's callbacks have heard that the batch has ended."""

    def epoch_has_ended(self, module: RunModule) -> None:
        """Lightning ends an epoch, after a validation that is due there."""

    def validated(self, module: RunModule, metrics: dict[str, Any]) -> None:
        """A validation that is part of training has ended."""
        for tell in self.on_validated:
            tell(module.run.state.batches_trained, metrics)

    def validation_has_ended(self, module: RunModule) -> None:
        """Lightning's callbacks have heard that a validation has ended."""

    def training_has_ended(self, module: RunModule) -> None:
        """The last batch of the fit is trained, or there was none left."""

    def save_before_the_end(self, module: RunModule, *, requeues: bool = False) -> str:
        """Write a checkpoint of a run that a signal ends; returns the code that goes on with it.

        ``requeues`` is whether the same job will run again, and is to find it by itself.
        """
        raise NotImplementedError

    def asked_to_exit(self, module: RunModule, *, saves: bool) -> None:
        """User code ends the fit here, with a checkpoint of what was trained or without."""
        raise NotImplementedError

    def has_failed(self, module: RunModule, error: BaseException) -> None:
        """An exception has ended the run, which is built."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps for the pace, in plain types, beside the state of the run."""
        return {}


class LightningPace(Pace):
    """The Trainer's flags say when to validate, to checkpoint and to end.

    Args:
        reporting_period: batches over which training metrics are averaged before they are reported.
    """

    def __init__(self, reporting_period: int) -> None:
        super().__init__()
        self.reporting_period = reporting_period

    def epoch_is_known(self, module: RunModule) -> None:
        if module.run.epoch_batches is None:
            strategy.check_flags_without_epochs(module.trainer)

    def go_on(self, module: RunModule) -> None:
        run = module.run
        if not loop_progress.validation_was_due(module.trainer):
            return
        if run.state.last_val != run.state.batches_trained:
            door.validate_now(module.trainer)
            if run.stream is not None and run.stream.epoch_is_over:
                return
        loop_progress.note_validation_done(module.trainer)

    def nothing_due_before(self, module: RunModule) -> int:
        periods = module.run.state.batches_trained // self.reporting_period
        return (periods + 1) * self.reporting_period

    def batch_is_trained(self, module: RunModule) -> None:
        # Callbacks that monitor a metric at the end of this batch see its report.
        if module.run.state.batches_trained % self.reporting_period == 0:
            module.report_training()
            self._stop_if_requested(module)

    def epoch_has_ended(self, module: RunModule) -> None:
        # Callbacks may monitor a training metric in an epoch that is shorter than a period.
        if len(module.run.training.metrics) and not own_callbacks.are_all(module.trainer):
            module.publisher.training_so_far(module.trainer, module.run.training.averages_so_far())

    def validation_has_ended(self, module: RunModule) -> None:
        self._stop_if_requested(module)

    def _stop_if_requested(self, module: RunModule) -> None:
        if module.context.get_stop_requested():
            module.run.is_stopping = module.trainer.should_stop = True

    def training_has_ended(self, module: RunModule) -> None:
        if len(module.run.training.metrics):
            module.report_training()

    def save_before_the_end(self, module: RunModule, *, requeues: bool = False) -> str:
        path = strategy.preemption_path(module.trainer, module.run.state.batches_trained)
        if requeues:
            path = door.requeue_path(module.trainer)
        module.trainer.save_checkpoint(path)
        return f'trainer.fit(module, ckpt_path="{path}")'

    def asked_to_exit(self, module: RunModule, *, saves: bool) -> None:
        if saves:
            self.save_before_the_end(module)

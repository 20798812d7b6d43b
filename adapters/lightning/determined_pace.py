"""Determined's schedule of reports, validations and checkpoints, on Lightning's loops."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from det_compat import core
from det_compat.adapters.checkpoints.checkpoint_keeper import CheckpointKeeper
from det_compat.adapters.checkpoints.determined_checkpoint import write_checkpoint
from det_compat.adapters.checkpoints.resume import Resume
from det_compat.adapters.lightning import door, pace, strategy
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.checkpoint.reader import putting_back
from det_compat.config.hyperparameters import batch_size
from det_compat.config.lengths import epochs_in
from det_compat.errors import InvalidHP
from det_compat.pytorch.schedule import Due, Schedule
from det_compat.pytorch.train_unit import Epoch

if TYPE_CHECKING:
    from det_compat.adapters.lightning.run_module import RunModule

NEVER = sys.maxsize

#: A function that hears of each validation: batches trained, the metrics, and where the latest
#: checkpoint lies, if there is one.
OnValidationSaved = Callable[[int, dict[str, Any], str | None], None]

#: The flags by which a Trainer leaves the schedule to DeterminedPace, and shows no models.
TRAINER_FLAGS: dict[str, Any] = {
    "max_epochs": -1,
    "check_val_every_n_epoch": None,
    "val_check_interval": NEVER,
    "enable_checkpointing": False,
    "enable_model_summary": False,
}


@dataclass(frozen=True)
class Plan:
    """What a run is going to do, which is known when the length of its epochs is.

    Attributes:
        schedule: what is due when.
        keeper: which checkpoints are written after validations, and which are kept.
        validates_first: whether a validation comes before the first batch.
        is_searched: whether InvalidHP that a checkpoint raises ends the process, for a search to
            see, rather than the training alone.
    """

    schedule: Schedule
    keeper: CheckpointKeeper
    validates_first: bool = False
    is_searched: bool = False


class DeterminedPace(pace.Pace):
    """Reports, validates and writes checkpoint directories when Determined 0.38.1 did.

    The Trainer has to leave validation to it: TRAINER_FLAGS are for that.

    Args:
        plan: makes the plan of a run whose epoch length is known.
        take_over: takes from the Trainer, before a fit, what its flags say of length and periods.
    """

    def __init__(
        self,
        plan: Callable[[TrialRun], Plan],
        take_over: Callable[[pl.Trainer], None] | None = None,
    ) -> None:
        super().__init__()
        self._make_plan = plan
        self._take_over = take_over
        self._plan: Plan | None = None
        #: These functions are called when the checkpoint that may follow a validation is complete.
        self.on_validation_saved: list[OnValidationSaved] = []

    @property
    def keeper(self) -> CheckpointKeeper:
        """The keeper of the run's checkpoints.

        Raises:
            RuntimeError: training has not started.
        """
        return self._planned.keeper

    @property
    def _planned(self) -> Plan:
        if self._plan is None:
            raise RuntimeError("the schedule is known when the training loader is built")
        return self._plan

    def fit_starts(self, trainer: pl.Trainer) -> None:
        if self._take_over is not None:
            self._take_over(trainer)

    def epoch_is_known(self, module: RunModule) -> None:
        plan, run = self._make_plan(module.run), module.run
        if run.epoch_batches is None:
            schedule = plan.schedule.without_epochs(*_records(run))
            plan = replace(plan, schedule=schedule)
        self._plan = plan
        strategy.log_often_enough(module.trainer, module.run.epoch_len)

    def training_starts(self, module: RunModule, resume: Resume | None) -> None:
        state = module.run.state
        if resume is not None:
            path = module.started_from()
            with putting_back(path, "list of checkpoints"):
                self.keeper.resume(resume.continuation, path, state.batches_trained)
        door.show_epochs(module.trainer, self._epochs(module))

    def _epochs(self, module: RunModule) -> int:
        """Lightning's epochs to the end of the schedule, for the progress bar; -1: no limit."""
        length = self._planned.schedule.units[Due.LENGTH]
        assert isinstance(length.value, int)
        if isinstance(length, Epoch):
            epochs = length.value
        else:
            epochs = -(-length.value // module.run.epoch_len)
        return epochs if module.trainer.current_epoch < epochs < NEVER else -1

    def go_on(self, module: RunModule) -> None:
        self._do(module, self._due(module.run))

    def first_batch_is_next(self, module: RunModule) -> None:
        if self._planned.validates_first and module.run.state.batches_trained == 0:
            door.validate_now(module.trainer)
        if self._is_over(module.run):
            self._finish(module)

    def nothing_due_before(self, module: RunModule) -> int:
        run = module.run
        return self._planned.schedule.nothing_before(run.state.batches_trained, run.epoch_len)

    def batch_has_ended(self, module: RunModule) -> None:
        if due := self._due(module.run):
            module.report_training()
            self._do(module, due)

    def _due(self, run: TrialRun) -> list[Due]:
        return self._planned.schedule.due(run.state.batches_trained, run.epoch_len)

    def _do(self, module: RunModule, due: Sequence[Due]) -> None:
        run = module.run
        reports_progress = Due.LENGTH in due or Due.REPORT in due
        for what in due:
            if what is Due.VALIDATION:
                self._validate(module)
            elif what is Due.CHECKPOINT:
                self._checkpoint(module)
            elif reports_progress:
                self._report_progress(run)
                reports_progress = False
            if module.trainer.should_stop:
                return
            if run.context.get_stop_requested():
                self._stop(module, checkpoint=True)
                return
        if self._is_over(run):
            self._finish(module)

    def _finish(self, module: RunModule) -> None:
        self._validate(module)
        self._checkpoint(module)
        self._stop(module, checkpoint=False)

    def _validate(self, module: RunModule) -> None:
        if not module.run.is_validated:
            door.validate_now(module.trainer)

    def _stop(self, module: RunModule, *, checkpoint: bool) -> None:
        module.run.is_stopping = True
        if checkpoint:
            self._checkpoint(module, stopping=True)
        # Lightning validates when it is told to stop, unless this is no epoch for validation.
        module.trainer.check_val_every_n_epoch = NEVER
        module.trainer.should_stop = True

    def _is_over(self, run: TrialRun) -> bool:
        return self._planned.schedule.is_over(run.state.batches_trained, run.state.epochs_trained)

    def validated(self, module: RunModule, metrics: dict[str, Any]) -> None:
        super().validated(module, metrics)
        batches = module.run.state.batches_trained
        if self.keeper.validated(batches, metrics):
            self._checkpoint(module)
        latest = self.keeper.latest if module.run.is_saved else None
        checkpoints = module.run.steering.core.checkpoint
        location = None if latest is None else checkpoints.location(latest)
        if module.run.epoch_batches is None and self.on_validation_saved:
            records, size = _records(module.run)
            metrics = {**metrics, "epochs": epochs_in(batches, size, records)}
        for tell in self.on_validation_saved:
            tell(batches, metrics, location)

    def _checkpoint(self, module: RunModule, *, stopping: bool = False) -> None:
        """Write a checkpoint, unless there is one of this moment."""
        if module.run.is_saved:
            return
        try:
            self._write_checkpoint(module)
        except InvalidHP:
            if stopping or self._planned.is_searched:
                raise
            train = module.run.steering.core.train
            train.report_early_exit(core.EarlyExitReason.INVALID_HP)
            self._stop(module, checkpoint=False)

    def _write_checkpoint(self, module: RunModule) -> None:
        callbacks = module.run.callbacks.state_dict()
        uuid = write_checkpoint(module.run, module.state_to_go_on(callbacks), callbacks)
        self.keeper.saved(uuid, module.run.state.batches_trained)

    def _report_progress(self, run: TrialRun) -> None:
        if run.is_chief:
            state = run.state
            progress = self._planned.schedule.progress(state.batches_trained, state.epochs_trained)
            run.steering.core.train.report_progress(progress=progress)

    def training_has_ended(self, module: RunModule) -> None:
        # A callback of Lightning's may have stopped the run before its end.
        if not module.run.is_stopping:
            self._checkpoint(module, stopping=True)
        self.keeper.finish()

    def save_before_the_end(self, module: RunModule, *, requeues: bool = False) -> str:
        self._checkpoint(module, stopping=True)
        return f'latest_checkpoint="{self.keeper.latest}"'

    def asked_to_exit(self, module: RunModule, *, saves: bool) -> None:
        if saves:
            self._checkpoint(module, stopping=True)
        self.keeper.finish()

    def has_failed(self, module: RunModule, error: BaseException) -> None:
        if isinstance(error, InvalidHP) and self._plan is not None and not module.run.is_saved:
            self._write_checkpoint(module)

    def state_dict(self) -> dict[str, Any]:
        return {"checkpoints": self.keeper.state_dict()}


def _records(run: TrialRun) -> tuple[int | None, int | None]:
    """Records in an epoch, and in a batch over all processes, as far as the config says them."""
    size = batch_size(run.steering.hparams or {}, run.context.distributed.size)
    return (run.steering.exp_conf or {}).get("records_per_epoch"), size

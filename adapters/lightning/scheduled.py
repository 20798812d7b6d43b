"""Determined's schedule of reports, validations and checkpoints, on Lightning's loops."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import torch

from det_compat import core
from det_compat.adapters.checkpoints.checkpoint_keeper import CheckpointKeeper
from det_compat.adapters.checkpoints.determined_checkpoint import write_checkpoint
from det_compat.adapters.lightning.door import (
    ask_to_validate,
    show_epochs,
    validate_now,
    withhold_validation,
)
from det_compat.adapters.lightning.hooks import TrialHooks
from det_compat.adapters.run.schedule import Due, Schedule
from det_compat.errors import InvalidHP
from det_compat.pytorch.train_unit import Epoch

logger = logging.getLogger("det_compat")

NEVER = sys.maxsize


class ScheduledHooks(TrialHooks):
    """Runs a trial on a schedule, and writes checkpoint directories as Determined did.

    The Trainer has to leave validation to it: ``trainer_flags`` are for that.
    """

    trainer_flags: ClassVar[dict[str, Any]] = {
        "max_epochs": -1,
        "check_val_every_n_epoch": None,
        "val_check_interval": NEVER,
        "enable_checkpointing": False,
    }

    _schedule: Schedule
    _keeper: CheckpointKeeper
    _validates_first = False
    _still_due: Iterator[None] = iter(())
    _nothing_before = 0  # batches

    def follow(
        self, schedule: Schedule, keeper: CheckpointKeeper, *, validates_first: bool = False
    ) -> None:
        """Set what is due when, and which checkpoints are written and kept.

        ``validates_first`` asks for a validation before the first batch.
        """
        self._schedule = schedule
        self._keeper = keeper
        self._validates_first = validates_first

    def on_train_start(self) -> None:
        self._nothing_before = 0
        if self._restored is not None:
            self._keeper.resume(
                self._restored.get("continuation") or {},
                self.started_from(),
                self.run.state.batches_trained,
            )
        show_epochs(self.trainer, self._epochs())
        super().on_train_start()
        if self._validates_first and self.run.state.batches_trained == 0:
            validate_now(self.trainer)
        if self._is_over():
            for _ in self._finish():
                validate_now(self.trainer)

    def _epochs(self) -> int:
        """Lightning's epochs to the end of the schedule, for the progress bar; -1: no limit."""
        length = self._schedule.max_length
        assert isinstance(length.value, int)
        if isinstance(length, Epoch):
            epochs = length.value
        else:
            epochs = -(-length.value // self.run.epoch_len)
        return epochs if self.trainer.current_epoch < epochs < NEVER else -1

    def do_what_was_due(self) -> None:
        for _ in self._do(self._due()):
            validate_now(self.trainer)

    def after_batch(self) -> None:
        batches = self.run.state.batches_trained
        if batches < self._nothing_before:
            return
        self._nothing_before = batches + 1
        withhold_validation(self.trainer)
        if due := self._due():
            self.report_training()
            self._still_due = self._do(due)
            self._go_on()
        else:
            self._nothing_before = self._schedule.nothing_before(batches, self.run.epoch_len)

    def _due(self) -> list[Due]:
        batches = self.run.state.batches_trained
        epochs, rest = divmod(batches, self.run.epoch_len)
        return self._schedule.due(batches, epochs if rest == 0 else epochs + 1, rest == 0)

    def _go_on(self) -> None:
        """Do what is still due, up to the next validation, which Lightning runs next."""
        for _ in self._still_due:
            ask_to_validate(self.trainer)
            return

    def _do(self, due: list[Due]) -> Iterator[None]:
        reports_progress = Due.LENGTH in due or Due.REPORT in due
        for what in due:
            if what is Due.VALIDATION:
                if not self._validation_is_current():
                    yield
            elif what is Due.CHECKPOINT:
                if not self._checkpoint_is_current():
                    self._checkpoint()
            elif reports_progress:
                self._report_progress()
                reports_progress = False
            if self.trainer.should_stop:
                return
            if self.run.context.get_stop_requested():
                self._stop(checkpoint=True)
                return
        if self._is_over():
            yield from self._finish()

    def _finish(self) -> Iterator[None]:
        if not self._validation_is_current():
            yield
        if not self._checkpoint_is_current():
            self._checkpoint()
        self._stop(checkpoint=False)

    def _stop(self, *, checkpoint: bool) -> None:
        self.run.is_stopping = True
        if checkpoint and not self._checkpoint_is_current():
            self._checkpoint(stopping=True)
        self._still_due = iter(())
        # Lightning validates when it is told to stop, unless this is no epoch for validation.
        self.trainer.check_val_every_n_epoch = NEVER
        self.trainer.should_stop = True

    def after_validation(self, metrics: dict[str, Any]) -> None:
        is_due = self._keeper.validated(self.run.state.batches_trained, metrics)
        if is_due and not self._checkpoint_is_current():
            self._checkpoint()

    def on_validation_end(self) -> None:
        with torch.enable_grad():  # Lightning's validation is not over yet
            self._go_on()

    def _is_over(self) -> bool:
        state = self.run.state
        return self._schedule.is_over(state.batches_trained, state.epochs_trained)

    def _validation_is_current(self) -> bool:
        return self.run.state.last_val == self.run.state.batches_trained

    def _checkpoint_is_current(self) -> bool:
        return self.run.state.last_ckpt == self.run.state.batches_trained

    def _checkpoint(self, *, stopping: bool = False) -> None:
        try:
            self._write_checkpoint()
        except InvalidHP:
            if stopping:
                raise
            self.run.context._core.train.report_early_exit(core.EarlyExitReason.INVALID_HP)
            self._stop(checkpoint=False)

    def _write_checkpoint(self) -> None:
        callbacks = self.run.callbacks.state_dict()
        uuid = write_checkpoint(self.run, self.state_to_go_on(callbacks), callbacks)
        self._keeper.saved(uuid, self.run.state.batches_trained)

    def state_to_go_on(self, callbacks: dict[str, Any]) -> dict[str, Any]:
        return {**super().state_to_go_on(callbacks), "checkpoints": self._keeper.state_dict()}

    def save_before_the_end(self) -> None:
        if not self._checkpoint_is_current():
            self._checkpoint(stopping=True)
        if self.run.is_chief:
            logger.warning(
                f"SIGTERM: stopped after batch {self.run.state.batches_trained}; go on with "
                f'latest_checkpoint="{self._keeper.latest}"'
            )

    def _report_progress(self) -> None:
        if self.run.is_chief:
            state = self.run.state
            progress = self._schedule.progress(state.batches_trained, state.epochs_trained)
            self.run.context._core.train.report_progress(progress=progress)

    def end_run(self, exception: BaseException | None = None) -> None:
        try:
            is_built = self._run is not None
            if isinstance(exception, InvalidHP) and is_built and not self._checkpoint_is_current():
                self._write_checkpoint()
        finally:
            super().end_run(exception)

    def show_training_so_far(self) -> None:
        """Nothing: the schedule says when metrics are reported."""

    def on_train_end(self) -> None:
        self._keeper.finish()

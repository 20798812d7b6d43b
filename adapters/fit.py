"""``pytorch.Trainer.fit`` on Lightning: Determined's schedule, driven through Lightning's loops."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy

from det_compat import core
from det_compat.adapters.determined_checkpoint import read_checkpoint, write_checkpoint
from det_compat.adapters.environment import TrialEnvironment
from det_compat.adapters.generation import adapted
from det_compat.adapters.hooks import TrialHooks
from det_compat.adapters.loop_progress import validate_now
from det_compat.adapters.schedule import Due, Schedule
from det_compat.adapters.strategy import log_often_enough, prepare_trainer
from det_compat.adapters.trial_run import TrialRun
from det_compat.errors import InvalidHP
from det_compat.pytorch._context import PyTorchTrialContext
from det_compat.pytorch._train_unit import Epoch, TrainUnit
from det_compat.random_state import preserved_random_state

logger = logging.getLogger("det_compat")

NEVER = sys.maxsize


def fit(
    trial: Any,
    context: PyTorchTrialContext,
    *,
    max_length: TrainUnit,
    validation_period: TrainUnit,
    checkpoint_period: TrainUnit,
    reporting_period: TrainUnit,
    checkpoint_after_validation: bool,
    latest_checkpoint: str | None,
    step_zero_validation: bool,
    test_mode: bool,
) -> None:
    """Train ``trial`` as ``pytorch.Trainer.fit`` says."""
    module = ScheduledModule(
        TrialRun(adapted(trial, context), context),
        Schedule(max_length, validation_period, checkpoint_period, reporting_period, test_mode),
        checkpoint_after_validation=checkpoint_after_validation,
        latest_checkpoint=latest_checkpoint,
        step_zero_validation=step_zero_validation,
    )
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with preserved_random_state():
            trainer = _trainer(context, test_mode)
        trainer.fit(module)
    except BaseException as error:
        with contextlib.suppress(Exception):  # the device may be what failed
            _back_to_device(context)
        # Lightning exits on Ctrl-C, and ignores it from then on; the script may want to know.
        if isinstance(error, SystemExit) and isinstance(error.__context__, KeyboardInterrupt):
            _handle(signal.SIGINT, on_interrupt)
            raise error.__context__ from None
        raise
    _back_to_device(context)


def _handle(number: signal.Signals, handler: Any) -> None:
    # None stands for a handler that Python did not install and cannot put back.
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)


def _trainer(context: PyTorchTrialContext, test_mode: bool) -> pl.Trainer:
    return pl.Trainer(
        **_devices(context),
        max_epochs=-1,
        limit_val_batches=1 if test_mode else None,
        check_val_every_n_epoch=None,
        val_check_interval=NEVER,
        logger=_logger(context),
        enable_checkpointing=False,
        enable_progress_bar=_shows_progress(),
        enable_model_summary=False,
    )


def _devices(context: PyTorchTrialContext) -> dict[str, Any]:
    is_cuda = context.device.type == "cuda"
    accelerator = "cuda" if is_cuda else context.device.type
    distributed = context.distributed
    if distributed.size == 1:
        return {
            "accelerator": accelerator,
            "devices": [context.device.index or 0] if is_cuda else 1,
            "plugins": [LightningEnvironment()],
        }
    return {
        "accelerator": accelerator,
        "devices": distributed.local_size,
        "num_nodes": distributed.cross_size,
        "strategy": DDPStrategy(cluster_environment=TrialEnvironment(distributed)),
    }


def _logger(context: PyTorchTrialContext) -> Any:
    if not context.get_enable_tensorboard_logging():
        return False
    from lightning_utilities.core.imports import RequirementCache
    from pytorch_lightning.loggers import TensorBoardLogger

    if not RequirementCache("tensorboard"):
        return False
    return TensorBoardLogger(str(context.get_tensorboard_path()), name="", version="")


def _shows_progress() -> bool:
    return sys.stderr.isatty() or os.environ.get("DET_COMPAT_PROGRESS") == "1"


def _back_to_device(context: PyTorchTrialContext) -> None:
    # Lightning's teardown moves everything to the CPU; scripts go on to use the trial's models.
    if context.device.type == "cpu":
        return
    for model in context.models:
        model.to(context.device)
    for optimizer in context.optimizers:
        optimizer.load_state_dict(optimizer.state_dict())


class ScheduledModule(TrialHooks):
    """Runs a trial on the schedule of ``pytorch.Trainer.fit``."""

    def __init__(
        self,
        run: TrialRun,
        schedule: Schedule,
        *,
        checkpoint_after_validation: bool,
        latest_checkpoint: str | None,
        step_zero_validation: bool,
    ) -> None:
        super().__init__()
        self.attach_run(run)
        self._schedule = schedule
        self._checkpoint_after_validation = checkpoint_after_validation
        self._latest_checkpoint = latest_checkpoint
        self._step_zero_validation = step_zero_validation
        self._written = latest_checkpoint
        self._still_due: Iterator[None] = iter(())

    def setup(self, stage: str) -> None:
        prepare_trainer(self.trainer)

    def on_fit_start(self) -> None:
        if self._latest_checkpoint is not None:
            directory = self.context._core.checkpoint.find(self._latest_checkpoint)
            self._restored = read_checkpoint(directory)
        super().on_fit_start()
        log_often_enough(self.trainer, self.run.epoch_len)

    def started_from(self) -> str | None:
        return self._latest_checkpoint

    def on_train_start(self) -> None:
        self.trainer.fit_loop.max_epochs = self._epochs()
        super().on_train_start()
        if self._step_zero_validation and self.run.state.batches_trained == 0:
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

    def save_before_the_end(self) -> None:
        if not self._checkpoint_is_current():
            self._checkpoint(stopping=True)
        if self.run.is_chief:
            logger.warning(
                f"SIGTERM: stopped after batch {self.run.state.batches_trained}; go on with "
                f'latest_checkpoint="{self._written}"'
            )

    def after_batch(self) -> None:
        self.trainer.val_check_batch = NEVER
        if due := self._due():
            self.report_training()
            self._still_due = self._do(due)
            self._go_on()

    def _due(self) -> list[Due]:
        batches = self.run.state.batches_trained
        epochs, rest = divmod(batches, self.run.epoch_len)
        return self._schedule.due(batches, epochs if rest == 0 else epochs + 1, rest == 0)

    def _go_on(self) -> None:
        """Do what is still due, up to the next validation, which Lightning runs next."""
        for _ in self._still_due:
            # Lightning validates where the count of batches divides by this.
            self.trainer.val_check_batch = 1
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

    def on_validation_epoch_end(self) -> None:
        super().on_validation_epoch_end()
        if self._checkpoint_after_validation and not self._checkpoint_is_current():
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
            self._written = write_checkpoint(self.run)
        except InvalidHP:
            if stopping:
                raise
            self.run.context._core.train.report_early_exit(core.EarlyExitReason.INVALID_HP)
            self._stop(checkpoint=False)

    def _report_progress(self) -> None:
        if self.run.is_chief:
            state = self.run.state
            progress = self._schedule.progress(state.batches_trained, state.epochs_trained)
            self.run.context._core.train.report_progress(progress=progress)

    def end_run(self, exception: BaseException | None = None) -> None:
        try:
            if isinstance(exception, InvalidHP) and not self._checkpoint_is_current():
                write_checkpoint(self.run)
        finally:
            super().end_run(exception)

    def show_training_so_far(self) -> None:
        """Nothing: the schedule says when metrics are reported."""

    def on_train_end(self) -> None:
        """Nothing: the schedule says when metrics are reported."""

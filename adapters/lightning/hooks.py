"""Lightning's hooks, in terms of a trial's run."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities.types import OptimizerLRScheduler

from det_compat.adapters.checkpoints.checkpoint_io import DeterminedCheckpointIO
from det_compat.adapters.checkpoints.continuation import continuation
from det_compat.adapters.checkpoints.resumption import Resumption
from det_compat.adapters.checkpoints.run_state import (
    kept_by_lightning,
    plain_or_as_it_is,
    plain_state,
    run_state,
)
from det_compat.adapters.data.loaders import TrainingBatches, ValidationBatches, WholeDataset
from det_compat.adapters.generations.adapted import user_trial
from det_compat.adapters.lightning.door import (
    PlainAttributes,
    begin_next_epoch,
    count_step,
    release_trainer,
    validate_now,
)
from det_compat.adapters.lightning.epoch_loop import (
    restore_loops,
    shorten_training,
    shorten_validation,
)
from det_compat.adapters.lightning.host_memory import freed_memory_kept
from det_compat.adapters.lightning.loop_progress import (
    ended_epoch,
    go_on_after,
    note_validation_done,
    validation_was_due,
)
from det_compat.adapters.lightning.preemption import Preempted, TerminationSignal
from det_compat.adapters.lightning.publish import MetricsPublisher
from det_compat.adapters.lightning.strategy import (
    callbacks_of,
    check_flags,
    preemption_path,
)
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.adapters.run.trial_state import TrialState
from det_compat.checkpoint.content import check_lightning_content
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.shared.plain_types import from_plain

logger = logging.getLogger("det_compat")

# What Lightning saves of optimizers and schedulers, which may hold numbers of NumPy.
_OF_LIGHTNING = {"optimizer_states", "lr_schedulers"}


class TrialHooks(PlainAttributes, pl.LightningModule):
    """A LightningModule whose hooks run a trial; subclasses say where the trial comes from.

    The models of the trial are the submodules of ``models``, without DistributedDataParallel, so
    that checkpoints have the same names on any number of ranks.
    """

    #: Batches over which training metrics are averaged before they are reported.
    reporting_period = 100

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.models = torch.nn.ModuleList()
        self._run: TrialRun | None = None
        self._restored: dict[str, Any] | None = None
        self._resumption: Resumption | None = None
        self._batches: TrainingBatches | None = None
        self._termination: TerminationSignal | None = None
        self._memory = contextlib.ExitStack()
        self._sigterm_did: Any = None
        self._publisher = MetricsPublisher()

    @property
    def run(self) -> TrialRun:
        """The run of the trial.

        Raises:
            RuntimeError: the trial is not built yet, since ranks and device are not known.
        """
        if self._run is None:
            raise RuntimeError(
                f"{type(self).__name__} has not built its trial yet: it does so when a Trainer "
                "fits or validates it, or when it is loaded from a checkpoint"
            )
        return self._run

    @property
    def trial(self) -> Any:
        """The user's own trial."""
        return user_trial(self.run.trial)

    @property
    def context(self) -> PyTorchTrialContext:
        """The trial's context."""
        return self.run.context

    def attach_run(self, run: TrialRun) -> None:
        """Run ``run``, and make its models submodules."""
        self._run = run
        self.models = torch.nn.ModuleList(run.context._inner_models)

    def __getstate__(self) -> dict[str, Any]:
        # A run holds workers and process groups. The weights stay, in `models`.
        of_the_run = ("_run", "_resumption", "_batches", "_termination", "_sigterm_did")
        without = dict.fromkeys(of_the_run)
        return {**super().__getstate__(), **without, "_memory": contextlib.ExitStack()}

    # Before and after

    def configure_callbacks(self) -> Sequence[pl.Callback]:
        """What ends the run if an exception does not let ``teardown`` do it."""
        check_flags(self.trainer)  # here, before Lightning gives advice that a trial cannot follow
        callbacks = callbacks_of(self.trainer)
        found = any(isinstance(callback, EndRunOnException) for callback in callbacks)
        return [] if found else [EndRunOnException()]

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The trial's own, for Lightning's checkpoints and monitors; the trial steps them."""
        optimizers = [o for o in self.context.optimizers if isinstance(o, torch.optim.Optimizer)]
        schedulers = [wrapped._scheduler for wrapped in self.context.lr_schedulers]
        known = [
            scheduler
            for scheduler in schedulers
            if isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler)
            and any(scheduler.optimizer is optimizer for optimizer in optimizers)
        ]
        return optimizers, known

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing: when to clear gradients is the trial's business, not Lightning's."""

    def on_fit_start(self) -> None:
        self._sigterm_did = signal.getsignal(signal.SIGTERM)
        run = self.run
        if self._restored is not None:
            self._resumption = Resumption(run, self._restored)
            self._publisher.load_state_dict(_published(self._restored))
            self._resumption.begin(self.started_from())
            return
        if self.trainer.current_epoch == 0:
            run.state = TrialState()
        run.begin(self.started_from(), skip=run.state.batches_trained)

    def started_from(self) -> str | None:
        """The checkpoint that the run starts from."""
        ckpt_path = self.trainer.ckpt_path
        return None if ckpt_path is None else str(ckpt_path)

    def train_dataloader(self) -> TrainingBatches:
        run = self.run
        assert run.stream is not None
        whole_epoch = run.epoch_len
        run.set_epoch_len(_limited(whole_epoch, self.trainer.limit_train_batches))
        self._batches = TrainingBatches(run.stream, whole_epoch)
        if self._resumption is not None:
            self._resumption.restore()
            if run.epoch_len > 0:
                self._place_loops()
        return self._batches

    def _place_loops(self) -> None:
        assert self._restored is not None and self._batches is not None
        run = self.run
        batches, epoch_len = run.state.batches_trained, run.epoch_len
        is_over = ended_epoch(self._restored.get("loops"))
        go_on_after(self.trainer, batches, epoch_len, epoch_is_over=is_over)
        self._batches.is_over = batches > 0 and batches % epoch_len == 0 and not is_over

    def val_dataloader(self) -> ValidationBatches | WholeDataset:
        if self.run.validation is None:
            self.run.begin(training=False)
        assert self.run.validation is not None
        return self.run.validation

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        context = self.run.context
        if isinstance(batch, WholeDataset) or not context.experimental._auto_to_device:
            return batch
        return context.to_device(batch)

    def teardown(self, stage: str) -> None:
        self.end_run()

    def end_run(self, exception: BaseException | None = None) -> None:
        """Shut the run down, which an exception may have ended."""
        self._restored = self._resumption = None
        release_trainer(self.trainer)
        restore_loops(self.trainer)
        self._memory.close()
        if self._run is not None:
            self._run.end()

    # Training

    def on_train_start(self) -> None:
        resumption, self._resumption = self._resumption, None
        self._termination = TerminationSignal(self.context.distributed, self._sigterm_did)
        self.run.callbacks.call("on_training_start")
        if resumption is not None:
            self._publisher.show_again(self.trainer)
            if self._resumes_after_an_epoch():
                self.show_training_so_far()
            resumption.restore_random_states()
            self.do_what_was_due()
        self._restored = None
        shorten_training(self.trainer, TrialHooks)
        if self.trainer.strategy.root_device.type == "cpu":
            self._memory.enter_context(freed_memory_kept())

    def _resumes_after_an_epoch(self) -> bool:
        assert self._batches is not None
        at_its_end = self.run.state.batches_trained % self.run.epoch_len == 0
        return at_its_end and not self._batches.is_over

    def do_what_was_due(self) -> None:
        """Do what was due after the last batch before the checkpoint, and not done yet."""
        if not validation_was_due(self.trainer):
            return
        if self.run.state.last_val != self.run.state.batches_trained:
            validate_now(self.trainer)
            if self._batches is not None and self._batches.is_over:
                return
        note_validation_done(self.trainer)

    def training_step(self, batch: Any, batch_idx: int = 0) -> None:
        self.run.train_batch(batch)
        count_step(self.trainer)
        self.after_batch()
        if self._termination is not None and self._termination.is_noticed():
            self.save_before_the_end()
            raise Preempted

    def save_before_the_end(self) -> None:
        """Write a checkpoint of a run that SIGTERM ends."""
        path = preemption_path(self.trainer, self.run.state.batches_trained)
        self.trainer.save_checkpoint(path)
        if self.run.is_chief:
            logger.warning(
                f"SIGTERM: stopped after batch {self.run.state.batches_trained}; go on with "
                f'trainer.fit(module, ckpt_path="{path}")'
            )

    def after_batch(self) -> None:
        """Do what is due after a batch and its epoch."""
        if self.run.state.batches_trained % self.reporting_period == 0:
            self.report_training()
            self._stop_if_requested()

    def _stop_if_requested(self) -> None:
        if self.context.get_stop_requested():
            self.run.is_stopping = self.trainer.should_stop = True

    def report_training(self) -> None:
        """End the period in which training metrics are averaged."""
        averages = self.run.end_period()
        self._publisher.training(self.trainer, averages, self.run.state.batches_trained)

    def on_train_epoch_end(self) -> None:
        if self._batches is not None and self._batches.is_over:
            self._batches.is_over = False
            begin_next_epoch(self.trainer)
        self.show_training_so_far()

    def show_training_so_far(self) -> None:
        """Publish the averages of a reporting period that is not over."""
        # Callbacks may monitor a training metric in an epoch that is shorter than a period.
        callbacks = callbacks_of(self.trainer)
        is_seen = any(not isinstance(callback, EndRunOnException) for callback in callbacks)
        if is_seen and len(self.run.training_metrics):
            self._publisher.training_so_far(self.trainer, self.run.averages_so_far())

    def on_fit_end(self) -> None:
        if self._resumption is not None:
            # Nothing was left to train, so Lightning has left out the hooks of training.
            self.on_train_end()

    def on_train_end(self) -> None:
        if len(self.run.training_metrics):
            self.report_training()

    # Validation

    def on_validation_model_eval(self) -> None:
        if len(self.run.training_metrics):
            with torch.enable_grad():
                self.report_training()
        self.run.begin_validation()

    def on_validation_model_train(self) -> None:
        """Nothing: the next training period puts the models into train mode."""

    def on_validation_start(self) -> None:
        shorten_validation(self.trainer, TrialHooks)
        self.run.start_validation()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.run.evaluate(batch, batch_idx)

    def on_validation_epoch_end(self) -> None:
        metrics = self.run.end_validation()
        self._publisher.validation(self, metrics, self.run.state.batches_trained)
        if self.trainer.state.fn == TrainerFn.FITTING:
            self.after_validation(metrics)

    def after_validation(self, metrics: dict[str, Any]) -> None:
        """Do what is due after a validation that is part of training."""

    def on_validation_end(self) -> None:
        self._stop_if_requested()

    # Checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        callbacks = self.run.callbacks.state_dict()
        state = run_state(self.run, callbacks)
        if self.run.is_chief:
            self.run.callbacks.call("on_checkpoint_save_start", state)
        kept = {key: state[key] for key in state.keys() - kept_by_lightning(self.context)}
        for key in _OF_LIGHTNING & checkpoint.keys():
            checkpoint[key] = plain_or_as_it_is(checkpoint[key], key)
        checkpoint["determined"] = {
            **plain_state(kept),
            "trial_state": dict(vars(self.run.state)),
            "continuation": self.state_to_go_on(callbacks),
        }
        checkpoint_io = self.trainer.strategy.checkpoint_io
        if isinstance(checkpoint_io, DeterminedCheckpointIO):
            checkpoint_io.on_written = self._tell_of_checkpoint

    def _tell_of_checkpoint(self, path: Path) -> None:
        # Only the chief's process writes, and gets here.
        self.run.callbacks.checkpoint_written(str(path.parent))
        self.run.callbacks.call("on_checkpoint_upload_end", uuid=path.stem)

    def state_to_go_on(self, callbacks: dict[str, Any]) -> dict[str, Any]:
        """What else goes into a checkpoint, in plain types. Every rank has to call it.

        ``callbacks`` is the state of the trial's callbacks on this rank.
        """
        return {**continuation(self.run, callbacks), "published": self._publisher.state_dict()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        for key in _OF_LIGHTNING & checkpoint.keys():
            checkpoint[key] = from_plain(checkpoint[key])
        try:
            stage = self.trainer.state.fn
        except RuntimeError:  # load_from_checkpoint has no Trainer, and wants the weights only
            return
        if not (state := checkpoint.get("determined")):
            return
        check_lightning_content(self.started_from(), state)
        if stage == TrainerFn.FITTING:
            self._restored = {**state, "loops": checkpoint.get("loops")}
        elif batches := state.get("trial_state", {}).get("batches_trained"):
            self.run.show_progress(batches)
        self._publisher.load_state_dict(_published(state))


def _published(state: dict[str, Any]) -> dict[str, Any]:
    return (state.get("continuation") or {}).get("published") or {}


def _limited(batches: int, limit: int | float) -> int:
    """The length of an epoch of ``batches`` batches under Lightning's ``limit_train_batches``."""
    if limit == 1.0 and isinstance(limit, float):
        return batches
    return min(batches, limit) if isinstance(limit, int) else int(batches * limit)


class EndRunOnException(pl.Callback):
    """Ends the run of a trial when the Trainer stops on an exception."""

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        if isinstance(pl_module, TrialHooks):
            pl_module.end_run(exception)

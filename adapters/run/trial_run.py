"""One run of a trial: what Determined did before, in and after each batch.

Nothing here loops. Lightning's loops call it, through ``adapters/lightning/hooks.py``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from det_compat.adapters.data.batch_stream import BatchStream
from det_compat.adapters.data.loaders import (
    UNSIZED,
    ValidationBatches,
    WholeDataset,
    length_of,
    torch_loader,
)
from det_compat.adapters.run.callbacks import TrialCallbacks
from det_compat.adapters.run.checks import check_trial, evaluates_batches
from det_compat.adapters.run.lr_schedule import step_lr_schedulers
from det_compat.adapters.run.metrics_window import MetricsWindow
from det_compat.adapters.run.trial_state import TrialState
from det_compat.pytorch.context.ddp import TrialDDP
from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.metrics import (
    average_over_ranks,
    average_training_metrics,
    combine_training_metrics,
    expand_reducers,
    reduce_validation_metrics,
    to_numpy,
)
from det_compat.pytorch.overrides import is_user_code, takes_parameter
from det_compat.shared.random_state import RandomState, random_state, set_random_state

# Lightning would take a StopIteration for the end of its own data.
_RAN_OUT = "{}() raised StopIteration: an iterator of the trial's own has run out"


class TrialRun:
    """A trial with its context, callbacks, loaders, counters and collected metrics.

    The order of what user code sees, from ``begin`` to ``end``, is that of Determined 0.38.1::

        on_trial_startup
        build_training_data_loader, build_validation_data_loader, iter(training loader)
        on_training_start
        for each period (until a report, a validation, a checkpoint or the end is due):
            every model.train(), every reducer.reset()
            for each batch:
                on_training_epoch_start         before the first batch of an epoch
                train_batch, scaler.update, LR scheduler steps
                on_training_epoch_end           after the last batch of an epoch
            reducers, on_training_workload_end
            if a validation is due:
                every reducer.reset(), every model.eval(), on_validation_start
                on_validation_epoch_start, evaluate_batch ..., on_validation_epoch_end
                reducers, on_validation_end
            if a checkpoint is due:
                on_checkpoint_save_start, on_checkpoint_write_end (chief), on_checkpoint_upload_end
        on_trial_shutdown
    """

    def __init__(self, trial: Any, context: PyTorchTrialContext) -> None:
        check_trial(trial, context)
        self.trial = trial
        self.context = context
        self.steering = Steering(context)
        self.callbacks = TrialCallbacks(trial.build_callbacks())
        self.state = TrialState()
        self.evaluates_batches = evaluates_batches(trial)
        self.epoch_len = UNSIZED
        self.stream: BatchStream | None = None
        self.validation: ValidationBatches | WholeDataset | None = None
        self.training_metrics = MetricsWindow("train_batch")
        self._validation_metrics = MetricsWindow(
            "evaluate_batch" if self.evaluates_batches else "evaluate_full_dataset"
        )
        #: Whether training metrics are being collected.
        self.in_period = False
        #: Whether the run is about to end because it was asked to.
        self.is_stopping = False
        #: The random state in which the loaders were built.
        self.random_state_of_loaders: RandomState = {}
        measure = getattr(trial, "get_batch_length", None)
        self._measures_batches = is_user_code(measure, "PyTorchTrial")
        self._passes_batch_idx = False

    @property
    def is_chief(self) -> bool:
        """Whether this is the process of rank 0."""
        return self.context.distributed.rank == 0

    @property
    def is_validated(self) -> bool:
        """Whether the last validation was after the last batch."""
        return self.state.last_val == self.state.batches_trained

    @property
    def is_saved(self) -> bool:
        """Whether the last checkpoint of Determined's layout was written after the last batch."""
        return self.state.last_ckpt == self.state.batches_trained

    # Start and end

    def begin(
        self,
        checkpoint: str | None = None,
        *,
        training: bool = True,
        skip: int = 0,
        continues: dict[str, Any] | None = None,
    ) -> None:
        """Start the callbacks and build the loaders.

        Args:
            checkpoint: what the run starts from.
            training: whether to build the training loader.
            skip: batches to leave out of the training data, where ``continues`` does not say.
            continues: this rank's part of the checkpoint's ``continuation``.
        """
        self._forget_metrics()
        self.is_stopping = False
        self.callbacks.startup(self.state.batches_trained, checkpoint)
        if continues is not None:
            set_random_state(continues["loaders_built"])
        self.random_state_of_loaders = random_state()
        position = None if continues is None else continues["data"]
        skip = skip if position is None else position["skipped"]
        loader = self._training_loader(skip) if training else None
        skips_by_itself = self.steering.told_initial_batch
        self._build_validation_loader()
        if loader is not None:
            self.stream = BatchStream(
                loader, self.epoch_len, skip, position, skips_by_itself=skips_by_itself
            )
        if self.state.batches_trained:
            self.show_progress(self.state.batches_trained)

    def _forget_metrics(self) -> None:
        # A run before this one may have ended by an exception.
        self.in_period = False
        self.training_metrics.clear()
        self._validation_metrics.clear()

    def show_progress(self, batches_trained: int) -> None:
        """Let the trial know the progress of a checkpoint, in a validation before any training."""
        self.steering.at_batch(batches_trained - 1)
        # the training data, which a validation needs for nothing else, may not be there
        self.steering.count_epoch_by(self._count_epoch)

    def _count_epoch(self) -> int:
        data = self.trial.build_training_data_loader()
        loader = torch_loader(self.context, "build_training_data_loader", data, repeat=True)
        return length_of(loader)

    def _training_loader(self, skip: int) -> Any:
        method = "build_training_data_loader"
        self.steering.start_at(self.state.batches_trained)
        loader = torch_loader(
            self.context,
            method,
            self.trial.build_training_data_loader(),
            repeat=True,
            skip=skip,
        )
        length = self.context.distributed.broadcast(length_of(loader))
        if length == 0:
            raise RuntimeError(f"the training loader is empty: {method}() has no batch to train on")
        self.set_epoch_len(length)
        return loader

    def _build_validation_loader(self) -> None:
        data = self.trial.build_validation_data_loader()
        loader = None
        if self.evaluates_batches or self.is_chief:
            loader = torch_loader(
                self.context,
                "build_validation_data_loader",
                data,
                every_rank=self.evaluates_batches,
            )
        self._check_validation_lengths(None if loader is None else length_of(loader))
        self.validation = (
            ValidationBatches(loader) if self.evaluates_batches else WholeDataset(loader)
        )

    def _check_validation_lengths(self, batches: int | None) -> None:
        # Every rank raises, so that none waits for one that has.
        lengths = self.context.distributed.allgather(batches)
        if empty := [rank for rank, length in enumerate(lengths) if length == 0]:
            raise RuntimeError(
                f"the validation loader is empty on rank {', '.join(map(str, empty))}: "
                "build_validation_data_loader() must give every rank at least one batch"
            )

    def set_epoch_len(self, batches: int) -> None:
        """Set the number of batches after which an epoch ends."""
        self.epoch_len = batches
        self.steering.set_epoch_length(batches)

    def end(self) -> None:
        """Release the loader's workers and shut the callbacks down; once."""
        if self.stream is not None:
            self.stream.close()
        self.validation = None
        try:
            self.callbacks.shutdown()
        finally:
            self.context.close_tensorboard_writer()

    # Training

    def resume_period(self, metrics: list[dict[str, Any]]) -> None:
        """Go on collecting training metrics, after those of the batches so far."""
        self.in_period = True
        self._set_status("training")
        for model in self.context.models:
            model.train()
        for collected in metrics:
            self.training_metrics.append(collected)

    def train_batch(self, batch: Any) -> None:
        """Train on a batch and do what is due after it, up to the end of the epoch."""
        steering, state = self.steering, self.state
        batch_idx = state.batches_trained
        epoch_idx, idx_in_epoch = divmod(batch_idx, self.epoch_len)
        if not self.in_period:
            self._start_period()
        steering.at_batch(batch_idx)
        if idx_in_epoch == 0:
            self.callbacks.epoch_start(epoch_idx)
        with self.context.gradient_sync(), self._profiled():
            metrics = self._trained(batch, epoch_idx, batch_idx)
        steering.update_scaler()
        step_lr_schedulers(steering, batch_idx, self.epoch_len)
        if isinstance(metrics, torch.Tensor):
            metrics = {"loss": metrics}
        self.training_metrics.append(metrics)
        self._measure(batch)
        state.batches_trained += 1
        if idx_in_epoch == self.epoch_len - 1:
            self.callbacks.call("on_training_epoch_end", epoch_idx)
            state.epochs_trained += 1

    def _trained(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        try:
            return self.trial.train_batch(batch=batch, epoch_idx=epoch_idx, batch_idx=batch_idx)
        except StopIteration as error:
            raise RuntimeError(_RAN_OUT.format("train_batch")) from error

    def _measure(self, batch: Any) -> None:
        # A trial may count its records here; what the base class does has no effect.
        if self._measures_batches:
            self.trial.get_batch_length(batch)

    def _start_period(self) -> None:
        self.in_period = True
        self._set_status("training")
        for model in self.context.models:
            model.train()
        self.context.reset_reducers()

    def _profiled(self) -> contextlib.AbstractContextManager[None]:
        profiler = self.context.profiler
        return contextlib.nullcontext() if profiler is None else _step_of(profiler)

    def end_period(self) -> dict[str, Any]:
        """Average, reduce and report the training metrics; returns the averages, on every rank."""
        self.in_period = False
        batches = combine_training_metrics(self.context.distributed, self.training_metrics.close())
        averages = average_training_metrics(batches)
        averages.update(to_numpy(self.context.reduce_metrics(for_training=True)))
        if self.is_chief:
            self._add_progress(averages)
            self.steering.core.train.report_training_metrics(
                steps_completed=self.state.batches_trained, metrics=averages, batch_metrics=batches
            )
        averages, batches = self.context.distributed.broadcast((averages, batches))
        self.callbacks.call("on_training_workload_end", avg_metrics=averages, batch_metrics=batches)
        self.context.flush_tensorboard_writer()
        return averages

    def averages_so_far(self) -> dict[str, Any]:
        """Averages over the period that is not over yet, without reducers, on every rank."""
        gathered = self.context.distributed.allgather(self.training_metrics.peek())
        return average_training_metrics(average_over_ranks(gathered))

    # Validation

    def begin_validation(self) -> None:
        """Prepare models and reducers for a validation."""
        self._set_status("validating")
        self.in_period = False
        self.context.reset_reducers()
        for model in self.context.models:
            model.eval()

    def start_validation(self) -> None:
        """Tell the callbacks that a validation starts."""
        self.callbacks.call("on_validation_start")
        if self.evaluates_batches:
            self._passes_batch_idx = takes_parameter(self.trial.evaluate_batch, "batch_idx", 2)
            self.callbacks.call("on_validation_epoch_start")

    def evaluate(self, batch: Any, batch_idx: int) -> None:
        """Evaluate a batch, or all the data where ``batch`` stands for it."""
        if isinstance(batch, WholeDataset):
            if self.is_chief:
                self._evaluate_full_dataset(batch.loader)
            return
        self._measure(batch)
        index = {"batch_idx": batch_idx} if self._passes_batch_idx else {}
        try:
            metrics = self.trial.evaluate_batch(batch=batch, **index)
        except StopIteration as error:
            raise RuntimeError(_RAN_OUT.format("evaluate_batch")) from error
        self._validation_metrics.append(metrics)

    def _evaluate_full_dataset(self, loader: Any) -> None:
        for model in self.context.models:
            if isinstance(model, TrialDDP):
                model.forward_without_sync()
        metrics = self.trial.evaluate_full_dataset(data_loader=loader)
        self._validation_metrics.append(metrics)

    def end_validation(self) -> dict[str, Any]:
        """Reduce and report the validation metrics; returns them, on every rank."""
        batches = self._validation_metrics.close()
        metrics = self._reduced(batches) if self.evaluates_batches else _only(batches)
        metrics.update(to_numpy(self.context.reduce_metrics(for_training=False)))
        metrics = self.context.distributed.broadcast(metrics)
        self.callbacks.call("on_validation_end", metrics)
        self.state.last_val = self.state.batches_trained
        if self.is_chief:
            self._add_progress(metrics)
            self.steering.core.train.report_validation_metrics(
                steps_completed=self.state.batches_trained, metrics=metrics
            )
        self.context.flush_tensorboard_writer()
        return metrics

    def _reduced(self, batches: list[dict[str, Any]]) -> dict[str, Any]:
        if not batches:
            raise RuntimeError("the validation loader is empty: it gave no batch")
        names = batches[0].keys()
        for index, batch in enumerate(batches):
            if batch.keys() != names:
                raise ValueError(
                    "evaluate_batch() must return the same metric names for every batch: "
                    f"{list(names)} for batch 0, {list(batch)} for batch {index}"
                )
        self.callbacks.call("on_validation_epoch_end", batches)
        reducers = expand_reducers(self.trial.evaluation_reducer(), names)
        return reduce_validation_metrics(self.context.distributed, batches, reducers)

    def _add_progress(self, metrics: dict[str, Any]) -> None:
        metrics.setdefault("batches", self.state.batches_trained)
        metrics.setdefault("epochs", self.state.epochs_trained)

    def _set_status(self, status: str) -> None:
        if self.is_chief:
            self.steering.core.train.set_status(status)


@contextlib.contextmanager
def _step_of(profiler: Any) -> Iterator[None]:
    with profiler:
        yield
        profiler.step()


def _only(batches: list[dict[str, Any]]) -> dict[str, Any]:
    return batches[0] if batches else {}

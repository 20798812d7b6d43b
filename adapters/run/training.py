"""Training on batches, and the periods over which their metrics are averaged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from det_compat.core.ranks.columns import AsColumns
from det_compat.pytorch.lr_scheduler import step_what_is_due
from det_compat.pytorch.metrics import (
    average_over_ranks,
    average_training_metrics,
    combine_training_metrics,
    to_numpy,
)

if TYPE_CHECKING:
    from det_compat.adapters.run.trial_run import TrialRun

#: Lightning would take a StopIteration for the end of its own data.
RAN_OUT = "{}() raised StopIteration: an iterator of the trial's own has run out"


class MetricsWindow:
    """Collects what ``train_batch`` or ``evaluate_batch`` return, without waiting for a GPU.

    Tensors on the CPU become NumPy arrays of the same memory at once, as in Determined 0.38.1;
    tensors on other devices are copied there and fetched when the window is closed.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._batches: list[dict[str, Any]] = []
        self._is_on_device = False

    def __len__(self) -> int:
        return len(self._batches)

    def append(self, metrics: Any) -> None:
        """Add the metrics of a batch.

        Raises:
            TypeError: they are no dict.
        """
        if not isinstance(metrics, dict):
            raise TypeError(
                f"{self._source}() must return a dict of metrics by name, got "
                f"{type(metrics).__name__}"
            )
        for name, value in metrics.items():
            if isinstance(value, torch.Tensor):
                metrics[name] = self._keep(value)
        self._batches.append(metrics)

    def _keep(self, value: torch.Tensor) -> Any:
        if value.requires_grad:
            value = value.detach()
        # The norm of a sharded model's gradients is sharded, too.
        if type(value) is not torch.Tensor and hasattr(value, "full_tensor"):
            value = value.full_tensor()
        if value.is_cpu and value.dtype != torch.bfloat16:
            return value.numpy()
        self._is_on_device = True
        return value.clone()

    def peek(self) -> list[dict[str, Any]]:
        """The metrics so far, as NumPy arrays; the window stays open."""
        if self._is_on_device:
            return [to_numpy(dict(metrics)) for metrics in self._batches]
        return self._batches

    def clear(self) -> None:
        """Forget all metrics."""
        self._batches = []
        self._is_on_device = False

    def close(self) -> list[dict[str, Any]]:
        """The metrics, as NumPy arrays; the window is empty after it."""
        batches, self._batches = self._batches, []
        if self._is_on_device:
            self._is_on_device = False
            for metrics in batches:
                to_numpy(metrics)
        return batches


class Training:
    """The training half of a run: its batches, and the period that they are reported in.

    Attributes:
        metrics: of the batches since the last report.
        in_period: whether training metrics are being collected.
    """

    def __init__(self, run: TrialRun) -> None:
        self._run = run
        self.metrics = MetricsWindow("train_batch")
        self.in_period = False

    def forget(self) -> None:
        """Forget the metrics of a run that an exception has ended."""
        self.in_period = False
        self.metrics.clear()

    def resume_period(self, metrics: list[dict[str, Any]]) -> None:
        """Go on collecting training metrics, after those of the batches so far."""
        self._enter_period()
        for collected in metrics:
            self.metrics.append(collected)

    def _enter_period(self) -> None:
        self.in_period = True
        self._run.set_status("training")
        for model in self._run.context.models:
            model.train()

    def train_batch(self, batch: Any) -> None:
        """Train on a batch and do what is due after it, up to the end of the epoch."""
        run = self._run
        context, steering, state = run.context, run.steering, run.state
        batch_idx = state.batches_trained
        epoch_idx, idx_in_epoch = divmod(batch_idx, run.epoch_len)
        if not self.in_period:
            self._enter_period()
            context.reset_reducers()
        steering.at_batch(batch_idx)
        if idx_in_epoch == 0:
            run.callbacks.epoch_start(epoch_idx)
        with steering.gradient_sync(), _profiled(context.profiler):
            metrics = self._trained(batch, epoch_idx, batch_idx)
        steering.update_scaler()
        if context.lr_schedulers:
            aggregation = steering.aggregation_frequency
            step_what_is_due(context.lr_schedulers, batch_idx, run.epoch_len, aggregation)
        if isinstance(metrics, torch.Tensor):
            metrics = {"loss": metrics}
        self.metrics.append(metrics)
        if run.count_records is not None:
            run.count_records(batch)
        state.batches_trained += 1
        if idx_in_epoch == run.epoch_len - 1:
            run.callbacks.call("on_training_epoch_end", epoch_idx)
            state.epochs_trained += 1

    def _trained(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        train_batch = self._run.trial.train_batch
        try:
            return train_batch(batch=batch, epoch_idx=epoch_idx, batch_idx=batch_idx)
        except StopIteration as error:
            raise RuntimeError(RAN_OUT.format("train_batch")) from error

    def end_period(self) -> dict[str, Any]:
        """Average, reduce and report the training metrics; returns the averages, on every rank."""
        run, distributed = self._run, self._run.context.distributed
        self.in_period = False
        batches = combine_training_metrics(distributed, self.metrics.close())
        averages = average_training_metrics(batches)
        averages.update(to_numpy(run.context.reduce_metrics(for_training=True)))
        if run.is_chief:
            run.add_progress(averages)
            run.steering.core.train.report_training_metrics(
                steps_completed=run.state.batches_trained, metrics=averages, batch_metrics=batches
            )
        received: Any = distributed.broadcast((averages, AsColumns(batches)))
        if not run.is_chief:
            averages, batches = received
        run.callbacks.call("on_training_workload_end", avg_metrics=averages, batch_metrics=batches)
        run.context.flush_tensorboard_writer()
        return averages

    def averages_so_far(self) -> dict[str, Any]:
        """Averages over the period that is not over yet, without reducers, on every rank."""
        distributed, batches = self._run.context.distributed, self.metrics.peek()
        gathered: list[Any] = [*distributed.allgather(AsColumns(batches))]
        gathered[distributed.rank] = batches
        return average_training_metrics(average_over_ranks(gathered))


def _profiled(profiler: Any) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if profiler is None else _step_of(profiler)


@contextlib.contextmanager
def _step_of(profiler: Any) -> Iterator[None]:
    with profiler:
        yield
        profiler.step()

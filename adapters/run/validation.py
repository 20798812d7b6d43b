"""Validations: of batches on all ranks, or of the whole dataset on the chief."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from det_compat.adapters.data.loaders import ValidationBatches, WholeDataset
from det_compat.adapters.run.training import RAN_OUT, MetricsWindow
from det_compat.errors import InvalidLoaderError
from det_compat.pytorch.context.ddp import TrialDDP
from det_compat.pytorch.metrics import expand_reducers, reduce_validation_metrics, to_numpy
from det_compat.pytorch.overrides import is_user_code, takes_parameter

if TYPE_CHECKING:
    from det_compat.adapters.run.trial_run import TrialRun


class Validation:
    """The validation half of a run.

    Attributes:
        by_batch: whether the trial evaluates batches; otherwise, the whole dataset.
        data: the validation data, where they are built.
    """

    def __init__(self, run: TrialRun) -> None:
        self._run = run
        self.by_batch = evaluates_batches(run.trial)
        self.data: ValidationBatches | WholeDataset | None = None
        #: Whether models and reducers are ready for a validation that has not started.
        self.has_begun = False
        self._metrics = MetricsWindow(
            "evaluate_batch" if self.by_batch else "evaluate_full_dataset"
        )
        self._passes_batch_idx = self.by_batch and takes_parameter(
            run.trial.evaluate_batch, "batch_idx", 2
        )

    def forget(self) -> None:
        """Forget the metrics of a run that an exception has ended."""
        self._metrics.clear()

    def begin(self) -> None:
        """Prepare models and reducers for a validation."""
        run = self._run
        self.has_begun = True
        run.set_status("validating")
        run.training.in_period = False
        run.context.reset_reducers()
        for model in run.context.models:
            model.eval()
        run.steering.make_models_whole()

    def start(self) -> None:
        """Tell the callbacks that a validation starts."""
        run = self._run
        self.has_begun = False
        run.callbacks.call("on_validation_start")
        if self.by_batch:
            run.callbacks.call("on_validation_epoch_start")

    def evaluate(self, batch: Any, batch_idx: int) -> None:
        """Evaluate a batch, or all the data where ``batch`` stands for it."""
        run = self._run
        if isinstance(batch, WholeDataset):
            if run.is_chief:
                self._evaluate_full_dataset(batch.loader)
            return
        if run.count_records is not None:
            run.count_records(batch)
        index = {"batch_idx": batch_idx} if self._passes_batch_idx else {}
        try:
            metrics = run.trial.evaluate_batch(batch=batch, **index)
        except StopIteration as error:
            raise RuntimeError(RAN_OUT.format("evaluate_batch")) from error
        self._metrics.append(metrics)

    def _evaluate_full_dataset(self, loader: Any) -> None:
        for model in self._run.context.models:
            if isinstance(model, TrialDDP):
                model.forward_without_sync()
        self._metrics.append(self._run.trial.evaluate_full_dataset(data_loader=loader))

    def end(self) -> dict[str, Any]:
        """Reduce and report the validation metrics; returns them, on every rank."""
        run = self._run
        batches = self._metrics.close()
        metrics = self._reduced(batches) if self.by_batch else _only(batches)
        metrics.update(to_numpy(run.context.reduce_metrics(for_training=False)))
        metrics = run.context.distributed.broadcast(metrics)
        run.callbacks.call("on_validation_end", metrics)
        run.state.last_val = run.state.batches_trained
        if run.is_chief:
            run.add_progress(metrics)
            run.steering.core.train.report_validation_metrics(
                steps_completed=run.state.batches_trained, metrics=metrics
            )
        run.context.flush_tensorboard_writer()
        run.steering.shard_models_again()
        return metrics

    def _reduced(self, batches: list[dict[str, Any]]) -> dict[str, Any]:
        if not batches:
            raise InvalidLoaderError("the validation loader is empty: it gave no batch")
        names = batches[0].keys()
        for index, batch in enumerate(batches):
            if batch.keys() != names:
                raise ValueError(
                    "evaluate_batch() must return the same metric names for every batch: "
                    f"{list(names)} for batch 0, {list(batch)} for batch {index}"
                )
        self._run.callbacks.call("on_validation_epoch_end", batches)
        reducers = expand_reducers(self._run.trial.evaluation_reducer(), names)
        return reduce_validation_metrics(self._run.context.distributed, batches, reducers)


def _only(batches: list[dict[str, Any]]) -> dict[str, Any]:
    return batches[0] if batches else {}


def evaluates_batches(trial: Any) -> bool:
    """Whether the trial defines ``evaluate_batch``."""
    return is_user_code(getattr(trial, "evaluate_batch", None), "PyTorchTrial")


def evaluates_full_dataset(trial: Any) -> bool:
    """Whether the trial defines ``evaluate_full_dataset``."""
    return is_user_code(getattr(trial, "evaluate_full_dataset", None), "PyTorchTrial")

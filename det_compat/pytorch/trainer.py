"""``pytorch.Trainer``: trains a trial for a length, on Lightning."""

import logging
import sys

from det_compat.config.hyperparameters import batch_size
from det_compat.config.lengths import parse_length
from det_compat.core.retention import CHECKPOINT_POLICIES
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.engine import FitArguments, engine
from det_compat.pytorch.schedule import Due, Schedule, train_unit
from det_compat.pytorch.train_unit import Batch, Epoch, TrainUnit
from det_compat.pytorch.trial import PyTorchTrial
from det_compat.script.task import Task, current_task

logger = logging.getLogger("determined.pytorch")


class Trainer:
    """Trains ``trial``, built with ``context``, inside the block of ``pytorch.init()``."""

    def __init__(self, trial: PyTorchTrial, context: PyTorchTrialContext) -> None:
        self._trial = trial
        self._context = context

    def configure_profiler(
        self,
        sync_timings: bool = True,
        enabled: bool = False,
        begin_on_batch: int = 0,
        end_after_batch: int | None = None,
    ) -> None:
        """Do nothing, as in Determined 0.38.1; ``context.set_profiler`` profiles."""
        logger.error(
            "trainer.configure_profiler() has no effect: call context.set_profiler(...) in the "
            "trial's __init__"
        )

    def fit(
        self,
        checkpoint_period: TrainUnit | None = None,
        validation_period: TrainUnit | None = None,
        max_length: TrainUnit | None = None,
        reporting_period: TrainUnit = Batch(100),  # noqa: B008 (This is Determined's signature.)
        checkpoint_policy: str = "best",
        latest_checkpoint: str | None = None,
        step_zero_validation: bool = False,
        test_mode: bool = False,
        profiling_enabled: bool = False,
    ) -> None:
        """Train for ``max_length``, validate and checkpoint, as Determined 0.38.1 does locally.

        Args:
            checkpoint_period: when to checkpoint; ``Batch([1, 5])`` lists the batches.
            validation_period: when to validate.
            max_length: ``Batch(n)`` or ``Epoch(n)``; in a script that ``det-compat fit`` runs, by
                default the config's ``searcher.max_length``.
            reporting_period: over how many batches training metrics are averaged.
            checkpoint_policy: "all" checkpoints after every validation; "none" does not; "best"
                needs an experiment to compare with: without one it means "all".
            latest_checkpoint: a checkpoint to start from: its directory or UUID.
            step_zero_validation: validate before training, too.
            test_mode: train and validate on one batch only.
            profiling_enabled: has no effect, as off a cluster.

        Raises:
            ValueError: ``max_length`` is missing or ``checkpoint_policy`` unknown.
            TypeError: ``max_length`` is not a ``Batch`` or ``Epoch`` of an int, or a period is
                neither.
        """
        task = current_task()
        if task is not None and max_length is None:
            max_length = _length_in_config(task)
        length = _checked_length(max_length)
        if checkpoint_policy not in CHECKPOINT_POLICIES:
            raise ValueError(
                f"checkpoint_policy must be one of {', '.join(CHECKPOINT_POLICIES)}, "
                f"got {checkpoint_policy!r}"
            )
        if task is not None:
            _check_task(task, latest_checkpoint, test_mode)
        elif checkpoint_policy == "best":
            logger.warning(
                "checkpoint_policy='best' needs a Determined experiment to compare with; using "
                "'all': a checkpoint after every validation"
            )
            checkpoint_policy = "all"
        units = {
            Due.LENGTH: length,
            Due.VALIDATION: validation_period or Batch(sys.maxsize),
            Due.CHECKPOINT: checkpoint_period or Batch(sys.maxsize),
            Due.REPORT: reporting_period,
        }
        for due, unit in units.items():
            _check_period(due.value, unit)
        if profiling_enabled:
            logger.warning(
                "profiling_enabled has no effect off a Determined cluster; call "
                "context.set_profiler(...) in the trial's __init__"
            )
        if task is not None and task.search is not None:
            period = engine().validation_period(task, units[Due.VALIDATION], self._context)
            units[Due.VALIDATION] = period
            checkpoint_policy = "all"
        arguments = FitArguments(
            Schedule(units, test_mode),
            checkpoint_policy=checkpoint_policy,
            latest_checkpoint=latest_checkpoint,
            step_zero_validation=step_zero_validation,
            owns_start=task is not None,
        )
        engine().fit(self._trial, self._context, arguments)


def _length_in_config(task: Task) -> TrainUnit | None:
    searcher = task.config["searcher"]
    length = searcher.get("max_length")
    if searcher.get("time_metric") in ("batches", "epochs", "records"):
        length = {searcher["time_metric"]: searcher["max_time"]}
    if not isinstance(length, dict):
        return None
    return train_unit(parse_length(length).period(batch_size(task.hparams)))


def _check_task(task: Task, latest_checkpoint: str | None, test_mode: bool) -> None:
    if test_mode:
        raise ValueError(
            "test_mode is for scripts that run by themselves: take it out for this run"
        )
    if task.latest_checkpoint is not None and latest_checkpoint is None:
        logger.warning(
            "the run is resumed, and starts from the beginning: call "
            "fit(latest_checkpoint=det.get_cluster_info().latest_checkpoint)"
        )


def _checked_length(max_length: TrainUnit | None) -> TrainUnit:
    if max_length is None:
        raise ValueError("fit() needs max_length, for example max_length=pytorch.Epoch(5)")
    if not isinstance(max_length, (Batch, Epoch)) or not isinstance(max_length.value, int):
        raise TypeError(
            f"max_length must be pytorch.Batch(int) or pytorch.Epoch(int), got {max_length!r}"
        )
    return max_length


def _check_period(name: str, period: TrainUnit) -> None:
    if not isinstance(period, (Batch, Epoch)):
        raise TypeError(f"{name} must be pytorch.Batch(...) or pytorch.Epoch(...), got {period!r}")

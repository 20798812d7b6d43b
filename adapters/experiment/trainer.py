"""What an experiment config says of the Trainer, and what the Trainer's flags change in it.

The config gives devices, strategy, profiler and logger. Length and validation period are the
config's, too, unless the user gave the Trainer others.
"""

import math
import os
from dataclasses import dataclass, replace
from typing import Any

import torch

from det_compat.adapters.lightning.determined_pace import NEVER, TRAINER_FLAGS
from det_compat.adapters.lightning.door import lift_limits
from det_compat.adapters.lightning.package import pl
from det_compat.config.experiment import ExperimentConfig
from det_compat.config.hyperparameters import batch_size
from det_compat.config.lengths import Length, Unit
from det_compat.config.periods import ResolvedPeriods
from det_compat.config.settings import Profiling
from det_compat.experiment.environment import launched
from det_compat.experiment.errors import FitError
from det_compat.experiment.run_folder import RunFolder
from det_compat.pytorch.schedule import UNSIZED_ADVICE, Due, train_unit
from det_compat.pytorch.train_unit import TrainUnit

_LAUNCHED_BY = {
    "torchrun": ("LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"),
    "SLURM": ("SLURM_NTASKS_PER_NODE", "SLURM_NNODES"),
}
_TO_THE_END = 2**31


def trainer_flags(experiment: ExperimentConfig) -> dict[str, Any]:
    """The flags of ``pl.Trainer`` that the config sets."""
    return {**TRAINER_FLAGS, **_device_flags(experiment.slots_per_trial)}


def _device_flags(slots: int) -> dict[str, Any]:
    if (launcher := launched()) is not None:
        devices, nodes = (int(os.environ.get(name, "1")) for name in _LAUNCHED_BY[launcher])
        strategy = {"strategy": "ddp"} if devices * nodes > 1 else {}
        return {"devices": devices, "num_nodes": nodes, **strategy}
    if slots == 0:
        return {"accelerator": "cpu", "devices": 1}
    return {"devices": slots, **({"strategy": "ddp"} if slots > 1 else {})}


def check_devices(experiment: ExperimentConfig, devices: Any, command: str) -> None:
    """Raise FitError if the slots of the config are more than this machine has devices."""
    slots, available = experiment.slots_per_trial, _available()
    if devices != slots or slots <= available or launched() is not None:
        return
    kind = "GPUs" if torch.cuda.is_available() else "CPU cores"
    nodes = -(-slots // available)
    raise FitError(
        f"resources.slots_per_trial is {slots}, and this machine has {available} {kind}: train on "
        f"fewer with --trainer.devices {available}, or on {nodes} machines, each with\n"
        f"  torchrun --nnodes={nodes} --nproc_per_node={available} --rdzv_backend=c10d "
        f"--rdzv_endpoint=HOST:PORT --no-python {command}"
    )


def _available() -> int:
    return torch.cuda.device_count() if torch.cuda.is_available() else os.cpu_count() or 1


def default_logger(folder: RunFolder | None) -> pl.loggers.Logger:
    """TensorBoard, in the run directory; off rank 0, where it is not known, nothing is written."""
    path = "." if folder is None else str(folder.tensorboard)
    return pl.loggers.TensorBoardLogger(path, name="", version="", default_hp_metric=False)


def profiler_of(profiling: Profiling, folder: RunFolder | None) -> pl.profilers.Profiler | None:
    """Lightning's profiler for the config; None if it asks for none."""
    if not profiling.enabled or folder is None:
        return None
    begin, end = profiling.begin_on_batch, profiling.end_after_batch
    if begin == 0 and end is None:
        return pl.profilers.SimpleProfiler(dirpath=str(folder.path), filename="profile")
    batches = _TO_THE_END if end is None else end - begin + 1
    steps = torch.profiler.schedule(skip_first=begin, wait=0, warmup=0, active=batches, repeat=1)
    return pl.profilers.PyTorchProfiler(
        dirpath=str(folder.path), filename="profile", schedule=steps
    )


@dataclass(frozen=True)
class Overrides:
    """What the Trainer was given in place of the config's length and validation period."""

    max_epochs: int | None = None
    max_steps: int | None = None
    val_check_interval: int | float | None = None
    check_val_every_n_epoch: int | None = None

    def length(self, epoch_batches: int | None) -> Length | None:
        """How long to train; None if the config says it. With both limits, the nearer one.

        An epoch of unknown length, ``epoch_batches=None``, has no end.
        """
        if self.max_steps is None:
            return None if self.max_epochs is None else Length(self.max_epochs, Unit.EPOCHS)
        epochs = self.max_epochs
        if epochs is not None and epochs * (epoch_batches or math.inf) <= self.max_steps:
            return Length(epochs, Unit.EPOCHS)
        return Length(self.max_steps, Unit.BATCHES)

    def validation(self, epoch_batches: int | None) -> Length | None:
        """How often to validate; None if the config says it.

        Raises:
            ValueError: it is a part of an epoch, and nothing says how long that is.
        """
        interval, epochs = self.val_check_interval, self.check_val_every_n_epoch
        if isinstance(interval, float):
            if interval == 1:
                return Length(epochs or 1, Unit.EPOCHS)
            if epoch_batches is None:
                raise ValueError(
                    f"val_check_interval={interval} is a part of an epoch: set records_per_epoch "
                    "in the config"
                )
            return _batches(max(int(interval * epoch_batches), 1))
        if interval is not None:
            return _batches(interval)
        return None if epochs is None else Length(epochs, Unit.EPOCHS)


def _batches(count: int) -> Length:
    return Length(count, Unit.BATCHES)


def take_over_schedule(trainer: pl.Trainer) -> Overrides:
    """What the user gave the Trainer, which from now on leaves the schedule to the trial."""
    overrides = Overrides(
        max_epochs=_given(trainer.max_epochs, None, -1),
        max_steps=_given(trainer.max_steps, None, -1),
        val_check_interval=_given(trainer.val_check_interval, None, NEVER),
        check_val_every_n_epoch=trainer.check_val_every_n_epoch,
    )
    lift_limits(trainer)
    trainer.val_check_interval = NEVER
    trainer.check_val_every_n_epoch = None
    return overrides


def _given(value: Any, *defaults: Any) -> Any:
    return None if value in defaults else value


def planned(
    experiment: ExperimentConfig, overrides: Overrides, *, epoch_batches: int | None, slots: int
) -> ResolvedPeriods:
    """The length and the periods of a run on ``slots`` processes.

    ``epoch_batches`` is None where the training loader does not say how long an epoch is.

    Raises:
        FitError: nothing says how long to train, or a length cannot be counted in batches.
    """
    periods = experiment.periods
    size = batch_size(experiment.hyperparameters.constants(), slots)
    counted = epoch_batches
    if counted is None and size and periods.records_per_epoch:
        counted = Length(1, Unit.EPOCHS).batches(size, records_per_epoch=periods.records_per_epoch)
    length = overrides.length(counted) or experiment.length
    if length is None:
        raise FitError(
            "nothing says how long to train: set searcher.max_length, or give --trainer.max_epochs"
        )
    try:
        if (validation := overrides.validation(counted)) is not None:
            periods = replace(periods, validation=validation)
        return periods.resolve(length, epoch_batches=epoch_batches, global_batch_size=size)
    except ValueError as error:
        advice = f"; or {UNSIZED_ADVICE}" if epoch_batches is None else ""
        raise FitError(f"{error}{advice}") from error


def as_train_units(periods: ResolvedPeriods) -> dict[Due, TrainUnit]:
    """``periods`` as a schedule takes them."""
    return {
        Due.LENGTH: train_unit(periods.length),
        Due.VALIDATION: train_unit(periods.validation),
        Due.CHECKPOINT: train_unit(periods.checkpoint),
        Due.REPORT: train_unit(periods.report),
    }

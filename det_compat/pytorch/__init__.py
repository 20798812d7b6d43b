"""The public names of ``determined.pytorch`` 0.38.1."""

from __future__ import annotations

from det_compat.pytorch import samplers
from det_compat.pytorch._callback import PyTorchCallback
from det_compat.pytorch._clip_grads import ClipGradsL2Norm, ClipGradsL2Value
from det_compat.pytorch._context import PyTorchTrialContext
from det_compat.pytorch._data import (
    DataLoader,
    TorchData,
    adapt_batch_sampler,
    data_length,
    to_device,
)
from det_compat.pytorch._experimental import PyTorchExperimentalContext
from det_compat.pytorch._init import init
from det_compat.pytorch._load import CheckpointLoadContext, load_trial_from_checkpoint_path
from det_compat.pytorch._lr_scheduler import LRScheduler
from det_compat.pytorch._reducer import MetricReducer, Reducer
from det_compat.pytorch._reset_parameters import reset_parameters
from det_compat.pytorch._train_unit import Batch, Epoch, TrainUnit
from det_compat.pytorch._trainer import Trainer
from det_compat.pytorch._trial import PyTorchTrial

__all__ = [
    "Batch",
    "CheckpointLoadContext",
    "ClipGradsL2Norm",
    "ClipGradsL2Value",
    "DataLoader",
    "Epoch",
    "LRScheduler",
    "MetricReducer",
    "PyTorchCallback",
    "PyTorchExperimentalContext",
    "PyTorchTrial",
    "PyTorchTrialContext",
    "Reducer",
    "TorchData",
    "TrainUnit",
    "Trainer",
    "adapt_batch_sampler",
    "data_length",
    "init",
    "load_trial_from_checkpoint_path",
    "reset_parameters",
    "samplers",
    "to_device",
]

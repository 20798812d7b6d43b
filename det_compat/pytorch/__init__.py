"""The public names of ``determined.pytorch`` 0.38.1."""

from det_compat.pytorch import samplers
from det_compat.pytorch.callback import ClipGradsL2Norm, ClipGradsL2Value, PyTorchCallback
from det_compat.pytorch.context.settings import PyTorchExperimentalContext
from det_compat.pytorch.context.transitional import reset_parameters
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.data import (
    DataLoader,
    TorchData,
    adapt_batch_sampler,
    data_length,
    to_device,
)
from det_compat.pytorch.load import CheckpointLoadContext, load_trial_from_checkpoint_path
from det_compat.pytorch.lr_scheduler import LRScheduler
from det_compat.pytorch.reducer import MetricReducer, Reducer
from det_compat.pytorch.setup import init
from det_compat.pytorch.train_unit import Batch, Epoch, TrainUnit
from det_compat.pytorch.trainer import Trainer
from det_compat.pytorch.trial import PyTorchTrial

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

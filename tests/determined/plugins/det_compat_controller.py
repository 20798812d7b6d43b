"""What stands in for the private controller that Determined's tests of trials build and run.

It hands the same arguments to what trains a trial under det_compat; what the tests do to the
insides of Determined's controller it does not have.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from det_compat import core
from det_compat.experiment import checkpoints
from det_compat.pytorch.data import DataLoader
from det_compat.pytorch.engine import FitArguments, engine
from det_compat.pytorch.private.boundaries import TrialState
from det_compat.pytorch.schedule import Due, Schedule
from det_compat.shared.random_state import set_seed

# Where a run's checkpoints lie, without a run folder.
_STORE: Any = checkpoints.RunCheckpoints.__base__


class DistributedBackend:
    TORCH = "USE_TORCH_DISTRIBUTED"

    def use_torch(self) -> bool:
        return bool(os.environ.get(self.TORCH))


class Controller:
    def __init__(
        self,
        trial_inst: Any,
        context: Any,
        max_length: Any,
        checkpoint_period: Any,
        validation_period: Any,
        reporting_period: Any,
        checkpoint_policy: str,
        latest_checkpoint: str | None,
        step_zero_validation: bool,
        test_mode: bool,
        **_: Any,
    ) -> None:
        self.trial, self.context = trial_inst, context
        self.core_context = context._core
        units = {
            Due.LENGTH: max_length,
            Due.VALIDATION: validation_period,
            Due.CHECKPOINT: checkpoint_period,
            Due.REPORT: reporting_period,
        }
        self._arguments = FitArguments(
            Schedule(units, test_mode),
            checkpoint_policy=checkpoint_policy,
            latest_checkpoint=latest_checkpoint,
            step_zero_validation=step_zero_validation,
            owns_start=False,
        )
        self.state = TrialState()
        self.training_loader: Any = ()

    @staticmethod
    def pre_execute_hook(trial_seed: int, distributed_backend: Any) -> None:
        set_seed(trial_seed)

    def _set_data_loaders(self) -> None:
        # The tests draw nothing from it; building it twice would draw random numbers twice.
        self.training_loader = torch.utils.data.DataLoader([0])

    def run(self) -> None:
        engine().fit(self.trial, self.context, self._arguments)
        self.state.batches_trained = self.context.current_train_batch() + 1


def _core_context(
    *, distributed: Any = None, checkpoint_storage: Any = None, tensorboard_path: Any = None
) -> Any:
    """What a trial's context is made of, where the tests ask for the Core API's."""
    made = getattr(core, "TrialCore", core.Context)(
        checkpoint=_STORE(None if checkpoint_storage is None else str(checkpoint_storage)),
        distributed=distributed,
        tensorboard_path=tensorboard_path,
    )
    made.preempt.start = lambda: made.preempt
    made._tensorboard_manager = None
    return made


def _set_average(context: Any, averages: bool) -> None:
    context.average_aggregated_gradients = averages


def install() -> None:
    import determined
    from determined import pytorch

    assert DataLoader is pytorch.DataLoader
    context = pytorch.PyTorchTrialContext
    context._set_default_gradient_compression = lambda self, compresses: None
    context._set_default_average_aggregated_gradients = _set_average
    determined.core._dummy_init = _core_context
    determined._DistributedBackend = DistributedBackend
    pytorch._PyTorchTrialController = Controller

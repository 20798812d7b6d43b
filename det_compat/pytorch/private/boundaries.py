"""The names of Determined's trial loop that trials and their tests use."""

import enum
from dataclasses import dataclass

from det_compat.pytorch.train_unit import TrainUnit


class ShouldExit(Exception):
    """Raised by user code during training, it ends the run in good order.

    It is ``determined.pytorch.ShouldExit`` of Determined 0.21 to 0.37, and ``_ShouldExit`` of
    0.38. The batch that raises it does not count.

    Args:
        skip_exit_checkpoint: whether not to write a checkpoint of what was trained until then.
    """

    def __init__(self, skip_exit_checkpoint: bool = False) -> None:
        super().__init__(skip_exit_checkpoint)
        self.skip_exit_checkpoint = skip_exit_checkpoint


class TrainBoundaryType(enum.Enum):
    """What is done at a boundary."""

    CHECKPOINT = "CHECKPOINT"
    REPORT = "REPORT"
    VALIDATE = "VALIDATE"
    TRAIN = "TRAIN"


class TrainBoundary:
    """A kind of work and how often it is due.

    Attributes:
        limit_reached: whether it is due now; whoever counts sets it.
    """

    def __init__(self, step_type: TrainBoundaryType, unit: TrainUnit) -> None:
        self.step_type = step_type
        self.unit = unit
        self.limit_reached = False


@dataclass
class TrialState:
    """Counters of a run, named as in Determined's ``trial_state.pkl``; all but ids in batches."""

    trial_id: int = 0
    last_ckpt: int = 0
    step_id: int = 0
    last_val: int = 0
    batches_trained: int = 0
    epochs_trained: int = 0

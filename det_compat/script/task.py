"""What a process of a run that ``det-compat fit`` or ``search`` starts is told, as on a cluster.

It goes through the environment, since the config may hold secrets, which no file gets.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from det_compat.script import machines
from det_compat.shared.variables import preserved_variables

VARIABLE = "DET_COMPAT_TASK"

# The variables of a container that say who it is to a master: there is none.
_OF_MASTER = (
    *("DET_MASTER", "DET_CLUSTER_ID", "DET_AGENT_ID", "DET_TASK_ID", "DET_ALLOCATION_ID"),
    *("DET_SESSION_TOKEN", "DET_RESOURCES_ID", "DET_CONTAINER_ID"),
)


@dataclass(frozen=True)
class Task:
    """A trial that runs.

    Attributes:
        config: the experiment config, as on a cluster.
        hparams: its hyperparameters.
        trial_seed: the seed of the trial.
        slots: processes that train.
        run_dir: the run's directory.
        latest_checkpoint: the UUID of the checkpoint to go on from.
        steps_completed: batches that were trained until then.
        epochs_completed: epochs that were trained until then, if a search was told.
        search: port of this machine at which a search takes the reports of the trial.
        validate_at: lengths at which the search wants it to validate, as in a config.
        trial_id: the number of the trial in its search, from 1; 0 without a search.
        attempt: how often the trial has been started, this time included.
        addresses: the machines that train, by rank; empty for those that the launcher tells.
    """

    config: dict[str, Any] = field(repr=False)
    hparams: dict[str, Any] = field(repr=False)
    trial_seed: int
    slots: int
    run_dir: str
    latest_checkpoint: str | None = None
    steps_completed: int = 0
    epochs_completed: float = 0.0
    search: int | None = None
    validate_at: list[dict[str, int]] = field(default_factory=list)
    trial_id: int = 0
    attempt: int = 1
    addresses: list[str] = field(default_factory=list)

    def variables(self) -> dict[str, str]:
        """The environment variables that tell a process of it.

        Those that begin with DET_ are those of a container of Determined 0.38.1.
        """
        told = {
            VARIABLE: json.dumps(asdict(self)),
            **dict.fromkeys(_OF_MASTER, ""),
            "DET_TASK_TYPE": "TRIAL",
            "DET_SLOT_IDS": json.dumps(list(range(self.slots_here()))),
            "DET_EXPERIMENT_ID": "0",
            "DET_EXPERIMENT_CONFIG": json.dumps(self.config),
            "DET_HPARAMS": json.dumps(self.hparams),
            "DET_TRIAL_ID": str(self.trial_id),
            "DET_TRIAL_SEED": str(self.trial_seed),
            "DET_TRIAL_RUN_ID": str(self.attempt),
            "DET_STEPS_COMPLETED": str(self.steps_completed),
        }
        if self.latest_checkpoint is not None:
            told["DET_LATEST_CHECKPOINT"] = self.latest_checkpoint
        return told

    def machine_addresses(self) -> list[str]:
        """The addresses of the machines that train, by rank; empty where one is not known."""
        return self.addresses or machines.addresses()

    def slots_here(self) -> int:
        """The number of processes that train on this machine."""
        count = len(self.machine_addresses())
        return machines.processes_here() or max(self.slots // count, 1)


def current_task() -> Task | None:
    """The task of this process; None if det_compat has not started it."""
    text = os.environ.get(VARIABLE)
    return Task(**json.loads(text)) if text else None


@contextlib.contextmanager
def told(task: Task) -> Iterator[None]:
    """Tell this process and those that it starts of ``task``, inside the block.

    Within it ``tell`` may say more of the same task.
    """
    with preserved_variables(*task.variables(), "DET_LATEST_CHECKPOINT"):
        tell(task)
        yield


def tell(task: Task) -> None:
    """Tell this process of ``task``, in place of what it knew before."""
    os.environ.pop("DET_LATEST_CHECKPOINT", None)
    os.environ.update(task.variables())

"""What a script that ``det-compat fit`` or ``search`` starts is told, as on a cluster.

It goes through the environment, since the config may hold secrets, which no file gets.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

VARIABLE = "DET_COMPAT_TASK"


@dataclass(frozen=True)
class Task:
    """A trial whose script runs.

    Attributes:
        config: the experiment config, as on a cluster.
        hparams: its hyperparameters.
        trial_seed: the seed of the trial.
        slots: processes that train.
        run_dir: the run's directory.
        latest_checkpoint: the UUID of the checkpoint to go on from.
        steps_completed: batches that were trained until then.
        search: port of this machine at which a search takes the reports of the trial.
        validate_at: lengths at which the search wants it to validate, as in a config.
    """

    config: dict[str, Any] = field(repr=False)
    hparams: dict[str, Any] = field(repr=False)
    trial_seed: int
    slots: int
    run_dir: str
    latest_checkpoint: str | None = None
    steps_completed: int = 0
    search: int | None = None
    validate_at: list[dict[str, int]] = field(default_factory=list)

    def variables(self) -> dict[str, str]:
        """The environment variables that tell a process of it."""
        return {VARIABLE: json.dumps(asdict(self))}


def current_task() -> Task | None:
    """The task of this process; None if det_compat has not started it."""
    text = os.environ.get(VARIABLE)
    return Task(**json.loads(text)) if text else None

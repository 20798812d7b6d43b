"""What a script that ``det-compat fit`` starts is told, as a Determined cluster told its tasks.

It goes through the environment, since the config may hold secrets, which no file gets.
"""

from __future__ import annotations

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
    """

    config: dict[str, Any] = field(repr=False)
    hparams: dict[str, Any] = field(repr=False)
    trial_seed: int
    slots: int
    run_dir: str
    latest_checkpoint: str | None = None
    steps_completed: int = 0

    def variables(self) -> dict[str, str]:
        """The environment variables that tell a process of it."""
        return {VARIABLE: json.dumps(asdict(self))}


def current_task() -> Task | None:
    """The task of this process; None if ``det-compat fit`` has not started it."""
    text = os.environ.get(VARIABLE)
    return Task(**json.loads(text)) if text else None

"""max_restarts: a run that fails goes on from its last checkpoint, in a new process."""

from __future__ import annotations

import os
import sys

from det_compat.config.experiment import ExperimentConfig
from det_compat.fit.place import find_folder
from det_compat.fit.ranks import is_worker
from det_compat.fit.request import Request
from det_compat.fit.supervisor import ATTEMPT, Start, supervise


def wants_supervisor(request: Request, config: ExperimentConfig) -> bool:
    """Whether this process is to start the run in another, and to watch over it."""
    return (
        request.command == "fit"
        and config.max_restarts > 0
        and not request.only_shows
        and ATTEMPT not in os.environ
        and not is_worker()
    )


def run_supervised(request: Request, config: ExperimentConfig) -> int:
    """Run what is asked for in a process of its own; the exit status.

    Raises:
        FitError: there is nothing to resume, or the directory cannot be used.
    """
    folder = find_folder(request, config)
    words = [request.config or "", str(request.model_dir), "--run_dir", str(folder.path)]
    if request.resume:
        words.append("--resume")
    argv = [sys.executable, "-m", "det_compat", request.command, *words, *request.options]
    return supervise(lambda attempt: Start(argv, {}), restarts=config.max_restarts)

"""A trial of several slots: a process for each, started by Ray Train, and DDP between them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

import ray
from ray import train
from ray.train.torch import TorchTrainer

from det_compat.search.errors import SearchError
from det_compat.search.records import Report, Status, TrialRecord
from det_compat.search.tune.attempt import Attempt, log_to
from det_compat.search.tune.desk import Desk

_ENVIRONMENT = {
    # seconds until Ray Train sees that the workers have ended
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    # each is a process more a trial
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    # the working directory is the trial's own matter
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
}


def train_on_workers(attempt: Attempt, tell: Callable[[Report], None]) -> None:
    """Train a trial on Ray Train's workers, and let ``tell`` know of each validation.

    The workers wait for ``tell``, and end if the trial has been stopped by then: were Tune to kill
    this process, Ray Train would leave one behind that watches over it.

    Raises:
        ray.train.TrainingFailedError: a worker has ended before the others, which ends them too.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    desk: Any = ray.remote(num_cpus=0)(Desk).remote()
    threading.Thread(target=_pass_on, args=(desk, attempt.record, tell), daemon=True).start()
    trainer = TorchTrainer(
        _train,
        train_loop_config={"attempt": attempt, "desk": desk},
        scaling_config=train.ScalingConfig(
            num_workers=attempt.task.plan.processes, use_gpu=_has_gpus()
        ),
        run_config=train.RunConfig(name="ray_train", storage_path=str(attempt.record.folder)),
    )
    try:
        trainer.fit()
    finally:
        ray.kill(desk)  # which ends the thread


def _has_gpus() -> bool:
    return bool(ray.cluster_resources().get("GPU"))  # type: ignore[no-untyped-call]


def _pass_on(desk: Any, record: TrialRecord, tell: Callable[[Report], None]) -> None:
    with contextlib.suppress(ray.exceptions.RayActorError):
        while True:
            tell(ray.get(desk.next.remote()))
            ray.get(desk.judge.remote(record.status is Status.UNFINISHED))


def _train(config: dict[str, Any]) -> None:
    """Train as one of the workers."""
    attempt, desk, rank = config["attempt"], config["desk"], train.get_context().get_world_rank()
    log_to(attempt.record.folder / ("log.txt" if rank == 0 else f"log_{rank}.txt"))

    def hand_in(report: Report) -> None:
        if not ray.get(desk.hand_in.remote(report)):
            raise SearchError("the search has stopped the trial")

    attempt.train(hand_in)

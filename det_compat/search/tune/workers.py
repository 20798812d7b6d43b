"""A trial of several slots: a process for each, started by Ray Train, and DDP between them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ray
from ray import cloudpickle, train
from ray.train.torch import TorchTrainer

from det_compat.search.errors import SearchError
from det_compat.search.records import Report, Status, TrialRecord
from det_compat.search.tune.attempt import Attempt, log_to
from det_compat.search.tune.mirror import Mirror, arrive, begin

_ENVIRONMENT = {
    # Ray Train sees so many seconds later that the workers have ended.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    # Each of these two would be one more process for each trial.
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    # The working directory is the trial's own matter.
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
}


class ReportChannel:
    """An actor that passes a report on to the search, and the search's answer back."""

    def __init__(self) -> None:
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        self._answers: asyncio.Queue[bool] = asyncio.Queue()

    async def put(self, report: Report) -> bool:
        """Hand in a report, and wait for the answer: whether training goes on."""
        await self._reports.put(report)
        return await self._answers.get()

    async def get(self) -> Report:
        """The next report; returns when there is one."""
        return await self._reports.get()

    async def answer(self, goes_on: bool) -> None:
        """Answer the process whose report ``get`` has returned."""
        await self._answers.put(goes_on)


def train_on_workers(attempt: Attempt, tell: Callable[[Report], None], keeper: Any = None) -> None:
    """Train a trial on Ray Train's workers, and let ``tell`` know of each validation.

    The workers wait for ``tell``, and end if the trial has been stopped by then: were Tune to kill
    this process, Ray Train would leave one behind that watches over it.

    Args:
        attempt: the start of the trial; this process sees the folder of its search.
        tell: is called with each report.
        keeper: of that folder, for workers on machines that do not see it; see ``mirror``.

    Raises:
        ray.train.TrainingFailedError: a worker has ended before the others, which ends them too.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    start = None if keeper is None else begin(keeper, attempt.index)
    channel: Any = ray.remote(num_cpus=0)(ReportChannel).remote()
    threading.Thread(target=_pass_on, args=(channel, attempt.record, tell), daemon=True).start()
    trainer = TorchTrainer(
        _train,
        train_loop_config={
            "attempt": cloudpickle.dumps(attempt),
            "channel": channel,
            "mirror": (keeper, start),
        },
        scaling_config=train.ScalingConfig(
            num_workers=attempt.task.plan.processes,
            use_gpu=bool(ray.cluster_resources().get("GPU")),
        ),
        run_config=train.RunConfig(name="ray_train", storage_path=str(attempt.record.folder)),
    )
    try:
        trainer.fit()
    finally:
        # This ends the thread, too.
        ray.kill(channel)


def _pass_on(channel: Any, record: TrialRecord, tell: Callable[[Report], None]) -> None:
    with contextlib.suppress(ray.exceptions.RayActorError):
        while True:
            tell(ray.get(channel.get.remote()))
            ray.get(channel.answer.remote(record.status is Status.UNFINISHED))


def _train(config: dict[str, Any]) -> None:
    """Train as one of the workers."""
    channel, (keeper, start) = config["channel"], config["mirror"]
    scratch = arrive(keeper)
    attempt: Attempt = pickle.loads(config["attempt"])
    index = attempt.index
    ranks = train.get_context()
    rank, machines = ranks.get_world_rank(), ranks.get_world_size() // ranks.get_local_world_size()
    # Of torchrun's variables, Ray Train 2.60 sets all but these.
    os.environ.update(GROUP_RANK=str(ranks.get_node_rank()), GROUP_WORLD_SIZE=str(machines))
    mirror = Mirror(attempt.task, keeper, scratch, index)
    mirror.pull(index, start)
    attempt = replace(attempt, task=mirror.task)
    log_to(attempt.record.folder / ("log.txt" if rank == 0 else f"log_{rank}.txt"))

    def report_to_search(report: Report) -> None:
        mirror.push()
        if not ray.get(channel.put.remote(report)):
            raise SearchError("the search has stopped the trial")

    try:
        attempt.train(report_to_search)
    finally:
        mirror.push()
        mirror.close()

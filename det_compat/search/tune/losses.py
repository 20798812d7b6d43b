"""Trials that have ended with the machine they were on."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayActorError, RayTaskError
from ray.tune import Callback

# The head of a cluster of Ray 2.60 gives up a machine that has not answered for 15 seconds or so.
_SECONDS_TO_KNOW = 45.0
# So long may a trial have been on its way to a machine that is lost.
_SECONDS_OF_START = 120.0


class Losses(Callback):
    """Has trials start again that have lost their machine, and does not count it as a restart.

    So it was on a cluster: Determined 0.38.1 takes the failure of an agent for none of the trial's,
    and leaves ``max_restarts`` alone.

    Args:
        keeper: knows on which machines a trial is; None where there is only one machine.
    """

    def __init__(self, keeper: Any) -> None:
        self._keeper = keeper
        self._lost_at = dict.fromkeys(_lost() if keeper is not None else (), -_SECONDS_OF_START)
        self._to_start_again: set[int] = set()

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        if self.is_lost(trial):
            trial.max_failures += 1

    def starts_again(self, trial: Any) -> bool:
        """Whether a trial that Tune gives up starts again all the same; ``take`` has it then."""
        starts = self.is_lost(trial)
        if starts:
            self._to_start_again.add(_index(trial))
        return starts

    def take(self, index: int) -> bool:
        """Whether a trial is to start again; it says so once."""
        starts = index in self._to_start_again
        self._to_start_again.discard(index)
        return starts

    def is_lost(self, trial: Any) -> bool:
        """Whether the latest error of a trial of Tune is the loss of a machine."""
        if self._keeper is None:
            return False
        machines = ray.get(self._keeper.machines.remote(_index(trial)))
        until = time.monotonic() + (_SECONDS_TO_KNOW if _may_be_loss(trial) else 0.0)
        while not self._has_lost(machines):
            if time.monotonic() >= until:
                return False
            time.sleep(0.5)
        print(f"trial {_index(trial)}: its machine is lost, and it starts again", flush=True)
        return True

    def _has_lost(self, machines: set[str]) -> bool:
        """Whether one of ``machines`` is lost; of a trial that was nowhere yet, any of late."""
        now = time.monotonic()
        for machine in _lost():
            self._lost_at.setdefault(machine, now)
        of_late = {it for it, then in self._lost_at.items() if now - then < _SECONDS_OF_START}
        return bool(machines & self._lost_at.keys() if machines else of_late)


def _lost() -> set[str]:
    # Ray has no types for this function.
    return {it["NodeID"] for it in ray.nodes() if not it["Alive"]}  # type: ignore[no-untyped-call]


def _index(trial: Any) -> int:
    index: int = trial.config["trial"]["index"]
    return index


def _may_be_loss(trial: Any) -> bool:
    """Whether a process of the trial has gone without a word, of which Ray may know more soon."""
    error: Any = None
    with contextlib.suppress(OSError, TypeError):
        # Tune has written it just now.
        error = cloudpickle.loads(Path(trial.pickled_error_file).read_bytes())
    cause = error.cause if isinstance(error, RayTaskError) else error
    of_workers = getattr(cause, "worker_failures", {}).values()
    return any(isinstance(one, RayActorError) for one in (cause, *of_workers))

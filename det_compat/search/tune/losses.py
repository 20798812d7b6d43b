"""Trials that have ended with the machine they were on, or for want of room on a disk."""

from __future__ import annotations

import collections
import contextlib
import math
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.tune import Callback
from ray.tune.experiment import Trial

from det_compat.core.storage.write_failures import NO_ROOM
from det_compat.search.forks.client import ProcessDied

# The head of a cluster of Ray 2.60 gives up a machine that has not answered for 15 seconds or so.
_SECONDS_TO_KNOW = 45.0
_SECONDS_TO_ANSWER = 2.0
# So long may what runs on a machine that goes down be there after what was lost first.
_SECONDS_TO_GO_DOWN = 3.0
_PERIOD = 10.0  # seconds between two looks at what is there
# A search that says nothing for longer, while none of its trials is anywhere, looks like one that
# is stuck. Ray says to nobody that others have all the room of a cluster.
_SECONDS_TO_BEGIN = 50.0
_NO_MACHINE = "no machine is left with room for a trial: the search waits for one"
_NO_PROCESS = (
    "no process of a trial has begun for a minute: the search waits for room on the cluster, which "
    "others may have, or for Ray to start one. `ray status` shows what is in use"
)
# So often in a row may a trial's process be gone before the trial has begun in it.
_MOST_STARTS = 5
# What an exception of a trial's process says, of which there is but the text here.
_DISK_FAILURE = re.compile(
    "|".join(rf".*\[Errno {it}\] (?:cannot write: )?{os.strerror(it)}.*" for it in sorted(NO_ROOM))
)
# Where Ray says in the text of an error that it comes from.
_MACHINE = re.compile(r"\bip=([^\s,)]+)")
# The trial has gone on after what Python prints before this.
_HANDLED = "During handling of the above exception, another exception occurred:"


class Losses(Callback):
    """Has trials start again that have lost their machine, and does not count it as a restart.

    So it was on a cluster: Determined 0.38.1 takes the failure of an agent for none of the trial's,
    and leaves ``max_restarts`` alone. A process that is gone before the trial has begun in it is
    none of the trial's doing, either.

    Args:
        keeper: knows on which machines a trial is; None where there is only one machine.
        processes: the processes of a trial.
        places: how many trials there may be at once on the machines that are there now.
    """

    def __init__(
        self, keeper: Any, processes: int = 1, places: Callable[[], int] = lambda: 1
    ) -> None:
        self._keeper = keeper
        self._processes = processes
        self._places = places
        self._looked_at = self._began_at = -math.inf
        self._waits_for = ""
        self._lost_before: dict[int, set[str]] = {}
        # Why starts in a row came to nothing.
        self._in_vain: collections.defaultdict[int, list[str]] = collections.defaultdict(list)
        self._to_start_again: set[int] = set()
        self._disk_failures: dict[int, str] = {}
        #: What Tune was told of a trial's latest error, "" where its process has ended in silence.
        self.told: collections.defaultdict[int, str] = collections.defaultdict(str)
        #: Trials of which no process would start, or for which there was no room on a disk, and
        #: why: they stay unfinished, and a resumed search goes on with them.
        self.given_up: dict[int, str] = {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._lost_before[_index(trial)] = set() if self._keeper is None else lost_machines()

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        if self._is_none_of_its_own(trial):
            trial.max_failures += 1

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Say what a search waits for, once each time."""
        now = time.monotonic()
        if self._keeper is None or now < self._looked_at + _PERIOD:
            return
        if self._looked_at == -math.inf or self._are_anywhere(trials):
            self._began_at = now
        self._looked_at = now
        before, self._waits_for = self._waits_for, ""
        if self._places() == 0:
            self._waits_for = _NO_MACHINE
        elif now >= self._began_at + _SECONDS_TO_BEGIN:
            self._waits_for = _NO_PROCESS
        if self._waits_for not in ("", before):
            print(self._waits_for, flush=True)

    def _are_anywhere(self, trials: list[Any]) -> bool:
        """Whether one of these runs, and has told of a machine that it is on."""
        indices = [_index(trial) for trial in trials if trial.status == Trial.RUNNING]
        # A keeper that does not answer now may well do later.
        with contextlib.suppress(RayError):
            found: bool = ray.get(
                self._keeper.are_anywhere.remote(indices), timeout=_SECONDS_TO_ANSWER
            )
            return found
        return True

    def has_failed(self, trial: Any) -> bool:
        """Whether a trial of whose error Tune tells has failed for good.

        One that starts again is either put into its queue again by Tune, or ``take`` has it.
        """
        if trial.status == Trial.ERROR:
            # Tune is about to put it there.
            return False
        # Of an actor that is lost while it gets ready for another trial Tune 2.60 tells two times,
        # and the second time it gives up what it has put into its queue.
        index = _index(trial)
        if trial.should_recover() or self._is_none_of_its_own(trial):
            self._to_start_again.add(index)
            return False
        if why := self._disk_failures.get(index):
            what = "it had no room to write"
        elif len(self._in_vain[index]) >= _MOST_STARTS:
            why = self._in_vain[index][-1]
            times = len(self._in_vain[index])
            what = f"its process was lost {times} times before it began"
        else:
            return True
        self.given_up[index] = f"{what}: {why}"
        print(f"trial {index} stays unfinished: {what}: {why}", flush=True)
        return False

    def take(self, index: int) -> bool:
        """Whether a trial is to start again; it says so once."""
        starts = index in self._to_start_again
        self._to_start_again.discard(index)
        return starts

    def _is_none_of_its_own(self, trial: Any) -> bool:
        """Whether the latest error of a trial would not have been but for a machine or for Ray."""
        index, error = _index(trial), _error_of(trial)
        found = _DISK_FAILURE.findall(str(error or "").rpartition(_HANDLED)[2])
        machine = _MACHINE.findall(str(error)) if found and self._keeper is not None else []
        self._disk_failures[index] = " on ".join([it.strip() for it in found[-1:]] + machine[-1:])
        self.told[index] = "" if ProcessDied.__name__ in str(error) else str(error or "").strip()
        lost_before = self._lost_before.pop(index, None)
        machines = [] if self._keeper is None else ray.get(self._keeper.leave.remote(index))
        if lost_before is None:
            return _is_sudden(error) and self._starts_once_more(index, error)
        self._in_vain.pop(index, None)
        if self._keeper is None:
            return False
        # One of several processes may have a word to say when another one is gone.
        may_be_lost = _is_sudden(error) or self._processes > 1
        if not self._is_lost(machines, lost_before, may_be_lost):
            return False
        print(f"trial {index}: its machine is lost, and it starts again", flush=True)
        return True

    def _starts_once_more(self, index: int, error: Exception | None) -> bool:
        """Whether a trial starts again that has not begun; it says so."""
        why = str(error or "").strip() or "Ray has not said why"
        self._in_vain[index].append(why.splitlines()[-1])
        if len(self._in_vain[index]) >= _MOST_STARTS:
            return False
        print(f"trial {index}: its process was lost, and it starts again", flush=True)
        return True

    def _is_lost(self, machines: list[str], lost_before: set[str], may_be: bool) -> bool:
        """Whether a machine of a trial is lost, whose processes have told of these ``machines``.

        If it ``may_be``, Ray is given the time to find out.
        """
        start = time.monotonic()
        while True:
            lost = lost_machines() - lost_before
            # A process that was lost at its start has told nothing.
            if lost & set(machines) or (lost and len(machines) < self._processes):
                return True
            waited = time.monotonic() - start
            if not may_be or waited >= _SECONDS_TO_KNOW:
                return False
            if waited >= _SECONDS_TO_GO_DOWN and all(map(_answers, _living())):
                return False
            time.sleep(0.5)


def lost_machines() -> set[str]:
    """The ids of the machines that were in Ray's cluster and are lost."""
    return {it["NodeID"] for it in ray.nodes() if not it["Alive"]}


def _living() -> list[dict[str, Any]]:
    """What Ray does not take for lost."""
    return [it for it in ray.nodes() if it["Alive"]]


def _answers(machine: dict[str, Any]) -> bool:
    """Whether there is something of Ray on a machine."""
    address = machine["NodeManagerAddress"], machine["NodeManagerPort"]
    with contextlib.suppress(OSError), socket.create_connection(address, _SECONDS_TO_ANSWER):
        return True
    return False


def _index(trial: Any) -> int:
    index: int = trial.config["trial"]["index"]
    return index


def _error_of(trial: Any) -> Exception | None:
    """What Tune was told just now, if it comes from an actor; otherwise it keeps but the text."""
    with contextlib.suppress(OSError, TypeError):
        file = Path(trial.pickled_error_file)
        error: Exception = cloudpickle.loads(file.read_bytes())
        # The next one may not be written.
        file.unlink()
        return error
    return None


def _is_sudden(error: Exception | None) -> bool:
    """Whether a process has gone without a word, or it was Ray that failed."""
    if isinstance(error, RayActorError):
        return not error.actor_init_failed
    return not isinstance(error, RayTaskError) or isinstance(error.cause, RayError)

"""Word of a process of a run that ends before all of them have met.

torchrun ends the others then. Tasks of SLURM, and processes that somebody starts on each machine,
have nobody who does: they would wait for it as long as for one that is late.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from det_compat.script import machines
from det_compat.script.ending import PARENT
from det_compat.script.lifeline import Lifeline

logger = logging.getLogger("det_compat")

# So long may a process take to end by itself, such as for the same reason.
_SECONDS = 15.0
_SECONDS_BETWEEN_TRIES = 0.5
# So long does one that fails at once stay for others to hear of it, who may begin a little later.
_SECONDS_TO_BE_HEARD = 10.0
# Seconds of waiting after which the log says for whom.
_PATIENCE = 60.0
_SECONDS_FOR_PORT = 5.0
_OF_JOB = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")


class _Place(NamedTuple):
    """This process among those that are started one by one.

    Attributes:
        rank: of this process; without SLURM that of the machine.
        others: how many other processes there are, as far as it is known.
        is_first_here: whether no other process on this machine comes before it.
        start: what the processes of this start have in common, and no others.
    """

    rank: int
    others: float
    is_first_here: bool
    start: str


_lifeline: Lifeline | None = None
_going_on: list[str] = []


def until_met(command: Callable[[], int]) -> int:
    """Run ``command``; its exit status.

    If another process of the run ends before ``have_met`` is called, and has not ended well, this
    one ends, too, within half a minute.
    """
    place = _place()
    if place is None:
        return command()
    _watch(place)
    try:
        status = command()
    except SystemExit as end:
        if end.code in (None, 0):
            have_met()
        raise
    if status == 0:
        have_met()
    return status


def resume_by(command: str) -> None:
    """Have ``command`` named as the way to go on, should another process end."""
    _going_on[:] = [command]


def have_met() -> None:
    """Take note of others no more: they all are here, or this process has done its part."""
    if _lifeline is not None:
        _lifeline.close()


def _place() -> _Place | None:
    others = int(os.environ.get("SLURM_NTASKS", "1")) - 1
    if machines.launched() == "SLURM" and others:
        rank = int(os.environ["SLURM_PROCID"])
        start = ".".join(os.environ.get(name, "") for name in _OF_JOB)
        if PARENT in os.environ:
            # The processes of a script meet once more, after those that have started them.
            start += ".script"
        return _Place(rank, others, os.environ.get("SLURM_LOCALID", "0") == "0", start)
    by_hand = machines.launched() is None and "LOCAL_RANK" not in os.environ
    if by_hand and {"NODE_RANK", "MASTER_PORT"} <= {*os.environ}:
        return _Place(machines.machine(), math.inf, True, os.environ["MASTER_PORT"])
    return None


def _watch(place: _Place) -> None:
    global _lifeline
    _lifeline = lifeline = Lifeline(place.rank, lambda lost: _end(lost, place))
    atexit.register(_be_heard, lifeline, place)
    # The port at which they meet itself is for the store of their process group.
    port = machines.port(beside=1)
    token = hashlib.md5(place.start.encode(), usedforsecurity=False).digest()
    where = machines.addresses()[0], port, token
    begin = _connect if place.rank else _listen
    threading.Thread(target=begin, args=(lifeline, *where), daemon=True).start()
    if place.is_first_here:
        patience = threading.Timer(_PATIENCE, _say_who_is_missing, (lifeline, place))
        patience.daemon = True
        patience.start()


def _listen(lifeline: Lifeline, host: str, port: int, token: bytes) -> None:
    """Wait for the others, as soon as what was started before has left the port."""
    until = time.monotonic() + _SECONDS_FOR_PORT
    while not lifeline.is_closed:
        try:
            lifeline.listen(port, token)
        except OSError as error:
            if time.monotonic() < until:
                time.sleep(_SECONDS_BETWEEN_TRIES)
                continue
            logger.warning(
                f"port {port} of rank 0 is in use ({error}): if a process ends before all have "
                "met, the others will wait for it"
            )
        return


def _say_who_is_missing(lifeline: Lifeline, place: _Place) -> None:
    others = 0 if place.others == math.inf else int(place.others)
    missing = {*(range(1, others + 1) if place.rank == 0 else [0])} - lifeline.met
    if missing and not lifeline.is_closed:
        logger.warning(
            f"after {_PATIENCE:g} seconds {machines.ranks_named(sorted(missing))} is not there, or "
            f"out of reach of rank {place.rank}, which waits on: what has started the processes "
            "may say why"
        )


def _connect(lifeline: Lifeline, host: str, port: int, token: bytes) -> None:
    """Connect to rank 0, which may be long in coming."""
    while not lifeline.is_closed:
        try:
            return lifeline.connect(host, port, token)
        except OSError:
            time.sleep(_SECONDS_BETWEEN_TRIES)


def _be_heard(lifeline: Lifeline, place: _Place) -> None:
    """Let the others find out that this process has ended, which has failed before they came."""
    wanted = 1 if place.rank else place.others
    until = time.monotonic() + _SECONDS_TO_BE_HEARD
    while not lifeline.is_closed and len(lifeline.met) < wanted and time.monotonic() < until:
        time.sleep(0.05)


def _end(lost: int, place: _Place) -> None:
    time.sleep(_SECONDS)
    if _lifeline is None or _lifeline.is_closed:
        return
    # Rank 0 says it of all others, and of rank 0 the first process of each machine.
    if (place.rank == 0) if lost else place.is_first_here or place.rank == 1:
        going_on = f"Resume the run by: {_going_on[0]}" if _going_on else "Start all again"
        print(
            f"det-compat: {_named(lost)} has ended before training has begun: what it has printed "
            f"may say why. {going_on}",
            file=sys.stderr,
            flush=True,
        )
    os._exit(1)


def _named(rank: int) -> str:
    if machines.launched() is None:
        return f"the process of NODE_RANK={rank}"
    hosts, machine = machines.addresses(), rank // (machines.processes_here() or 1)
    is_known = machine < len(hosts) and bool(hosts[machine])
    return f"rank {rank}, on {hosts[machine]}," if is_known else f"rank {rank}"

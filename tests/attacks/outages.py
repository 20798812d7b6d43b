"""Runs of ``det-compat fit`` on two machines, to which something happens that kills no process.

A disk is full, a machine stands still, the network between the two is down, the clock of one is an
hour ahead. They end where an undisturbed run does, by themselves or when they are resumed. What
ends before says so in one error, with the command that goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from det_compat.core import CheckpointStore
from tests.attacks import machines
from tests.attacks.clocks import ahead, clocks
from tests.attacks.disks import make_room, small_disk
from tests.attacks.runs import undisturbed
from tests.clusters import can_hide
from tests.machines import Machine, send
from tests.resume.compare import _differ

#: So long may a machine that hears nothing of the other one go on.
_SECONDS_TO_NOTICE = 90


def attack(draw: Random, folder: Path, python: str = sys.executable) -> None:
    """One run, to which one thing happens."""
    folders = [machines.written(folder, name) for name in ("first", "second")]
    possible = [*BEFALLS] if can_hide() else [_one_stands_still, _one_is_ahead]
    befalls = draw.choice(possible)
    launch = Launch(draw, folders, python)
    with contextlib.ExitStack() as over:
        befalls(draw, launch, over)
        differences = list(_differ(undisturbed(python, "sized", 0, 2), launch.end(), "end"))
        assert differences == [], f"{befalls.__name__}: {differences}"
        # A rank 0 that goes on elsewhere does not know what the one before had begun.
        left = [] if befalls is _one_is_ahead else list(launch.checkpoints.unfinished())
        assert left == [], f"{befalls.__name__} left {left}"


class Launch:
    """A run on two machines, which can be started again and again.

    Args:
        draw: draws whether torchrun starts again what has failed.
        folders: where the two are.
        python: the interpreter.
    """

    def __init__(self, draw: Random, folders: list[Path], python: str) -> None:
        self.folders = folders
        self.checkpoints = CheckpointStore(folders[0].parent / "storage")
        self._python = python
        self._restarts = draw.choice((0, 2))

    def start(self, **how: object) -> list[Machine]:
        """Start it, or go on with it."""
        return machines.started(self.folders, self._python, self._restarts, **how)

    def end(self) -> object:
        """Go on with it to its end, which is returned."""
        self._restarts = 0
        started = self.start()
        statuses = machines.ended(started)
        assert set(statuses) == {0}, [machine.said() for machine in started]
        return machines.found(self.checkpoints)

    def disturbed(self, started: list[Machine]) -> None:
        """See that it comes to its end, or says how to go on, without a traceback of its own."""
        statuses = machines.ended(started)
        said = "\n".join(machine.said() for machine in started)
        assert "/det_compat/" not in said and "/adapters/" not in said, said
        assert set(statuses) == {0} or "Resume the run by: det-compat fit" in said, said


def _a_disk_is_full(draw: Random, launch: Launch, over: contextlib.ExitStack) -> None:
    """It is that of the run's folder, or that of its checkpoints; later there is room again."""
    of_runs = [folder / "out" for folder in launch.folders]
    disks, most = draw.choice(((of_runs, 80), ([launch.folders[0].parent / "storage"], 800)))
    kilobytes = draw.randrange(8, most)
    for disk in disks:
        over.enter_context(small_disk(disk, kilobytes))
    launch.disturbed(launch.start())
    before = launch.checkpoints.latest()
    for disk in disks:
        make_room(disk)
    assert before == launch.checkpoints.latest()


def _one_stands_still(draw: Random, launch: Launch, over: contextlib.ExitStack) -> None:
    """It goes on after a while, and nobody has to know."""
    started = launch.start()
    machine = draw.choice(started)
    machines.trial_of(machine)
    time.sleep(draw.uniform(0, 1))
    stopped = machine.pids()
    send(stopped, signal.SIGSTOP)
    time.sleep(draw.uniform(1, 75))
    send(stopped, signal.SIGCONT)
    assert set(machines.ended(started)) == {0}, [machine.said() for machine in started]


def _network_is_down(draw: Random, launch: Launch, over: contextlib.ExitStack) -> None:
    """Both have noticed before long, or it is up again."""
    network = over.enter_context(_network())
    inside = [["ip", "netns", "exec", name] for name in network]
    own = [{"GLOO_SOCKET_IFNAME": "eth0"}] * 2
    started = launch.start(own=own, prefixes=inside, addresses=["10.77.0.1", "10.77.0.2"])
    trials = [trial for trial in map(machines.trial_of, started) if trial is not None]
    time.sleep(draw.uniform(0, 1))
    seconds = draw.choice((draw.uniform(1, 20), _SECONDS_TO_NOTICE))
    _set_link(network[0], "down")
    time.sleep(seconds)
    going_on = [trial for trial in trials if _goes_on(trial)]
    _set_link(network[0], "up")
    launch.disturbed(started)
    assert seconds < _SECONDS_TO_NOTICE or going_on == [], "they have not noticed"


def _goes_on(process: int) -> bool:
    """Whether it has not ended; its agent may not have asked for its status yet."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@contextlib.contextmanager
def _network() -> Iterator[tuple[str, str]]:
    """The namespaces of two machines with a cable between them."""
    names = f"det-{os.getpid()}-1", f"det-{os.getpid()}-2"
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        ends = ["type", "veth", "peer", "name", "eth0", "netns", names[1]]
        _ip("link", "add", "eth0", "netns", names[0], *ends)
        for number, name in enumerate(names, start=1):
            _ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            _set_link(name, "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def _set_link(name: str, state: str) -> None:
    _ip("-n", name, "link", "set", "eth0", state)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _one_is_ahead(draw: Random, launch: Launch, over: contextlib.ExitStack) -> None:
    """The clocks change places when the run goes on."""
    both = clocks(launch.folders[0].parent / "clocks")
    for number in draw.sample((0, 1), 2):
        own: list[dict[str, str]] = [{}, {}]
        own[number] = {**both, **ahead(3600)}
        started = launch.start(own=own)
        trial = machines.trial_of(started[0])
        time.sleep(draw.uniform(0, 1))
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(trial, signal.SIGKILL)
        launch.disturbed(started)


BEFALLS: tuple[Callable[[Random, Launch, contextlib.ExitStack], None], ...] = (
    _a_disk_is_full,
    _one_stands_still,
    _network_is_down,
    _one_is_ahead,
)

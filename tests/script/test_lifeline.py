from __future__ import annotations

import queue
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from det_compat.script.lifeline import Lifeline
from tests.fresh_python import ROOT

SECONDS = 20.0


class Ranks:
    """Processes 0, 1 and 2 of a run, one of which may answer nothing, and what each is told."""

    def __init__(self, silent: int | None = None) -> None:
        self.heard: queue.Queue[tuple[int, int]] = queue.Queue()
        self.all = [Lifeline(rank, self._hears(rank)) for rank in range(3)]
        if silent is not None:
            self.all[silent]._is_talk = lambda connection, said: bool(said)
        self.port, self.token = self.all[0].listen()
        for other in self.all[1:]:
            other.connect("127.0.0.1", self.port, self.token)

    def _hears(self, rank: int) -> Callable[[int], None]:
        return lambda lost: self.heard.put((rank, lost))

    def die(self, rank: int) -> None:
        for connection in list(self.all[rank]._connections):
            connection.shutdown(socket.SHUT_RDWR)

    def wait_until_connected(self, count: int) -> None:
        while len(self.all[0]._connections) != count:
            time.sleep(0.01)

    def are_quiet(self) -> bool:
        try:
            self.heard.get(timeout=0.2)
        except queue.Empty:
            return True
        return False


def test_all_hear_of_one_that_dies() -> None:
    ranks = Ranks()
    ranks.wait_until_connected(2)
    ranks.die(2)
    # Rank 2 finds its own connection gone, as that of rank 0.
    heard = {ranks.heard.get(timeout=SECONDS) for _ in range(3)}
    assert heard == {(0, 2), (1, 2), (2, 0)}


def test_those_that_say_goodbye_are_not_missed() -> None:
    ranks = Ranks()
    ranks.wait_until_connected(2)
    for other in ranks.all[1:]:
        other.close()
    ranks.wait_until_connected(0)
    ranks.all[0].close()
    assert ranks.are_quiet()


def test_a_stranger_is_nobody() -> None:
    ranks = Ranks()
    with socket.create_connection(("127.0.0.1", ranks.port)) as stranger:
        stranger.sendall(b"x" * 20)
        assert stranger.recv(1) == b""  # rank 0 has hung up
    assert ranks.are_quiet()


@pytest.mark.parametrize(("asks", "silent"), [(0, None), (0, 2), (1, None), (1, 0), (1, 2)])
def test_one_that_does_not_answer_is_lost(asks: int, silent: int | None) -> None:
    ranks = Ranks(silent)
    ranks.wait_until_connected(2)
    ranks.all[asks].look_for_silent(SECONDS if silent is None else 0.5)
    # Rank 0 alone knows all others, of whom it tells them.
    if silent is None or (asks, silent) == (1, 2):
        assert ranks.are_quiet()
    else:
        assert ranks.heard.get(timeout=SECONDS) in {(it, silent) for it in range(3)}
        assert ranks.all[asks].lost == silent


FORKS = """
import os, sys
from det_compat.script.lifeline import Lifeline
Lifeline(1, print).connect("127.0.0.1", int(sys.argv[1]), bytes.fromhex(sys.argv[2]))
if os.fork() == 0:
    sys.stdin.read()
os._exit(0)
"""


def test_one_that_dies_and_leaves_a_fork() -> None:
    heard: queue.Queue[int] = queue.Queue()
    port, token = Lifeline(0, heard.put).listen()
    command = [sys.executable, "-c", FORKS, str(port), token.hex()]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE):
        # The fork reads until this block ends.
        assert heard.get(timeout=SECONDS) == 1

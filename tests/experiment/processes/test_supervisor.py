from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from det_compat.experiment.environment import ATTEMPT
from det_compat.experiment.errors import FitError
from det_compat.experiment.processes.supervisor import Command, check_not_in_use, supervise


def _python(code: str) -> Command:
    return Command([sys.executable, "-c", code], {"GIVEN": "x"})


@pytest.mark.parametrize(
    ("status", "attempts"), [("0", 1), ("2", 1), ("130", 1), ("143", 1), ("1", 3), ("-9", 3)]
)
def test_only_failures_are_restarted(status: str, attempts: int, tmp_path: Path) -> None:
    code = (
        f"import os; open(os.environ['{ATTEMPT}'] + os.environ['GIVEN'], 'w')\n"
        f"os.kill(os.getpid(), 9) if {status} < 0 else exit({status})"
    )
    assert supervise(lambda attempt: _python(code), tmp_path, restarts=2, folder=tmp_path) == (
        int(status) if int(status) >= 0 else 128 - int(status)
    )
    assert sorted(os.listdir(tmp_path)) == [f"{number + 1}x" for number in range(attempts)]


def test_a_restart_that_succeeds(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = f"import os; exit(os.environ['{ATTEMPT}'] != '2')"
    assert supervise(lambda attempt: _python(code), tmp_path, restarts=5) == 0
    assert "status 1; restart 1 of 5 (max_restarts)" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_on(number: signal.Signals, tmp_path: Path) -> None:
    code = (
        "import pathlib, signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(1))\n"
        "pathlib.Path('ready').touch()\n"
        "time.sleep(60)"
    )

    def send() -> None:
        while not (tmp_path / "ready").exists():
            threading.Event().wait(0.02)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    sender = threading.Thread(target=send)
    sender.start()
    assert supervise(lambda attempt: _python(code), tmp_path, restarts=3, folder=tmp_path) == 1
    sender.join()
    assert signal.getsignal(number) is before


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
def test_what_is_left_of_a_run_is_not_joined(tmp_path: Path) -> None:
    # The supervisor of what is left has been killed.
    left = (
        "import subprocess as s; p = s.Popen(['sleep', '60']); open('left', 'w').write(str(p.pid))"
    )
    start = Command([sys.executable, "-c", left], {})
    assert supervise(lambda attempt: start, tmp_path, folder=tmp_path) == 0
    pid = int((tmp_path / "left").read_text())
    try:
        with pytest.raises(FitError, match=f"process {pid} of this run is still going on"):
            check_not_in_use(tmp_path)
        check_not_in_use(tmp_path / "another")
    finally:
        os.kill(pid, signal.SIGKILL)

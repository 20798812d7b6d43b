"""Whether a run goes on, and how it ended."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from det_compat.experiment.run_state import State, read_state, state_noted
from tests.runs.made import make_run


@pytest.mark.parametrize(
    ("ending", "state", "reason"),
    [
        (None, State.DONE, ""),
        (SystemExit(0), State.DONE, ""),
        (SystemExit(), State.DONE, ""),
        (SystemExit(130), State.STOPPED, ""),
        (SystemExit(143), State.STOPPED, ""),
        (KeyboardInterrupt(), State.STOPPED, ""),
        (SystemExit(2), State.FAILED, ""),
        (SystemExit("no data"), State.FAILED, "no data"),
        (ValueError("bad\nworse"), State.FAILED, "ValueError: bad"),
        (RuntimeError("see https://u:geheim12@host/x"), State.FAILED, "RuntimeError: see https"),
    ],
)
def test_endings(tmp_path: Path, ending: BaseException | None, state: State, reason: str) -> None:
    before = time.time()
    try:
        with state_noted(tmp_path, "again"):
            running = read_state(tmp_path)
            if ending is not None:
                raise ending
    except BaseException as error:
        assert error is ending
    found = read_state(tmp_path)
    assert (running.state, running.ended, found.state) == (State.RUNNING, None, state)
    assert found.reason.startswith(reason)
    assert bool(found.reason) == bool(reason)
    assert "geheim" not in found.reason
    assert found.started is not None
    assert found.ended is not None
    assert before <= found.started <= found.ended
    assert (found.process, found.resume, found.is_here) == (os.getpid(), "again", True)


def test_secrets_of_the_command_line_are_not_kept(tmp_path: Path) -> None:
    with state_noted(tmp_path, "det-compat fit --model.hparams.api_token geheim12 --resume"):
        assert "geheim12" not in (tmp_path / "state.json").read_text()
    assert read_state(tmp_path).resume.startswith("det-compat fit --model.hparams.api_token")


@pytest.mark.parametrize(
    ("status", "state"), [(0, State.DONE), (143, State.STOPPED), (-15, State.STOPPED)]
)
def test_the_status_of_another_process(tmp_path: Path, status: int, state: State) -> None:
    with state_noted(tmp_path) as noted:
        noted.status = status
    assert read_state(tmp_path).state is state


def test_a_killed_process_is_told_from_one_that_runs(tmp_path: Path) -> None:
    begun, write_begun = os.pipe()
    process = os.fork()
    if process == 0:
        with state_noted(tmp_path):
            os.write(write_begun, b"x")
            time.sleep(60)
    os.read(begun, 1)
    assert read_state(tmp_path).state is State.RUNNING
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    assert read_state(tmp_path).state is State.KILLED
    with state_noted(tmp_path):  # it is resumed
        started = read_state(tmp_path).started
    assert started == read_state(tmp_path).started


def test_another_machines_run_is_not_said_to_be_killed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", [], state="running")
    assert read_state(folder).state is State.KILLED
    text = (folder / "state.json").read_text()
    host = read_state(folder).host
    (folder / "state.json").write_text(text.replace(f'"{host}"', '"elsewhere"'))
    assert read_state(folder).state is State.UNKNOWN


def test_a_folder_that_is_deleted_ends_no_run(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    with state_noted(tmp_path / "r"):
        shutil.rmtree(tmp_path / "r")
    assert not (tmp_path / "r").exists()
    assert read_state(tmp_path / "r").state is State.UNKNOWN

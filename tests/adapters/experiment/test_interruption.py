"""Ctrl-C and SIGTERM to single processes of ``det-compat fit``, and to all of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from det_compat.cli import main
from tests.experiment.projects import QUIET, project
from tests.fresh_python import environment
from tests.preloaded import executable

LONG = {"name": "single", "metric": "validation_loss", "max_length": {"batches": 5_000}}
SAYS_PID = """
        if self.batches == 3:
            rank = self.context.distributed.get_rank()
            pathlib.Path(f"training_{rank}.tmp").write_text(str(os.getpid()))
            os.rename(f"training_{rank}.tmp", f"training_{rank}")
        __import__("time").sleep(0.01)
"""


def started(file: Path, *options: str) -> subprocess.Popen[str]:
    """A run in a session of its own, in which each rank says its pid as ``training_RANK``."""
    code = file.with_name("model_def.py")
    code.write_text(code.read_text().replace("self.batches += 1\n", f"self.batches += 1{SAYS_PID}"))
    return subprocess.Popen(
        [executable(), "-m", "det_compat", "fit", str(file), "--run_dir", "r", *options],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def pid_of(rank: int, folder: Path) -> int:
    for _ in range(600):
        if (folder / f"training_{rank}").exists():
            return int((folder / f"training_{rank}").read_text())
        time.sleep(0.1)
    raise AssertionError(f"rank {rank} did not train")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("number", "ranks"),
    [(signal.SIGINT, [1]), (signal.SIGINT, [0, 1, 0]), (signal.SIGTERM, [1])],
    ids=["Ctrl-C to one", "Ctrl-C to all", "SIGTERM to one"],
)
def test_a_signal_to_ranks_ends_the_run_in_one_message(
    number: signal.Signals, ranks: list[int], tmp_path: Path
) -> None:
    file = project(tmp_path / "p", searcher=LONG, resources={"slots_per_trial": 2})
    with started(file) as process:
        pids = [pid_of(rank, tmp_path / "p") for rank in range(2)]
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):  # It may have ended at the first one.
                os.kill(pids[rank], number)
        said, _ = process.communicate(timeout=100)
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said and "Error" not in said
    assert said.count("resume it by: det-compat fit") == 1
    for _ in range(100):
        if not any(map(is_alive, pids)):
            return
        time.sleep(0.1)
    raise AssertionError("a rank goes on")


CTRL_C = "__import__('signal').raise_signal(2)"


@pytest.mark.parametrize(
    ("place", "is_told"),
    [("import torch", True), ("self.batches = 0", False), ("self.batches += 1", False)],
    ids=["imported", "built", "trained"],
)
def test_ctrl_c_without_a_config(
    place: str, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = project(tmp_path / "p").with_name("model_def.py")
    code.write_text(code.read_text().replace(place, f"{place}; {CTRL_C}", 1))
    sys.path.insert(0, str(tmp_path / "p"))
    hparams = ["--model.hparams.global_batch_size", "4"]
    epochs = ["--trainer.max_epochs", "1", "--trainer.logger", "false"]
    status = _status(["fit", "--model.trial_cls", "model_def:Trial", *hparams, *epochs, *QUIET])
    assert status == 128 + signal.SIGINT
    assert ("det-compat: interrupted" in capsys.readouterr().err) is is_told


IN_FINALIZER = "type('Final', (), {'__del__': lambda self: " + CTRL_C + "})()"


def test_ctrl_c_in_a_finalizer_is_not_told_as_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project(tmp_path / "p", searcher=LONG)
    code = file.with_name("model_def.py")
    place = "self.batches += 1"
    code.write_text(code.read_text().replace(place, f"{place}; {IN_FINALIZER}", 1))
    assert _status(["fit", str(file), *QUIET]) == 128 + signal.SIGINT
    shown = capsys.readouterr()
    assert "resume it by" in shown.out and "Traceback" not in shown.err


def _status(argv: list[str]) -> object:
    try:
        return main(argv)
    except SystemExit as ended:
        return ended.code

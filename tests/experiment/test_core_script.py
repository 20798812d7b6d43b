"""``det-compat fit`` on a script of the Core API: crashes, SIGTERM and --resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from det_compat.experiment.run_state import State, read_state
from det_compat.runs.summary import summary_of
from tests.fresh_python import environment
from tests.preloaded import executable

SCRIPT = """
import json, os, time
import determined as det
from determined import core

info = det.get_cluster_info()
with core.init() as context:
    epoch = 0
    if info.latest_checkpoint:
        with context.checkpoint.restore_path(info.latest_checkpoint) as path:
            epoch = json.loads((path / "state.json").read_text())
    print("begins at", epoch, info.trial.hparams, flush=True)
    while epoch < 4:
        epoch += 1
        context.train.report_validation_metrics(epoch, {"loss": 1 / epoch})
        with context.checkpoint.store_path({"steps_completed": epoch}) as (path, uuid):
            (path / "state.json").write_text(json.dumps(epoch))
        print("epoch", epoch, flush=True)
        if os.environ.get("DIE_AT") == str(epoch) and not info.latest_checkpoint:
            os._exit(7)
        while os.environ.get("WAIT_AT") == str(epoch) and not context.preempt.should_preempt():
            time.sleep(0.02)
        if context.preempt.should_preempt():
            if "FAIL" in os.environ:
                raise RuntimeError("the disk is full")
            if "KILL" in os.environ:
                os.kill(os.getpid(), 9)
            break
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    config = {
        "name": "script",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"lr": 0.5},
        "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 4}},
        "max_restarts": 1,
    }
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def fit(project: Path, *options: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [executable(), "-m", "det_compat", "fit", "config.yaml", *options],
        cwd=project,
        env={**environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def checkpoints(project: Path) -> list[int]:
    found = (project / "runs" / "script" / "001" / "checkpoints").glob("*/state.json")
    return sorted(json.loads(file.read_text()) for file in found)


def test_a_script_that_dies_is_restarted_from_its_last_checkpoint(project: Path) -> None:
    process = fit(project, DIE_AT="2")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert [line for line in out.splitlines() if line.startswith("begins")] == [
        "begins at 0 {'lr': 0.5}",
        "begins at 2 {'lr': 0.5}",
    ]
    # The best is the latest one.
    assert checkpoints(project) == [4]
    run = summary_of(project / "runs/script/001")
    assert run is not None
    assert (run.state.state, run.batches, run.best) == (State.DONE, 4, (0.25, 4))
    log = (run.path / "log.txt").read_text().splitlines()
    assert [line for line in log if line.startswith("epoch")] == [f"epoch {n}" for n in range(1, 5)]


def terminated(
    project: Path, epoch: str, ends: tuple[int, State] = (143, State.STOPPED), **variables: str
) -> str:
    """The output of a run that SIGTERM has stopped in an epoch."""
    process = fit(project, WAIT_AT=epoch, **variables)
    assert process.stdout is not None
    while f"epoch {epoch}" not in process.stdout.readline():
        time.sleep(0)
    os.kill(process.pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=120)
    state = read_state(project / "runs/script/001").state
    assert (process.returncode, state) == ends, out
    return out


def test_sigterm_preempts_it_and_resume_goes_on(project: Path) -> None:
    out = terminated(project, "2")
    assert "preempted" in out and "resume it by" in out
    assert checkpoints(project) == [1, 2]
    process = fit(project, "--resume")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert "begins at 2" in out
    assert checkpoints(project) == [4]


TORCHRUN = """#!/bin/sh
python3 train.py & rank=$!
trap 'kill -TERM $rank; wait $rank; exit 1' TERM
wait $rank
"""


@pytest.mark.parametrize("end", [None, "FAIL", "KILL"])
def test_torchrun_hides_how_its_preempted_ranks_have_ended(project: Path, end: str | None) -> None:
    (project / "torchrun").write_text(TORCHRUN)
    (project / "torchrun").chmod(0o755)
    config = yaml.safe_load((project / "config.yaml").read_text())
    (project / "config.yaml").write_text(yaml.safe_dump({**config, "entrypoint": "./torchrun"}))
    if end is None:
        terminated(project, "1")
        assert not list((project / "runs/script/001").glob("process-*"))
    else:
        terminated(project, "1", (1, State.FAILED), **{end: "1"})

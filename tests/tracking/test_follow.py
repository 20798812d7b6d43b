"""The process beside a run, with a stub in place of mlflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from det_compat.cli import main
from tests.fresh_python import environment
from tests.preloaded import executable
from tests.runs.made import make_run

STUB = Path(__file__).with_name("stub")
RUN = """
import json, sys, time
from pathlib import Path
from det_compat.experiment.processes.tracker import tracked
from det_compat.experiment.run_state import state_noted

folder = Path(sys.argv[1])
with tracked(folder, sys.argv[2]), state_noted(folder):
    print("begun", flush=True)
    if len(sys.argv) > 3:
        time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_run(tmp_path / "runs/digits/001", [0.5, 0.25], lr=0.1)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    given = environment()
    path = os.pathsep.join([str(STUB), given["PYTHONPATH"]])
    return {**given, "PYTHONPATH": path, "STUB_MLFLOW": str(tmp_path / "calls.jsonl")}


def calls(tmp_path: Path, name: str) -> list[dict[str, Any]]:
    file = tmp_path / "calls.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if line["call"] == name]


def run(folder: Path, tracking: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [executable(), "-c", RUN, str(folder), tracking],
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_a_run_is_sent_while_it_goes_on(
    tmp_path: Path, folder: Path, variables: dict[str, str]
) -> None:
    done = run(folder, "mlflow:http://here/", {**variables, "MLFLOW_TRACKING_URI": "http://not"})
    assert "curves: http://here/#/experiments/1/runs/abc" in done.stderr
    assert {call["uri"] for call in calls(tmp_path, "log_batch")} == {"http://here/"}
    assert calls(tmp_path, "set_terminated")[-1]["args"] == ["abc", "FINISHED"]
    assert run(folder, "none", variables).stderr == ""


def test_a_server_that_is_down_is_told_once_and_ends_nothing(
    tmp_path: Path, folder: Path, variables: dict[str, str]
) -> None:
    told = run(folder, "mlflow:http://me:hush@down", variables).stderr
    assert told.count("does not take what the run reports: ConnectionError: nobody\n") == 1
    assert f"det-compat runs track {folder}" in told and "hush" not in told
    assert json.loads((folder / "state.json").read_text())["state"] == "done"
    later = subprocess.run(
        [executable(), "-m", "det_compat", "runs", "track", str(folder)],
        env={**variables, "MLFLOW_TRACKING_URI": "http://up"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert later.stdout == "sent: http://up/#/experiments/1/runs/abc\n"
    metrics = [one for call in calls(tmp_path, "log_batch") for one in call.get("metrics", ())]
    assert [one["value"] for one in metrics if one["key"] == "validation/accuracy"] == [0.5, 0.25]


def test_a_killed_run_is_told_to_be(
    tmp_path: Path, folder: Path, variables: dict[str, str]
) -> None:
    words = [executable(), "-c", RUN, str(folder), "mlflow:http://here", "long"]
    with subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while not calls(tmp_path, "log_batch"):
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    until, told = time.monotonic() + 60, list[list[str]]()
    # The folder has a run that was over: what follows it may have said so before this one began.
    while told[-1:] != [["abc", "KILLED"]] and time.monotonic() < until:
        time.sleep(0.05)
        told = [call["args"] for call in calls(tmp_path, "set_terminated")]
    assert told[-1] == ["abc", "KILLED"]


@pytest.mark.parametrize(
    ("tracking", "said"),
    [("wandb", "write mlflow, mlflow:URI"), ("mlflow:", "write mlflow"), ("mlflow", "[mlflow]")],
)
def test_what_cannot_be_done_is_said_before_anything_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tracking: str,
    said: str,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "mlflow" else 1)
    (tmp_path / "c.yaml").write_text("name: x\n")
    for command in ("fit", "search"):
        assert main([command, str(tmp_path / "c.yaml"), "--tracking", tracking]) == 2
        assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]

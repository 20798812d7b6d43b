"""``det-compat runs`` knows runs of scripts that start by themselves."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from det_compat.cli import main
from det_compat.experiment.run_folder import RunFolder, run_folders
from det_compat.experimental import core_v2
from det_compat.runs.summary import Summary, summary_of
from tests.fresh_python import environment
from tests.preloaded import executable

SCRIPT = """
import os, pathlib, signal, sys, time
from determined.experimental import core_v2

end, trial = sys.argv[1:]
searcher = {"name": "single", "metric": "loss", "smaller_is_better": True}
core_v2.init(
    config=core_v2.Config(
        name="mine",
        hparams={"lr": 0.1, "data": pathlib.Path("/data")},
        searcher=None if end == "without a searcher" else searcher,
        checkpoint_storage="saved",
        external_experiment_id="exp",
        external_trial_id=trial,
    )
)
for step in range(1, 4):
    core_v2.train.report_validation_metrics(step, {"loss": abs(step - 2)})
    with core_v2.checkpoint.store_path({"steps_completed": step}) as (path, uuid):
        (path / "state").write_text(str(step))
print("trained", flush=True)
if end == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif end == "stopped":
    while not core_v2.preempt.should_preempt():
        os.kill(os.getpid(), signal.SIGTERM)
elif end == "raised":
    raise RuntimeError("no more")
elif end == "exited":
    sys.exit(3)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def ended(project: Path, end: str, trial: str) -> Summary:
    """The run of the script that ends so."""
    words = [executable(), "-m", "det_compat", "run", "train.py", end, trial]
    subprocess.run(words, cwd=project, env=environment(), capture_output=True, check=False)
    found = summary_of(project / "runs/exp" / trial)
    assert found is not None
    return found


def test_a_run_without_a_searcher_has_no_metric_of_one(project: Path) -> None:
    run = ended(project, "without a searcher", "t")
    assert (run.state.state.value, run.batches, run.metric, run.best) == ("done", 3, None, None)


def test_how_a_script_has_ended(project: Path) -> None:
    found = {end: ended(project, end, end) for end in ("done", "killed", "raised", "exited")}
    assert {end: one.state.state.value for end, one in found.items()} == {
        **{"done": "done", "killed": "killed"},
        **{"raised": "failed", "exited": "failed"},
    }
    assert found["raised"].state.reason == "RuntimeError: no more"
    assert (project / "runs/exp/raised/log.txt").read_text().count("RuntimeError: no more") == 1
    (done,) = (one for end, one in found.items() if end == "done")
    assert (done.name, done.best, done.batches) == ("mine", (0.0, 2), 3)
    assert done.hparams == {"lr": 0.1, "data": "/data"}
    assert [(one.batches, one.value) for one in done.checkpoints] == [(2, 0), (3, 1), (1, 1)]
    assert {one.path.parent for one in done.checkpoints} == {project / "saved"}


def test_a_run_goes_on_in_its_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stopped = ended(project, "stopped", "1")
    assert stopped.state.state.value == "stopped"
    assert stopped.state.resume.endswith("train.py stopped 1")
    first = json.loads((stopped.path / "det_compat_run.json").read_text())
    again = ended(project, "done", "1")
    assert (again.state.state.value, len(again.checkpoints)) == ("done", 6)
    assert again.state.started == stopped.state.started
    assert json.loads((again.path / "det_compat_run.json").read_text())["id"] == first["id"]
    assert main(["runs", "logs", "exp/1"]) == 0
    assert capsys.readouterr().out == "trained\ntrained\n"
    assert main(["runs", "delete", "exp/1", "--yes"]) == 0
    assert f"stay in {project / 'saved'}" in capsys.readouterr().out
    assert len([*(project / "saved").iterdir()]) == 6


def test_it_is_none_of_fit(project: Path) -> None:
    ids: dict[str, Any] = {"external_experiment_id": "exp", "external_trial_id": "001"}
    with core_v2.init_context(config=core_v2.Config(**ids)):
        assert [*run_folders("exp")] == []
    RunFolder(project / "runs/exp/002").begin({"name": "exp"}, seed=1)
    assert len([*run_folders("exp")]) == 1
    with pytest.raises(ValueError, match="holds a run of det-compat fit"):
        core_v2.init_context(config=core_v2.Config(**{**ids, "external_trial_id": "002"}))

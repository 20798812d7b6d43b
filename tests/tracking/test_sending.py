"""What arrives of runs and searches, whatever comes between."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from det_compat.experiment.run_state import state_noted
from det_compat.tracking.sending import Sending
from det_compat.tracking.sent import Sent
from tests.runs.made import make_run, make_search, write
from tests.tracking.fake import FakeStore

CONFIG = (
    "name: digits\ndescription: a try\nlabels: [a, b]\nproject: p\nworkspace: w\n"
    "environment: {environment_variables: [KEY=hush]}\n"
)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def append(folder: Path, *lines: Any) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def test_a_run_arrives(tmp_path: Path, store: FakeStore) -> None:
    folder = make_run(tmp_path / "runs/digits/003", [0.5, 0.25], lr=0.1, net={"depth": 3})
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "curves.png").touch()
    Sending(folder, store).send()
    (run,) = store.runs.values()
    assert (run.experiment, run.name, run.state) == ("digits", "digits/003", "FINISHED")
    assert (run.params["lr"], run.params["net.depth"]) == ("0.1", "3")
    assert run.params["searcher.metric"] == "accuracy"
    told = {name: run.tags[name] for name in ("labels", "description", "project", "workspace")}
    expected = {"labels": "a, b", "description": "a try", "project": "p", "workspace": "w"}
    assert told == expected
    assert run.curve("training/loss") == [(10, 1.0), (20, 1.0)]
    assert run.curve("validation/accuracy") == [(10, 0.5), (20, 0.25)]
    assert run.curve("best/accuracy") == [(10, 0.5)]
    assert run.files == ["config.yaml", "curves.png", "best_checkpoint/1/1"]
    Sending(folder, store).send()
    assert len(store.runs) == 1 and len(run.values) == 5 and len(run.files) == 3


def test_a_resumed_run_goes_on_in_the_same_one(tmp_path: Path, store: FakeStore) -> None:
    folder = make_run(tmp_path / "r", [0.5], state="failed")
    Sending(folder, store).send()
    assert store.runs["0"].state == "FAILED"
    append(folder, {"group": "training", "steps_completed": 20, "metrics": {"loss": 0.5}})
    with state_noted(folder):
        Sending(folder, store).send()
        assert store.runs["0"].state == "RUNNING"
    Sending(folder, store).send()
    assert [*store.runs] == ["0"] and store.runs["0"].state == "FINISHED"
    assert store.runs["0"].curve("training/loss") == [(10, 1.0), (20, 0.5)]
    # It went on and ended between two looks.
    store.runs["0"].state = ""
    write(folder / "state.json", {**json.loads((folder / "state.json").read_text()), "ended": 9e9})
    Sending(folder, store).send()
    assert store.runs["0"].state == "FINISHED"


@pytest.mark.parametrize("calls", range(8))
def test_what_was_not_taken_arrives_later(tmp_path: Path, store: FakeStore, calls: int) -> None:
    folder = make_run(tmp_path / "r", [0.5, 0.25], lr=0.1)
    (folder / "config.yaml").write_text(CONFIG)
    store.fails_after = calls
    with pytest.raises(ConnectionError):
        Sending(folder, store).send()
    store.fails_after = None
    Sending(folder, store).send()
    (run,) = store.runs.values()
    assert (run.state, run.params["lr"]) == ("FINISHED", "0.1")
    assert run.curve("validation/accuracy") == [(10, 0.5), (20, 0.25)]
    assert sorted(run.files) == ["best_checkpoint/1/1", "config.yaml"]


def test_what_is_sent_elsewhere_arrives_as_a_whole(tmp_path: Path, store: FakeStore) -> None:
    folder = make_run(tmp_path / "r", [0.5])
    Sending(folder, FakeStore("https://me:hush@here")).send()
    assert "hush" not in (folder / "tracking.json").read_text()
    assert Sent.to("https://me:hush@here", folder).offset > 0
    Sending(folder, store).send()
    assert store.runs["0"].curve("validation/accuracy") == [(10, 0.5)]


def test_a_search_is_a_run_with_its_trials_below(tmp_path: Path, store: FakeStore) -> None:
    folder = make_search(tmp_path / "search_many", [[0.3], [0.8, 0.7]])
    write(folder / "results.json", [])
    state = json.loads((folder / "trials/0000/state.json").read_text())
    write(folder / "state.json", state)
    for trial in folder.glob("trials/*"):
        (trial / "state.json").unlink()
    write(folder / "trials/0000/end.json", {"status": "error", "reason": "it broke"})
    # Another trainer's trial has nothing but what the search keeps.
    other = folder / "trials/0002"
    write(other / "trial.json", {"index": 2, "bracket": 0, "hparams": {"lr": 2, "api_key": "hush"}})
    report = {"batches": 5, "rungs": 0, "metric": 1.0, "metrics": {"accuracy": 0.1}}
    (other / "reports.jsonl").write_text(json.dumps(report) + "\n")
    write(other / "end.json", {"status": "stopped", "reason": ""})
    Sending(folder, store).send()
    parent, *trials = store.runs.values()
    assert (parent.name, parent.experiment, parent.state) == ("search_many", "many", "FINISHED")
    assert parent.files == ["results.json", "best_checkpoint/1/1"]
    assert {trial.tags["mlflow.parentRunId"] for trial in trials} == {"0"}
    assert [trial.name for trial in trials] == [f"search_many/000{n}" for n in range(3)]
    # Trial 1 has not ended when the search has.
    assert [trial.state for trial in trials] == ["FAILED", "KILLED", "FINISHED"]
    assert trials[0].tags["det_compat.reason"] == "it broke"
    assert trials[1].curve("validation/accuracy") == [(10, 0.8), (20, 0.7)]
    assert trials[2].curve("validation/accuracy") == [(5, 0.1)]
    assert "hush" not in str(trials[2].params)


def test_a_user_of_a_container_has_no_name(
    tmp_path: Path, store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    Sending(make_run(tmp_path / "r", [0.5]), store).send()
    assert store.runs["0"].tags["mlflow.user"] == str(os.getuid())


def test_no_run_is_made_of_what_is_none(tmp_path: Path, store: FakeStore) -> None:
    assert Sending(tmp_path, store).send() is None and store.runs == {}

"""What the files of a run tell, also when they are old, damaged, or being written."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from det_compat.experiment.run_state import state_noted
from det_compat.runs.summary import summary_of
from tests.runs.made import make_run, make_search, write


def test_a_run(tmp_path: Path) -> None:
    found = summary_of(make_run(tmp_path / "r", [0.5, 0.9, 0.7], lr=0.1))
    assert found is not None
    about = found.as_dict()
    assert (about["state"], about["length"], about["batches"]) == ("done", "2 epochs", 30)
    assert (about["metric"], about["best"], about["best_batches"]) == ("accuracy", 0.9, 20)
    assert about["best_checkpoint"] == str(tmp_path / "r/checkpoints/2")
    assert [one.value for one in found.checkpoints] == [0.9, 0.7, 0.5]
    assert found.validations[0].metrics == {"accuracy": 0.5}


def test_a_search_is_as_good_as_its_best_trial(tmp_path: Path) -> None:
    found = summary_of(make_search(tmp_path / "s", [[0.1, 0.3], [0.8], []]))
    assert found is not None
    assert (found.kind, len(found.trials), found.batches) == ("search", 3, 30)
    assert found.best == (0.8, 10)
    assert found.checkpoints[0].path == tmp_path / "s/trials/0001/checkpoints/1"
    assert found.hparams == {"lr": {"type": "log", "minval": -3, "maxval": 0, "base": 10}}


def test_a_trial_has_the_state_that_the_search_has_noted(tmp_path: Path) -> None:
    search = make_search(tmp_path / "s", [[0.1], [0.2], [0.3]])
    for trial, ended in (("0000", "stopped"), ("0001", "invalid_hp"), ("0002", None)):
        (search / "trials" / trial / "state.json").unlink()
        if ended:
            end = {"status": ended, "reason": f"it is {ended}"}
            write(search / "trials" / trial / "end.json", end)
    with state_noted(search):
        found = summary_of(search)
        assert found is not None
        assert [one.state.state.value for one in found.trials] == ["done", "failed", "running"]
    (alone,) = (summary_of(search / "trials/0001"),)
    assert alone is not None and alone.state.reason == "it is invalid_hp"
    last = summary_of(search / "trials/0002")
    assert last is not None and last.state.state.value == "stopped"


def test_constants_are_shown_as_the_trial_gets_them(tmp_path: Path) -> None:
    nested = {"type": "const", "val": {"depth": 2}}
    found = summary_of(make_run(tmp_path / "r", [], net={"size": nested, "type_": 1}, empty={}))
    assert found is not None
    assert found.hparams == {"net.size": {"depth": 2}, "net.type_": 1, "empty": {}}


def test_smaller_may_be_better_and_what_is_no_number_is_never_best(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", [0.5, math.nan, 0.2, math.inf])
    searcher = {"metric": "accuracy", "max_length": 100}
    write(folder / "det_compat_run.json", {"seed": 1, "searcher": searcher})
    found = summary_of(folder)
    assert found is not None
    assert (found.best, found.length, found.name) == ((0.2, 30), "100", tmp_path.name)
    write(folder / "det_compat_run.json", {"seed": 1})
    nameless = {"group": "validation", "steps_completed": 40, "metrics": {"": 0.1}}
    write(folder / "metrics.jsonl", nameless)
    without_metric = summary_of(folder)
    assert without_metric is not None and without_metric.best is None


def test_a_line_that_a_kill_has_cut_off_is_not_read(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", [0.5, 0.9])
    text = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text(text[:-20])
    found = summary_of(folder)
    assert found is not None
    assert (found.best, found.batches) == ((0.5, 10), 20)


def test_reports_of_equal_batches_are_one_validation(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", [0.5])
    more = {"group": "validation", "steps_completed": 10, "metrics": {"loss": 2.0}}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(more) + "\n")
    found = summary_of(folder)
    assert found is not None
    assert [one.metrics for one in found.validations] == [{"accuracy": 0.5, "loss": 2.0}]
    assert found.best == (0.5, 10)


def test_a_resumed_run_has_each_validation_once(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r", [0.5, 0.9])
    again = make_run(tmp_path / "again", [0.6])
    with (folder / "metrics.jsonl").open("a") as file:
        file.write((again / "metrics.jsonl").read_text())
    found = summary_of(folder)
    assert found is not None
    assert [(one.batches, one.metrics["accuracy"]) for one in found.validations] == [
        (10, 0.6),
        (20, 0.9),
    ]


@pytest.mark.parametrize("content", ["", "[1]", '{"searcher": 3}', "[" * 100_000, "\0"])
def test_damaged_files_are_of_an_unknown_run(tmp_path: Path, content: str) -> None:
    for name in ("det_compat_run.json", "state.json", "metrics.jsonl"):
        (tmp_path / name).write_text(content)
    write(tmp_path / "checkpoints/1/metadata.json", [1])
    found = summary_of(tmp_path)
    assert found is not None
    about = found.as_dict()
    assert (about["state"], about["batches"], about["best"]) == ("unknown", 0, None)


def test_other_folders_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    assert summary_of(tmp_path) is None
    assert summary_of(tmp_path / "nothing") is None

"""Searches on a Ray of this machine, with functions in the place of training."""

from __future__ import annotations

import csv
import functools
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from det_compat.cli import main
from det_compat.config.experiment import parse_config
from det_compat.experiment.run_state import State, read_state
from det_compat.search import search
from tests.search.objectives import read_json, train_one

pytest.importorskip("ray", reason="needs det-compat[search]")

from det_compat.search import SearchError, run
from det_compat.search.tune.live import LiveTable

pytestmark = [
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore"),
]


def config(hyperparameters: dict[str, Any], **searcher: Any) -> dict[str, Any]:
    return {
        "name": "small",
        "entrypoint": "model_def:Trial",
        "hyperparameters": {"global_batch_size": 4, **hyperparameters},
        "searcher": {
            "metric": "score",
            "smaller_is_better": False,
            "max_length": {"batches": 16},
            **searcher,
        },
        "reproducibility": {"experiment_seed": 3},
        "resources": {"slots_per_trial": 1},
        "max_restarts": 1,
    }


def test_each_kind_of_failure_is_one_trials_own(tmp_path: Path) -> None:
    fates = ["trains", "raises", "dies", "nan", "silent", "invalid"]
    given = config(
        {"x": 0.5, "fate": {"type": "categorical", "vals": fates}},
        name="grid",
        max_concurrent_trials=2,
    )
    grid = run(given, run_dir=tmp_path / "run", train_one=train_one)
    assert len(grid) == len(fates)
    best = grid.get_best_result()
    assert best.config["hparams"]["fate"] == "trains"
    assert list(best.metrics_dataframe["score"]) == [read_json(tmp_path / "run")[0]["metric"]]
    # Tune's own logger for TensorBoard imports torch before the first trial starts.
    assert not list((tmp_path / "run" / "tune").rglob("events.out*"))
    found = {result["hparams"]["fate"]: result for result in read_json(tmp_path / "run")}
    assert next(iter(found)) == "trains"
    assert found["trains"]["metric"] == 0.5
    assert found["trains"]["batches"] == 16
    assert Path(found["trains"]["checkpoint"]).read_text() == "16"
    assert {fate: result["status"] for fate, result in found.items()} == {
        "trains": "completed",
        "raises": "error",
        "dies": "error",
        "nan": "completed",
        "silent": "error",
        "invalid": "invalid_hp",
    }
    assert found["nan"]["metric"] is None
    assert "this trial raises" in found["raises"]["reason"]
    assert "process died" in found["dies"]["reason"]
    assert "never reported the metric 'score'" in found["silent"]["reason"]
    assert found["invalid"]["reason"] == "x is no good"
    # max_restarts is for what may go better the next time
    assert starts(tmp_path / "run", found["raises"]) == 2
    assert starts(tmp_path / "run", found["silent"]) == 1
    assert (tmp_path / "run" / "results.png").stat().st_size > 5000
    with (tmp_path / "run" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["hparams.fate"] == "trains"
    assert len(rows) == len(fates)


@pytest.mark.thorough
def test_a_full_disk_leaves_a_trial_unfinished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "prepare", functools.partial(search.prepare, train_one=train_one))
    fates = {"type": "categorical", "vals": ["has no room", "trains"]}
    given = config({"x": 0.5, "fate": fates}, name="grid", max_concurrent_trials=2)
    file, folder = tmp_path / "search.yaml", tmp_path / "run"
    file.write_text(json.dumps(given))
    command = ["search", str(file), "--run-dir", str(folder)]

    def found(*, status: int) -> dict[str, tuple[str, int]]:
        assert main(command) == status
        return {
            result["hparams"]["fate"]: (result["status"], starts(folder, result))
            for result in read_json(folder)
        }

    assert found(status=2) == {"has no room": ("unfinished", 2), "trains": ("completed", 1)}
    command.append("--resume")
    why, said = "it had no room to write: OSError: [Errno 28]", capsys.readouterr()
    assert re.match(rf"det-compat: trial [01] was given up: {re.escape(why)}", said.err), said.err
    again = shlex.join(["det-compat", *command])
    assert said.out.endswith(f"go on, when that is mended, with\n  {again}\n"), said.out
    state = read_state(folder)
    assert state.state is State.FAILED and why in state.reason
    (folder / "room").touch()
    assert found(status=0) == {"has no room": ("completed", 3), "trains": ("completed", 1)}
    assert read_state(folder).state is State.DONE


def test_what_tune_does_not_ask_for_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    said: list[Exception] = []
    monkeypatch.setattr("ray._private.worker._unhandled_error_handler", said.append)

    def drops_an_error(*_: Any, **__: Any) -> None:
        # Tune does so with trials that fail after the search itself did; the second one is later.
        ray.remote(json.loads).remote("no JSON")
        assert ray.get(ray.remote(json.loads).remote("1")) == 1

    monkeypatch.setattr(LiveTable, "on_trial_result", drops_an_error)
    run(config({"x": 0.5}, name="single"), run_dir=tmp_path / "run", train_one=train_one)
    assert said == []


def starts(folder: Path, result: dict[str, Any]) -> int:
    log = folder / "trials" / f"{result['trial']:04d}" / "starts"
    return len(log.read_text().splitlines())


def test_adaptive_asha_stops_and_replaces(tmp_path: Path) -> None:
    space = {
        "x": {"type": "double", "minval": 0, "maxval": 1},
        "fate": {"type": "categorical", "vals": ["trains", "trains", "nan", "invalid"]},
    }
    given = config(space, name="adaptive_asha", max_trials=8, divisor=4, max_concurrent_trials=2)
    run(
        parse_config(given), run_dir=tmp_path / "run", train_one="tests.search.objectives:train_one"
    )
    found = read_json(tmp_path / "run")
    valid = [result for result in found if result["status"] != "invalid_hp"]
    assert len(valid) == 8
    assert [sum(one["bracket"] == number for one in valid) for number in (0, 1)] == [6, 2]
    assert len(found) > len(valid)
    stopped = [result for result in valid if result["status"] == "stopped"]
    assert {result["batches"] for result in stopped} == {4}
    assert {result["batches"] for result in valid} == {4, 16}
    best = valid[0]
    assert best["status"] == "completed"
    assert best["metric"] == best["hparams"]["x"] == max(r["metric"] or 0 for r in valid)


def test_too_many_slots(tmp_path: Path) -> None:
    given = config({"x": 1}, name="single")
    given["resources"] = {"slots_per_trial": 64}
    with pytest.raises(SearchError, match="slots_per_trial is 64, and there are 2 CPU cores"):
        run(given, run_dir=tmp_path / "run", train_one=train_one)


def test_a_folder_that_the_locale_has_no_letters_for(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match=r"r\\udcc3sum/out': this locale .* LC_ALL=C\.UTF-8"):
        run(
            config({"x": 1}, name="single"),
            run_dir=tmp_path / "r\udcc3sum" / "out",
            train_one=train_one,
        )


def test_a_folder_is_taken_once(tmp_path: Path) -> None:
    given = config({"x": 1}, name="single")
    with pytest.raises(SearchError, match="no search to resume"):
        run(given, run_dir=tmp_path / "run", train_one=train_one, resume=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("keep")
    with pytest.raises(SearchError, match="not empty"):
        run(given, run_dir=tmp_path / "run", train_one=train_one)
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["thesis.txt"]

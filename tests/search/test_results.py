from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from det_compat.config.experiment import parse_config
from det_compat.search.records import Report, SearchFolder, Status
from det_compat.search.results import read_results, saving, value_of, write_results
from det_compat.search.search import prepare
from det_compat.search.searchers.plan import plan_search
from det_compat.search.tables import results_table


@pytest.fixture
def folder(tmp_path: Path) -> SearchFolder:
    folder = SearchFolder(tmp_path / "run")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    trials = [
        (Status.COMPLETED, [(4, 0.5, "a"), (16, 0.7, "b")]),
        (Status.STOPPED, [(4, 0.9, None)]),
        (Status.ERROR, []),
        (Status.STOPPED, [(4, math.nan, "gone")]),
        (Status.INVALID_HP, []),
    ]
    for index, (status, reports) in enumerate(trials):
        record = folder.trial(index)
        record.begin(index, 0, {"lr": 0.1 * index, "net": {"x": index}})
        for batches, loss, path in reports:
            checkpoint = None if path is None else str(tmp_path / path)
            record.append(Report(batches, 1, loss, {}, checkpoint))
        record.finish(status, "why" if status is Status.ERROR else "")
    return folder


def test_best_first(folder: SearchFolder) -> None:
    found = read_results(folder, smaller_is_better=True)
    assert [result.index for result in found] == [0, 1, 3, 2, 4]
    assert (found[0].metric, found[0].metric_batches, found[0].batches) == (0.5, 4, 16)
    assert found[0].checkpoint is not None
    assert found[0].checkpoint.endswith("/a")
    assert (found[2].metric, found[2].checkpoint, found[2].batches) == (None, None, 4)
    found = read_results(folder, smaller_is_better=False)
    assert [result.index for result in found][:2] == [1, 0]
    assert (found[1].metric, found[1].checkpoint or "")[0] == 0.7


@pytest.mark.parametrize("status", [Status.ERROR, Status.INVALID_HP])
def test_what_failed_counts_as_worst(status: Status, folder: SearchFolder) -> None:
    record = folder.trial(5)
    record.begin(5, 0, {})
    record.append(Report(4, 1, 0.1, {}))
    record.finish(status)
    found = read_results(folder, smaller_is_better=True)
    assert [result.index for result in found] == [0, 1, 3, 5, 2, 4]


def test_files(folder: SearchFolder) -> None:
    write_results(folder.path, read_results(folder, smaller_is_better=True))
    rows = json.loads((folder.path / "results.json").read_text(), parse_constant=pytest.fail)
    assert rows[3]["status"] == "error"
    assert rows[3]["reason"] == "why"
    assert {"hparams", "metric", "batches", "status", "checkpoint"} <= rows[0].keys()
    lines = (folder.path / "results.csv").read_text().splitlines()
    assert lines[0].startswith(
        "trial,bracket,hparams.lr,hparams.net.x,metric,metric_batches,batches"
    )
    assert lines[1].startswith("0,0,0.0,0,0.5,4,16,completed,")


def test_results_are_without_secrets(tmp_path: Path) -> None:
    folder = SearchFolder(tmp_path)
    folder.trial(0).begin(0, 0, {"api_key": "hush", "net": {"url": "https://me:hush@host"}})
    write_results(tmp_path, read_results(folder, smaller_is_better=True))
    for name in ("results.json", "results.csv"):
        assert "hush" not in (tmp_path / name).read_text()
    assert folder.trial(0).about()["hparams"]["api_key"] == "hush"


def test_values_by_name() -> None:
    hparams = {"a": {"b": {"c": 1}, "d.e": 2}, "f": None}
    names = ["a.b", "a.b.c", "a.d.e", "f", "g", "a.x.y"]
    assert [value_of(hparams, name) for name in names] == [{"c": 1}, 1, 2, None, None, None]


def test_an_empty_search(tmp_path: Path) -> None:
    write_results(tmp_path, [])
    assert json.loads((tmp_path / "results.json").read_text()) == []
    assert saving([]) == ""


def test_saving(folder: SearchFolder) -> None:
    saved = saving(read_results(folder, smaller_is_better=True))
    # the invalid trial does not count
    trained, to_the_end = 16 + 4 + 0 + 4, 4 * 16
    assert saved.startswith(f"{trained} batches trained in all trials, 62% less than the ")
    assert saved.endswith(f" {to_the_end} of training each to its end")


def test_picture(folder: SearchFolder, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs det-compat[search]")
    from det_compat.search.picture import draw

    space = {
        "lr": {"type": "log", "minval": -3, "maxval": 0, "base": 10},
        "net": {"x": {"type": "categorical", "vals": ["a", None, True, {"b": 1}]}},
    }
    searcher = {"name": "random", "metric": "loss", "max_trials": 2, "max_length": {"batches": 1}}
    plan = plan_search(parse_config({"searcher": searcher, "hyperparameters": space}), 0)
    draw(tmp_path / "p.png", plan, read_results(folder, smaller_is_better=True))
    draw(tmp_path / "q.png", plan, [])
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_checkpoint_between_validations_is_named_with_its_batch(tmp_path: Path) -> None:
    config = {
        "name": "x",
        "entrypoint": "model_def:Trial",
        "hyperparameters": {"lr": {"type": "double", "minval": 0, "maxval": 1}},
        "searcher": {
            "name": "random",
            "metric": "loss",
            "max_trials": 2,
            "max_length": {"batches": 16},
        },
    }
    search = prepare(config, tmp_path, run_dir=tmp_path / "run", train_one=lambda *_, **__: None)
    uuid = "00000000-0000-4000-8000-000000000001"
    for index, steps in enumerate((6, None)):
        record = search.folder.trial(index)
        record.begin(index, 0, {"lr": 0.5})
        record.append(Report(8, 1, 0.5 + index, {}))
        record.finish(Status.COMPLETED)
        saved = record.folder / "checkpoints" / uuid
        saved.mkdir(parents=True)
        if steps is not None:
            (saved / "metadata.json").write_text(json.dumps({"steps_completed": steps}))
    found = search.results()
    path = str(search.folder.trial(0).folder / "checkpoints" / uuid)
    assert [(one.checkpoint, one.checkpoint_batches) for one in found] == [(path, 6), (None, None)]
    table = Console(width=300, file=(shown := io.StringIO()))
    table.print(results_table(search.plan, found))
    assert f"after batch 6: {path}" in shown.getvalue()

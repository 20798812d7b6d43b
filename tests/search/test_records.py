from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from det_compat.search.errors import SearchError
from det_compat.search.records import Report, SearchFolder, Status


def test_a_trial(tmp_path: Path) -> None:
    folder = SearchFolder(tmp_path)
    record = folder.trial(3)
    record.begin(3, 1, {"lr": 0.1})
    assert record.status is Status.UNFINISHED
    assert record.reports() == []
    first, second = Report(1, 0, 0.5, {"loss": 0.5}), Report(4, 1, math.inf, {}, "/x")
    record.append(first)
    record.append(second)
    assert record.reports() == [first, second]
    record.finish(Status.STOPPED)
    record.finish(Status.ERROR, "killed")
    assert (record.status, record.reason) == (Status.STOPPED, "")
    folder.trial(12).begin(12, 0, {})
    assert [one.about()["index"] for one in folder.trials()] == [3, 12]
    assert folder.trials()[0].about() == {"index": 3, "bracket": 1, "hparams": {"lr": 0.1}}


def test_checkpoints_go_where_the_folder_goes(tmp_path: Path) -> None:
    record = SearchFolder(tmp_path / "one").trial(0)
    record.begin(0, 0, {})
    own = record.folder / "checkpoints" / "uuid"
    own.mkdir(parents=True)
    record.append(Report(1, 0, 0.5, {}, str(own)))
    record.append(Report(2, 0, 0.5, {}, "s3://bucket/uuid"))
    assert [one.checkpoint for one in record.reports()] == [str(own), "s3://bucket/uuid"]
    (tmp_path / "one").rename(tmp_path / "two")
    moved = SearchFolder(tmp_path / "two").trial(0)
    assert moved.reports()[0].checkpoint == str(moved.folder / "checkpoints" / "uuid")
    assert all(one.has_checkpoint for one in moved.reports())


def test_a_free_folder(tmp_path: Path) -> None:
    folder = SearchFolder(tmp_path / "run")
    assert folder.is_free
    folder.begin({"seed": 1, "config": "", "file": None}, {"name": "x"})
    assert folder.is_free
    assert folder.exists
    folder.trial(0).begin(0, 0, {})
    assert not folder.is_free


def test_what_a_killed_process_leaves(tmp_path: Path) -> None:
    record = SearchFolder(tmp_path).trial(0)
    record.begin(0, 0, {})
    record.append(Report(1, 0, 0.5, {}))
    file = record.folder / "reports.jsonl"
    file.write_text(file.read_text() + '{"batches": 2, "ru')
    assert [report.batches for report in record.reports()] == [1]
    record.append(Report(2, 0, 0.4, {}))
    # trained again, from an earlier checkpoint
    record.append(Report(1, 0, 0.3, {}))
    assert [(report.batches, report.metric) for report in record.reports()] == [(1, 0.3), (2, 0.4)]


def test_one_search_is_in_a_folder(tmp_path: Path) -> None:
    folder = SearchFolder(tmp_path / "run")
    with folder.held():
        assert folder.is_free
        with pytest.raises(SearchError, match="another search runs in"), folder.held():
            pass
    with folder.held():
        pass


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("trial.json", "[]"),
        ("trial.json", "{"),
        ("trial.json", "[" * 100_000),
        ("trial.json", '{"index": 0, "bracket": "0", "hparams": {}}'),
        ("trial.json", '{"index": 0, "hparams": {}}'),
        ("reports.jsonl", '{"batches": 1}'),
        ("reports.jsonl", "1"),
        ("reports.jsonl", "[" * 100_000),
        ("end.json", '{"status": "done", "reason": ""}'),
        ("end.json", '{"status": 1, "reason": ""}'),
    ],
)
def test_records_from_elsewhere(name: str, text: str, tmp_path: Path) -> None:
    record = SearchFolder(tmp_path).trial(0)
    record.begin(0, 0, {})
    (record.folder / name).write_text(text)
    with pytest.raises(SearchError, match=name):
        (record.about(), record.reports(), record.status)


def test_a_search_from_elsewhere(tmp_path: Path) -> None:
    folder = SearchFolder(tmp_path)
    (tmp_path / "search.json").write_text(json.dumps({"seed": "1", "config": "", "file": None}))
    with pytest.raises(SearchError, match=r"search.json: .*'seed'"):
        folder.about()

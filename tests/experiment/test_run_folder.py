from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.experiment.errors import FitError
from det_compat.experiment.run_folder import (
    RunFolder,
    latest_run_folder,
    new_run_folder,
    run_folder_at,
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_runs_are_numbered(tmp_path: Path) -> None:
    assert new_run_folder("a b/c").path == tmp_path / "runs/a-b-c/001"
    (tmp_path / "runs/a-b-c/007").mkdir()
    assert new_run_folder("a b/c").path == tmp_path / "runs/a-b-c/008"
    assert new_run_folder("../..").path == tmp_path / "runs/run/001"


def test_the_latest_is_one_that_was_begun(tmp_path: Path) -> None:
    with pytest.raises(FitError, match="nothing to resume"):
        latest_run_folder("x")
    first = new_run_folder("x")
    first.begin({"name": "x"}, seed=3)
    new_run_folder("x")
    assert latest_run_folder("x").path == first.path
    assert first.seed() == 3


def test_no_secret_is_kept() -> None:
    folder = new_run_folder("x")
    folder.begin({"checkpoint_storage": {"secret_key": "hush"}}, seed=1)
    assert "hush" not in (folder.path / "config.yaml").read_text()


def test_a_named_folder(tmp_path: Path) -> None:
    with pytest.raises(FitError, match="holds no run"):
        run_folder_at(tmp_path / "r", may_hold_run=True)
    run_folder_at(tmp_path / "r", may_hold_run=False).begin({}, seed=1)
    with pytest.raises(FitError, match="go on with it by --resume"):
        run_folder_at(tmp_path / "r", may_hold_run=False)


def test_what_cannot_be_written_or_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FitError, match="cannot write the run directory"):
        RunFolder(tmp_path / "file" / "r").begin({}, seed=1)
    folder = RunFolder(tmp_path / "r")
    folder.begin({}, seed=1)
    (folder.path / "det_compat_run.json").write_text("[")
    with pytest.raises(FitError, match="cannot read the seed"):
        folder.seed()

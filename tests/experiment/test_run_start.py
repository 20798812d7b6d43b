"""How runs begin again after a kill."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from det_compat.experiment.checkpoints import checkpoints_of
from det_compat.experiment.errors import FitError
from det_compat.experiment.request import Request
from det_compat.experiment.run_folder import RECORD, RunFolder
from det_compat.experiment.run_start import begin_in, find_folder, run_to_validate
from det_compat.experiment.run_state import state_noted
from tests.config.samples import parsed


def config_of(storage: Path | None) -> Any:
    given = {"type": "shared_fs", "host_path": str(storage)} if storage else {}
    return parsed(name="x", checkpoint_storage=given)


@pytest.fixture(params=["run", "shared"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return config_of(tmp_path / "storage" if request.param == "shared" else None)


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(
    config: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path / "r")
    first = begin_in(folder, config, resume=False)
    assert "from the beginning" not in capsys.readouterr().out
    again = begin_in(folder, config, resume=True)
    assert (again.seed, again.latest_checkpoint, again.steps_completed) == (first.seed, None, 0)
    shown = capsys.readouterr().out
    assert str(folder.path) in shown and "starts from the beginning" in shown


def test_there_has_to_be_a_run(config: Any, tmp_path: Path) -> None:
    with pytest.raises(FitError, match="nothing to resume"):
        begin_in(RunFolder(tmp_path / "r"), config, resume=True)
    assert not (tmp_path / "r").exists()


def test_a_run_that_trains_is_not_joined(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "r")
    begin_in(folder, config_of(None), resume=False)
    begun, write_begun = os.pipe()
    process = os.fork()
    if process == 0:
        with state_noted(folder.path):
            os.write(write_begun, b"x")
            time.sleep(60)
    os.read(begun, 1)
    try:
        with pytest.raises(FitError, match=f"is in use: process {process} of .* trains this run"):
            begin_in(folder, config_of(None), resume=True)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    begin_in(folder, config_of(None), resume=True)


def test_a_run_without_a_checkpoint_cannot_be_validated(config: Any, tmp_path: Path) -> None:
    begin_in(RunFolder(tmp_path / "r"), config, resume=False)
    request = Request("validate", "c.yaml", tmp_path, tmp_path / "r", resume=False, options=())
    with pytest.raises(FitError, match="nothing to validate"):
        run_to_validate(request, config)


def test_leftovers_of_interrupted_checkpoints_are_removed(config: Any, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "r")
    begin_in(folder, config, resume=False)
    checkpoints = checkpoints_of(config.checkpoint_storage, folder)
    with checkpoints.store_path({"steps_completed": 3}) as (_, whole):
        pass
    begun = checkpoints.store_path({"steps_completed": 4})
    path, _ = begun.__enter__()
    (path / "state_dict.pth").write_text("half")
    other = checkpoints._storage.begin("00000000-0000-4000-8000-000000000000")
    start = begin_in(folder, config, resume=True)
    assert (start.latest_checkpoint, start.steps_completed) == (whole, 3)
    assert not path.exists()
    # In a storage that runs share, it may be another run's that is writing it right now.
    assert other.exists() == (config.checkpoint_storage.url is not None)


@pytest.mark.parametrize("lost", ["gone", "garbage"])
def test_a_run_goes_on_without_its_list_of_checkpoints(lost: str, tmp_path: Path) -> None:
    folder, config = RunFolder(tmp_path / "r"), config_of(None)
    begin_in(folder, config, resume=False)
    with checkpoints_of(config.checkpoint_storage, folder).store_path({"steps_completed": 3}):
        pass
    folder.checkpoint_names.unlink()
    if lost == "garbage":
        folder.checkpoint_names.write_bytes(b"\xff\0")
    assert begin_in(folder, config, resume=True).steps_completed == 3


def test_a_checkpoint_that_has_lost_its_metadata_is_not_deleted(
    config: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = RunFolder(tmp_path / "r")
    begin_in(folder, config, resume=False)
    checkpoints = checkpoints_of(config.checkpoint_storage, folder)
    with checkpoints.store_path({"steps_completed": 3}) as (path, _):
        (path / "state_dict.pth").write_text("whole")
    (path / "metadata.json").unlink()
    assert begin_in(folder, config, resume=True).latest_checkpoint is None
    assert (path / "state_dict.pth").exists() and str(path) in caplog.text


def test_what_cannot_be_read_in_a_run_directory_is_one_error(tmp_path: Path) -> None:
    folder, config = RunFolder(tmp_path / "r"), config_of(None)
    begin_in(folder, config, resume=False)
    folder.checkpoints.write_text("no directory")
    with pytest.raises(FitError, match="cannot read the checkpoints"):
        begin_in(folder, config, resume=True)


@pytest.mark.parametrize("record", ["", "[", '{"seed": 1e999}', '{"seed": -1}', "[" * 100_000])
def test_a_damaged_record_is_one_error(record: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "r")
    folder.path.mkdir()
    (folder.path / RECORD).write_text(record)
    with pytest.raises(FitError, match=f"cannot read the seed .*{RECORD}"):
        folder.seed()


def test_a_folder_that_the_locale_has_no_letters_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This is how Python reads a name with an accent where the locale has ASCII only.
    monkeypatch.chdir(tmp_path)
    folder = Path("r\udcc3\udca9sum")
    request = Request("fit", "c.yaml", tmp_path, folder, resume=False, options=())
    with pytest.raises(FitError, match=r"'.*r\\udcc3\\udca9sum': this locale .* LC_ALL=C\.UTF-8"):
        find_folder(request, parsed(name="here"))

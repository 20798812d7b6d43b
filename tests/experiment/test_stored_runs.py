"""Runs that go on where they have no folder, or one that knows nothing of what others wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from det_compat.experiment.checkpoints import checkpoints_of
from det_compat.experiment.errors import FitError
from det_compat.experiment.request import Request
from det_compat.experiment.run_folder import RunFolder
from det_compat.experiment.run_start import RunStart, begin
from det_compat.experiment.run_state import state_noted
from tests.config.samples import parsed


class Machine:
    """A machine with a disk of its own, and a storage that it shares with others."""

    def __init__(self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        storage = {"type": "shared_fs", "host_path": str(tmp_path / "storage")}
        self.config: Any = parsed(name="x", checkpoint_storage=storage)
        self._folder = tmp_path / name
        self._folder.mkdir()
        self._monkeypatch = monkeypatch

    def begin(self, run_dir: str | None = None, *, resume: bool = False) -> RunStart:
        self._monkeypatch.chdir(self._folder)
        path = None if run_dir is None else Path(run_dir)
        return begin(Request("fit", "c.yaml", Path(), path, resume=resume, options=()), self.config)

    def save(self, folder: RunFolder, steps: int) -> str:
        checkpoints = checkpoints_of(self.config.checkpoint_storage, folder)
        with checkpoints.store_path({"steps_completed": steps}) as (_, name):
            return name

    def folders(self) -> list[str]:
        return sorted(path.name for path in (self._folder / "runs" / "x").glob("*"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, "here", monkeypatch)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, "there", monkeypatch)


@pytest.mark.parametrize("run_dir", [None, "big"])
def test_a_run_goes_on_where_it_has_no_folder(
    here: Machine, there: Machine, run_dir: str | None
) -> None:
    first = here.begin(run_dir)
    here.save(first.folder, 5)
    latest = here.save(first.folder, 10)
    again = there.begin(run_dir, resume=True)
    assert (again.latest_checkpoint, again.steps_completed, again.resumes) == (latest, 10, True)
    assert again.seed == first.seed
    assert again.folder.about()["id"] == first.folder.about()["id"]


def test_a_folder_takes_in_what_was_written_from_elsewhere(here: Machine, there: Machine) -> None:
    first = here.begin()
    here.save(first.folder, 5)
    latest = there.save(there.begin(resume=True).folder, 10)
    assert here.begin(resume=True).latest_checkpoint == latest


def test_of_several_runs_none_is_taken(here: Machine, there: Machine) -> None:
    for _ in range(2):
        here.save(here.begin().folder, 5)
    with pytest.raises(
        FitError, match=r"(?s)2 runs of this name.*001: after batch 5.*--run_dir NAME"
    ):
        there.begin(resume=True)
    assert there.folders() == []
    assert there.begin("002", resume=True).steps_completed == 5


def test_another_experiment_is_not_gone_on_with(here: Machine, there: Machine) -> None:
    here.save(here.begin().folder, 5)
    there.config = parsed(name="y", checkpoint_storage=there.config.raw["checkpoint_storage"])
    with pytest.raises(FitError, match="nothing to resume"):
        there.begin(resume=True)


class TestLaunches:
    @pytest.fixture(autouse=True)
    def job(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_JOB_ID"):
            monkeypatch.setenv(name, "1")

    def test_a_job_that_runs_again_goes_on_by_itself(
        self, here: Machine, there: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = here.begin()
        latest = here.save(first.folder, 5)
        monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
        assert here.begin().latest_checkpoint == there.begin().latest_checkpoint == latest
        assert here.folders() == there.folders() == ["001"]

    def test_another_job_begins_a_run_of_its_own(
        self, here: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        here.save(here.begin().folder, 5)
        monkeypatch.setenv("SLURM_JOB_ID", "2")
        monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
        assert here.begin().latest_checkpoint is None
        assert "restart 1: no run of this launch is found here" in capsys.readouterr().err

    def test_a_job_may_train_one_run_after_the_other(self, here: Machine) -> None:
        with state_noted(here.begin().folder.path):
            pass
        assert here.begin().folder.path.name == "002"

"""A trial on a machine that does not see the search's folder, with the keeper in this process."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from det_compat.config.experiment import parse_config
from det_compat.experiment.run_folder import RunFolder
from det_compat.search.errors import SearchError
from det_compat.search.records import NONCE, Report, SearchFolder, Status
from det_compat.search.searchers.plan import plan_search
from det_compat.search.tune.attempt import TrialTask

pytest.importorskip("ray", reason="needs det-compat[search]")

from det_compat.search.scratch import Scratch
from det_compat.search.tune import mirror as mirror_module
from det_compat.search.tune.mirror import Keeper, Mirror

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


class Handle:
    """Calls a keeper at once, as if it were an actor."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=getattr(self._keeper, name))


_SCRATCH: list[Scratch] = []


def new_scratch() -> Scratch:
    _SCRATCH.append(Scratch())
    return _SCRATCH[-1]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while _SCRATCH:
        _SCRATCH.pop().close()


def keeper_of(folder: SearchFolder) -> Keeper:
    return Keeper(folder, b"")


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SearchFolder:
    """The folder on the search's machine, with a trial in it."""
    machine = SimpleNamespace(get_node_id=lambda: "one")
    monkeypatch.setattr(mirror_module.ray, "get", lambda value: value)
    monkeypatch.setattr(mirror_module, "lost_machines", set)
    monkeypatch.setattr(mirror_module.ray, "get_runtime_context", lambda: machine)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    folder = SearchFolder(tmp_path / "ours")
    folder.begin({"seed": 1, "config": "", "file": None}, {"name": "x"})
    (folder.path / NONCE).write_text("a nonce")
    folder.trial(0).begin(0, 0, {"lr": 0.5})
    return folder


def task(folder: SearchFolder, storage: dict[str, Any] | None) -> TrialTask:
    config: dict[str, Any] = {
        "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 4}},
        "hyperparameters": {"lr": 0.5},
    }
    if storage:
        config["checkpoint_storage"] = storage
    return TrialTask(plan_search(parse_config(config), 0), config, folder, Path("/project"), "a:b")


@pytest.fixture
def elsewhere(ours: SearchFolder, tmp_path: Path) -> Iterator[Callable[..., Mirror]]:
    """Makes what an actor has on a machine where the same path leads to nothing."""
    made = []

    def make(keeper: Keeper | None = None) -> Mirror:
        storage = {"type": "shared_fs", "host_path": str(tmp_path / "store")}
        theirs = SearchFolder(tmp_path / "theirs")
        given = Handle(keeper or keeper_of(ours))
        made.append(Mirror(task(theirs, storage), given, new_scratch(), 0))
        return made[-1]

    yield make
    for mirror in made:
        mirror.close()


def test_what_a_trial_writes_comes_back(
    ours: SearchFolder, elsewhere: Callable[..., Mirror]
) -> None:
    there = elsewhere()
    there.pull(0)
    record, own = there.task.folder.trial(0), ours.trial(0)
    assert record.folder != own.folder
    assert record.about()["hparams"] == {"lr": 0.5}
    record.append(Report(2, 1, 0.25, {}, "s3://bucket/one"))
    (record.folder / "checkpoints").mkdir()
    (record.folder / "checkpoints" / "weights").write_text("heavy")
    there.push()
    assert [report.batches for report in own.reports()] == [2]
    assert not (own.folder / "checkpoints").exists()
    # Another machine goes on where this one was lost.
    other = elsewhere()
    other.pull(0)
    assert [report.checkpoint for report in other.task.folder.trial(0).reports()] == [
        "s3://bucket/one"
    ]
    other.task.folder.trial(0).finish(Status.COMPLETED)
    other.push()
    assert own.status is Status.COMPLETED
    scratch = other.task.folder.path
    assert tempfile.mkdtemp().startswith(str(scratch))
    other.close()
    assert not scratch.exists()


def test_word_of_a_checkpoint_that_is_begun(
    ours: SearchFolder, elsewhere: Callable[..., Mirror]
) -> None:
    there = elsewhere()
    there.pull(0)
    RunFolder(there.task.folder.trial(0).folder).begin_checkpoint("one")
    kept, until = RunFolder(ours.trial(0).folder), time.monotonic() + 3
    while not kept.begun_checkpoints() and time.monotonic() < until:
        time.sleep(0.05)
    assert kept.begun_checkpoints() == ["one"]


def test_two_processes_write_to_one_trial(
    ours: SearchFolder, elsewhere: Callable[..., Mirror]
) -> None:
    own = ours.trial(0)
    own.note_error("of an earlier start")
    (own.folder / "log.txt").write_text("before\n")
    keeper = keeper_of(ours)
    first, second = (elsewhere(keeper) for _ in range(2))
    assert keeper.begin(0, "here") == 1
    for there in (first, second):
        there.pull(0, 1)
        there.task.folder.trial(0).start_again()
    with (own.folder / "log.txt").open("a") as log:
        log.write("here\n")
    with (first.task.folder.trial(0).folder / "log.txt").open("a") as log:
        log.write("there\n")
    for number, there in enumerate((second, first)):
        there.task.folder.trial(0).note_error(f"error {number}")
        there.push()
    assert (own.folder / "log.txt").read_text() == "before\nhere\nthere\n"
    assert own.last_error() == "error 1"
    first.push()
    assert (own.folder / "log.txt").read_text() == "before\nhere\nthere\n"


def test_a_trial_that_begins_while_another_one_is_handed_back(
    ours: SearchFolder, elsewhere: Callable[..., Mirror]
) -> None:
    keeper = keeper_of(ours)
    there = elsewhere(keeper)
    there.pull(0)
    ours.trial(1).begin(1, 0, {"lr": 0.25})

    def pull(index: int) -> dict[str, bytes]:
        # This takes as long as the keeper's machine stands still.
        pusher.start()
        time.sleep(0.2)
        return Keeper.pull(keeper, index)

    pusher = threading.Thread(target=there.push)
    keeper.pull = pull  # type: ignore[method-assign]
    there.task.folder.trial(0).finish(Status.COMPLETED)
    (there.task.folder.trial(0).folder / "log.txt").write_text("of the one before, and longer\n")
    there.pull(1)
    pusher.join()
    (there.task.folder.trial(1).folder / "log.txt").write_text("its own\n")
    there.push()
    assert (ours.trial(1).folder / "log.txt").read_text() == "its own\n"


def test_a_file_that_goes_while_it_is_handed_back(
    ours: SearchFolder, elsewhere: Callable[..., Mirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, read = keeper_of(ours), Path.read_bytes
    there = elsewhere(keeper)
    there.pull(0)

    def vanish(file: Path) -> bytes:
        if file.name == "temporary":
            file.unlink()
        return read(file)

    monkeypatch.setattr(Path, "read_bytes", vanish)
    own = there.task.folder.trial(0)
    for record in (own, ours.trial(0)):
        (record.folder / "temporary").touch()
    own.append(Report(2, 1, 0.25, {}))
    there.push()
    assert [report.batches for report in ours.trial(0).reports()] == [2]
    assert "temporary" not in keeper.pull(0)


def test_machines_of_a_trial(ours: SearchFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = keeper_of(ours)
    here = Mirror(task(ours, None), Handle(keeper), new_scratch(), 0)
    assert keeper.leave(0) == []
    here.pull(1)
    here.pull(1, 1)
    keeper.meet(1, 0, "one of an earlier start")
    assert keeper.are_anywhere([0, 1]) and not keeper.are_anywhere([0])
    assert keeper.leave(1) == ["one", "one"]
    assert not keeper.are_anywhere([0, 1])
    assert keeper.leave(1) == []
    monkeypatch.setattr(mirror_module, "lost_machines", lambda: {"one"})
    with pytest.raises(SearchError, match="starts on another machine"):
        here.pull(0)


def test_a_machine_that_was_taken_for_lost(
    ours: SearchFolder, elsewhere: Callable[..., Mirror]
) -> None:
    keeper = keeper_of(ours)
    there, again = (elsewhere(keeper) for _ in range(2))
    there.pull(0)
    again.pull(0)
    for number, mirror in enumerate((again, there)):
        mirror.task.folder.trial(0).append(Report(number, 0, 0.5, {}))
    again.push()
    with pytest.raises(SearchError, match="trial 0 has started again on another machine"):
        there.push()
    assert [report.batches for report in ours.trial(0).reports()] == [0]


def test_how_it_ended_is_noted_once(ours: SearchFolder, elsewhere: Callable[..., Mirror]) -> None:
    there = elsewhere()
    there.pull(0)
    ours.trial(0).finish(Status.STOPPED)
    there.task.folder.trial(0).finish(Status.ERROR, "it was stopped")
    there.push()
    assert ours.trial(0).status is Status.STOPPED


def test_on_the_same_disk_nothing_travels(ours: SearchFolder, tmp_path: Path) -> None:
    here = Mirror(task(ours, None), Handle(keeper_of(ours)), new_scratch(), 0)
    here.pull(0)
    assert here.task.folder is ours
    here.push()
    here.close()
    assert ours.exists


def test_checkpoints_must_outlive_the_machine(ours: SearchFolder, tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="checkpoint_storage is not one that all machines see"):
        Mirror(
            task(SearchFolder(tmp_path / "theirs"), None), Handle(keeper_of(ours)), new_scratch(), 0
        )
    assert "set it to s3" in ours.trial(0).last_error()

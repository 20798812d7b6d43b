from __future__ import annotations

from pathlib import Path

import pytest

from det_compat import core
from det_compat.core import DummyPreemptContext, PreemptContext, TrialCore


def test_defaults_are_those_of_one_process() -> None:
    context = core.TrialCore()
    assert isinstance(context.distributed, core.DummyDistributedContext)
    assert isinstance(context.checkpoint, core.CheckpointStore)
    assert isinstance(context.preempt, core.PreemptContext)
    assert isinstance(context.train, core.TrainContext)


def test_parts_are_kept(tmp_path: Path) -> None:
    parts = {
        "checkpoint": core.CheckpointStore(tmp_path),
        "distributed": core.DummyDistributedContext(),
        "preempt": core.DummyPreemptContext(core.DummyDistributedContext()).start(),
        "train": core.TrainContext(tmp_path),
    }
    context = core.TrialCore(**parts)
    assert vars(context) == parts


def test_tensorboard_files_go_where_it_is_told(tmp_path: Path) -> None:
    context = core.TrialCore(tensorboard_path=tmp_path / "tb")
    assert context.train.get_tensorboard_path() == tmp_path / "tb"


def test_making_one_creates_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    core.TrialCore()
    assert list(tmp_path.iterdir()) == []


def test_has_the_parts_of_determineds() -> None:
    reference = pytest.importorskip("determined.core")._dummy_init()
    context = core.TrialCore()
    for part in ("checkpoint", "distributed", "preempt", "train"):
        assert hasattr(reference, part) and hasattr(context, part)


def test_nobody_takes_the_machine_away() -> None:
    preempt = DummyPreemptContext(core.DummyDistributedContext()).start()
    assert preempt.should_preempt() is False
    preempt.acknowledge_preemption_signal()
    assert preempt.should_preempt(auto_ack=False) is False


def test_a_context_has_one() -> None:
    assert isinstance(TrialCore().preempt, PreemptContext)

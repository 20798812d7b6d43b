from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat.core.reports.event_files import summary_writer
from det_compat.pytorch import init
from det_compat.tensorboard.metric_writers.pytorch import TorchWriter
from tests.pytorch.libraries import Library


def scalars(path: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows of a directory."""
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = module.EventAccumulator(str(path)).Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


@pytest.fixture
def without_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def hidden(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "tensorboard" or name == "torch.utils.tensorboard":
            raise ModuleNotFoundError("No module named 'tensorboard'", name="tensorboard")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", hidden)


def test_the_writer_writes_into_the_runs_directory() -> None:
    pytest.importorskip("tensorboard")
    with init() as context:
        writer = context.get_tensorboard_writer()
        assert isinstance(writer, torch.utils.tensorboard.SummaryWriter)
        assert context.get_tensorboard_writer() is writer
        writer.add_scalar("loss", 0.5, 7)
        writer.close()
        assert scalars(context.get_tensorboard_path()) == {"loss": [(7, 0.5)]}


def test_the_path_is_a_path(lib: Library) -> None:
    with lib.init() as context:
        assert isinstance(context.get_tensorboard_path(), (Path, type(None)))
    if lib.name == "det_compat":
        assert context.get_tensorboard_path().parts[0] == "runs"


def test_nothing_is_created_until_something_is_written(tmp_path: Path) -> None:
    with init() as context:
        assert not context.get_tensorboard_path().exists()
    assert not (tmp_path / "runs").exists()


def test_torch_writer_writes_into_the_same_directory() -> None:
    pytest.importorskip("tensorboard")
    with init() as context:
        with pytest.warns(FutureWarning, match="get_tensorboard_writer"):
            writer = TorchWriter()
        writer.add_scalar("loss", 0.25, 3)
        writer.flush()
        writer.writer.add_scalar("more", 1.0, 4)
        writer.reset()
        assert scalars(context.get_tensorboard_path()) == {
            "loss": [(3, 0.25)],
            "more": [(4, 1.0)],
        }


def test_without_tensorboard_it_says_what_to_install(
    without_tensorboard: None, tmp_path: Path
) -> None:
    install = r"pip install .*\[tensorboard\]"
    with pytest.raises(ImportError, match=install):
        summary_writer(tmp_path)
    with init() as context, pytest.raises(ImportError, match=install):
        context.get_tensorboard_writer()
    with pytest.warns(FutureWarning), pytest.raises(ImportError, match=install):
        TorchWriter()


def test_logging_to_tensorboard_can_be_switched(lib: Library) -> None:
    with lib.init() as context:
        assert context.get_enable_tensorboard_logging() is True
        context.set_enable_tensorboard_logging(False)
        assert context.get_enable_tensorboard_logging() is False
    with lib.init(enable_tensorboard_logging=False) as context:
        assert context.get_enable_tensorboard_logging() is False
        with pytest.raises(AssertionError, match="enable_tensorboard_logging must be a bool"):
            context.set_enable_tensorboard_logging(1)


def test_the_profiler_writes_into_the_runs_directory() -> None:
    with init() as context:
        assert context.profiler is None
        context.set_profiler(activities=[torch.profiler.ProfilerActivity.CPU])
        with context.profiler:
            torch.ones(2).sum()
        assert len(list(context.get_tensorboard_path().rglob("*.pt.trace.json"))) == 1


def test_where_traces_go_is_not_the_trials_business(lib: Library) -> None:
    with lib.init() as context, pytest.raises(TypeError, match="on_trace_ready"):
        context.set_profiler(on_trace_ready=print)

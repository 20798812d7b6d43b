from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from det_compat.core.train import tensorboard_path_is
from det_compat.tensorboard.metric_writers.pytorch import TorchWriter


@pytest.fixture
def torch_writer(tmp_path: Path) -> Any:
    pytest.importorskip("tensorboard")
    with tensorboard_path_is(tmp_path / "run"), pytest.warns(FutureWarning) as warned:
        writer = TorchWriter()
    assert warned[0].filename == __file__
    assert "context.get_tensorboard_writer()" in str(warned[0].message)
    return writer


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder)).Reload()
    tags = found.Tags()["scalars"]
    # Files of one second are read in any order.
    return {tag: sorted((event.step, event.value) for event in found.Scalars(tag)) for tag in tags}


def test_it_writes_into_the_directory_of_the_run(torch_writer: Any, tmp_path: Path) -> None:
    assert Path(torch_writer.writer.log_dir) == tmp_path / "run"
    torch_writer.add_scalar("loss", 0.5, 3)
    torch_writer.writer.add_scalar("accuracy", 1, 4)
    torch_writer.flush()
    assert scalars(tmp_path / "run") == {"loss": [(3, 0.5)], "accuracy": [(4, 1.0)]}


def test_after_a_reset_it_goes_on_in_another_file(torch_writer: Any, tmp_path: Path) -> None:
    torch_writer.add_scalar("loss", 0.5, 3)
    torch_writer.reset()
    torch_writer.add_scalar("loss", 0.25, 4)
    torch_writer.reset()
    assert scalars(tmp_path / "run") == {"loss": [(3, 0.5), (4, 0.25)]}


def test_without_a_run_it_writes_below_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    with pytest.warns(FutureWarning):
        writer = TorchWriter()
    writer.reset()
    (folder,) = (tmp_path / "runs").iterdir()
    assert Path(writer.writer.log_dir).resolve() == folder


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules, "tensorboard"]:
        if name.split(".")[0] == "tensorboard" or name.startswith("torch.utils.tensorboard"):
            monkeypatch.setitem(sys.modules, name, None)
    with (
        pytest.warns(FutureWarning),
        pytest.raises(ImportError, match=r"pip install .*\[tensorboard\]"),
    ):
        TorchWriter()

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path
from typing import Any

import fsspec
import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from det_compat import pytorch
from det_compat.adapters import TrialModule, to_lightning
from det_compat.adapters.checkpoints.checkpoint_io import DeterminedCheckpointIO
from det_compat.adapters.checkpoints.convert import convert
from det_compat.errors import (
    CorruptCheckpointError,
    InvalidCheckpointException,
    UnsafeCheckpointError,
)
from tests.checkpoint.makers import Evil, of_0_12, of_0_38, save, state
from tests.preloaded import python


class Small(pytorch.PyTorchTrial):
    """Fits the checkpoints of the makers."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.model = context.wrap_model(nn.Linear(1, 1, bias=False))
        self.opt = context.wrap_optimizer(
            torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        )
        step = pytorch.LRScheduler.StepMode.MANUAL_STEP
        context.wrap_lr_scheduler(torch.optim.lr_scheduler.StepLR(self.opt, 1), step)

    def build_training_data_loader(self) -> Any:
        return pytorch.DataLoader(torch.ones(8, 1), batch_size=2)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        loss = self.model(batch).pow(2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> Any:
        return {"value": self.model(batch).mean()}


def trainer(io: Any, **kwargs: Any) -> pl.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return pl.Trainer(accelerator="cpu", devices=1, plugins=[io], **quiet, **kwargs)


@pytest.fixture
def memory() -> str:
    return f"memory://{uuid.uuid4().hex}"


def upload(folder: Path, url: str) -> str:
    filesystem, name = fsspec.core.url_to_fs(url)
    filesystem.put(str(folder) + "/", name, recursive=True)
    return url


# Loading


@pytest.mark.parametrize("make", [of_0_12, of_0_38])
@pytest.mark.parametrize("how", ["directory", "converted", "memory"])
def test_training_goes_on_from_a_checkpoint_of_determined(
    tmp_path: Path, memory: str, make: Any, how: str
) -> None:
    path = str(make(tmp_path / "a"))
    if how == "converted":
        convert(Path(path), tmp_path / "x.ckpt")
        path = str(tmp_path / "x.ckpt")
    elif how == "memory":
        path = upload(Path(path), memory)
    seen: dict[str, Any] = {}

    class Look(pl.Callback):
        def on_train_batch_start(self, _: Any, module: Any, *args: Any) -> None:
            seen.setdefault("weight", module.trial.model.weight.item())
            seen.setdefault("lr", module.trial.opt.param_groups[0]["lr"])
            seen.setdefault("batches", module.run.state.batches_trained)

    fit = trainer(DeterminedCheckpointIO(), max_epochs=3, callbacks=[Look()])
    fit.fit(to_lightning(Small)(hparams={}), ckpt_path=path)
    assert seen == {"weight": 2.0, "lr": 0.5, "batches": 0 if make is of_0_12 else 7}


def test_a_converted_file_gives_the_module(tmp_path: Path) -> None:
    convert(of_0_38(tmp_path / "a"), tmp_path / "x.ckpt")
    for module in (
        TrialModule.load_from_checkpoint(tmp_path / "x.ckpt", trial_cls=Small),
        to_lightning(Small).load_from_checkpoint(tmp_path / "x.ckpt"),
    ):
        assert module.trial.model.weight.item() == 2
        assert module.context.get_hparams() == {"lr": 0.5}


@pytest.mark.parametrize("prefixes", [("module.", ""), ("", ""), ("module.", "module.")])
def test_names_of_distributed_models(tmp_path: Path, prefixes: tuple[str, str]) -> None:
    saved, own = prefixes

    class Wrapped(Small):
        def __init__(self, context: Any) -> None:
            net = nn.Linear(1, 1, bias=False)
            self.context = context
            self.model = context.wrap_model(nn.ModuleDict({"module": net}) if own else net)
            self.opt = context.wrap_optimizer(torch.optim.SGD(net.parameters(), lr=0.1))

    content = state(models_state_dict=[{f"{saved}weight": torch.full((1, 1), 5.0)}])
    loaded = DeterminedCheckpointIO().load_checkpoint(of_0_38(tmp_path, content))
    module = to_lightning(Wrapped)(hparams={})
    module.load_state_dict(loaded["state_dict"])
    assert next(module.parameters()).item() == 5


def test_a_file_of_lightning(tmp_path: Path, memory: str) -> None:
    io = DeterminedCheckpointIO()
    for path in (str(tmp_path / "x.ckpt"), f"{memory}/x.ckpt"):
        io.save_checkpoint({"state_dict": {"w": torch.ones(1)}}, path)
        assert io.load_checkpoint(path)["state_dict"]["w"].item() == 1
        assert io.load_checkpoint(Path(path) if path[0] == "/" else path, map_location="meta")
        io.remove_checkpoint(path)
        with pytest.raises(FileNotFoundError, match="nothing is there"):
            io.load_checkpoint(path)


def test_corrupt_files_are_told_from_missing_ones(tmp_path: Path, memory: str) -> None:
    io = DeterminedCheckpointIO()
    (tmp_path / "x.ckpt").write_bytes(b"PK\x03\x04")
    with pytest.raises(CorruptCheckpointError, match=r"x\.ckpt is corrupt"):
        io.load_checkpoint(tmp_path / "x.ckpt")
    with fsspec.open(f"{memory}/x.ckpt", "wb") as file:
        file.write(b"PK\x03\x04")
    with pytest.raises(CorruptCheckpointError, match=r"memory://.*x\.ckpt is corrupt"):
        io.load_checkpoint(f"{memory}/x.ckpt")
    with pytest.raises(InvalidCheckpointException, match="expected one of"):
        (tmp_path / "empty").mkdir()
        io.load_checkpoint(tmp_path / "empty")
    with pytest.raises(InvalidCheckpointException, match="give the directory"):
        io.load_checkpoint(save({"models_state_dict": []}, tmp_path / "state_dict.pth"))


@pytest.mark.parametrize("where", ["file", "directory", "memory file", "memory directory"])
def test_code_is_run_only_for_those_who_trust_it(tmp_path: Path, memory: str, where: str) -> None:
    made = tmp_path / "made"
    if "file" in where:
        folder = tmp_path / "a"
        save({"state_dict": {}, "x": Evil(made)}, folder / "x.ckpt")
        path = str(folder / "x.ckpt")
    else:
        folder = of_0_38(tmp_path / "a", state(callbacks={"c": Evil(made)}))
        path = str(folder)
    if "memory" in where:
        path = upload(folder, memory) + ("/x.ckpt" if "file" in where else "")
    with pytest.raises(UnsafeCheckpointError, match=r"posix\.mkdir.*trust=True"):
        DeterminedCheckpointIO().load_checkpoint(path)
    assert not made.exists()
    DeterminedCheckpointIO(trust=True).load_checkpoint(path)
    made.rmdir()
    DeterminedCheckpointIO().load_checkpoint(path, weights_only=False)
    assert made.exists()


# Saving


FULL = """
import os, resource, signal, torch
from det_compat.adapters.checkpoints.checkpoint_io import DeterminedCheckpointIO
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
io = DeterminedCheckpointIO()
io.save_checkpoint({"state_dict": {"w": torch.ones(1)}}, "x.ckpt")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    io.save_checkpoint({"state_dict": {"w": torch.ones(100_000)}}, "x.ckpt")
except OSError as error:
    print(error.filename, io.load_checkpoint("x.ckpt"), os.listdir("."))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit of file sizes here")
def test_a_full_disk_keeps_the_checkpoint_before(tmp_path: Path) -> None:
    done = python("-c", FULL, cwd=tmp_path)
    expected = "x.ckpt {'state_dict': {'w': tensor([1.])}} ['x.ckpt']"
    assert done.stdout.strip().endswith(expected), done.stderr


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file/x"):
        DeterminedCheckpointIO().save_checkpoint({}, tmp_path / "file" / "x.ckpt")
    assert os.listdir(tmp_path) == ["file"]


def test_storage_options_are_refused_as_lightning_does(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="storage_options"):
        DeterminedCheckpointIO().save_checkpoint({}, tmp_path / "x", storage_options={})

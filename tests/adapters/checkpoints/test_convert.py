from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from det_compat import pytorch
from det_compat.adapters.checkpoints import convert as module
from det_compat.adapters.checkpoints.convert import convert, for_module
from det_compat.checkpoint import read_checkpoint
from det_compat.cli import main
from det_compat.errors import InvalidCheckpointException, UnsafeCheckpointError
from det_compat.migrate.migration import migrate
from det_compat.shared.importing import load_file
from tests.checkpoint.makers import REAL, VERSIONS, Evil, of_0_12, of_0_38, save, state


def test_the_file_loads_anywhere(tmp_path: Path) -> None:
    for make in (of_0_12, of_0_38):
        source, target = make(tmp_path / make.__name__), tmp_path / make.__name__ / "out.ckpt"
        convert(source, target)
        assert torch.load(target, weights_only=True)["state_dict"]["models.0.weight"].item() == 2
        assert b"s3cr3t" not in target.read_bytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_real_ones(tmp_path: Path, version: str) -> None:
    if not (REAL / version).is_dir():
        pytest.skip(f"no {REAL / version}")
    convert(REAL / version, tmp_path / "out.ckpt")
    found = torch.load(tmp_path / "out.ckpt", weights_only=True)
    assert found["state_dict"]["models.0.weight"].shape == (1, 1)
    assert found["hyper_parameters"]["trial_cls"] == "model_def.OneVarPytorchTrial"


def test_it_does_not_overwrite_unasked(tmp_path: Path) -> None:
    source, target = of_0_38(tmp_path / "a"), tmp_path / "out.ckpt"
    target.write_text("before")
    with pytest.raises(FileExistsError, match="--force") as caught:
        convert(source, target)
    assert caught.value.filename == str(target) and target.read_text() == "before"
    convert(source, target, force=True)
    assert "state_dict" in torch.load(target, weights_only=True)


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = of_0_38(tmp_path / "a"), tmp_path / "out" / "x.ckpt"

    def fail(*_: object) -> None:
        raise RuntimeError("disk")

    monkeypatch.setattr(module.torch, "save", fail)
    with pytest.raises(RuntimeError, match="disk"):
        convert(source, target)
    assert os.listdir(target.parent) == []


def test_code_is_run_only_for_those_who_trust_it(tmp_path: Path) -> None:
    source, target = of_0_38(tmp_path / "a"), tmp_path / "out.ckpt"
    save(state(callbacks={"c": Evil(tmp_path / "made")}), source / "state_dict.pth")
    with pytest.raises(UnsafeCheckpointError, match="--trust"):
        convert(source, target)
    assert not target.exists() and not (tmp_path / "made").exists()
    convert(source, target, trust=True)
    assert torch.load(target, weights_only=True)["determined"]["callbacks"] == {"c": None}


TRIAL = """\
import torch
from det_compat.pytorch import DataLoader, LRScheduler, PyTorchTrial


class Pair(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        width = context.get_hparam("width")
        self.first = context.wrap_model(torch.nn.Linear(3, width))
        self.second = context.wrap_model(torch.nn.Linear(width, 3))
        self.loss = torch.nn.CrossEntropyLoss(weight=torch.ones(3))
        params = [*self.first.parameters(), *self.second.parameters()]
        self.adam = context.wrap_optimizer(torch.optim.Adam(params, lr=0.1))
        self.steps = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.ExponentialLR(self.adam, 0.9),
            LRScheduler.StepMode.STEP_EVERY_BATCH,
        )

    def loader(self):
        torch.manual_seed(0)
        rows = torch.utils.data.TensorDataset(torch.randn(12, 3), torch.arange(12) % 3)
        return DataLoader(rows, batch_size=self.context.get_per_slot_batch_size())

    build_training_data_loader = loader
    build_validation_data_loader = loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        loss = self.loss(self.second(self.first(x).relu()), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.adam)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        x, y = batch
        return {"error": self.loss(self.second(self.first(x).relu()), y)}
"""
HPARAMS = {"global_batch_size": 4, "width": 5}
HP = ["--hparams", json.dumps(HPARAMS)]


@pytest.fixture(scope="module", autouse=True)
def imports() -> Iterator[None]:
    """What tests import of their folders is gone afterwards."""
    path, modules = [*sys.path], {*sys.modules}
    yield
    sys.path[:] = path
    for name in ("pair_trial", "pair_module", "pair_other", "twins"):
        if name not in modules:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the trial, its migrated module, and a checkpoint after one epoch and after two."""
    found = tmp_path_factory.mktemp("pair")
    (found / "pair_trial.py").write_text(TRIAL)
    (result,) = migrate([str(found)], "lightning").files
    assert "det_compat" not in result.after.decode()
    (found / "pair_module.py").write_bytes(result.after)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(found)
        for epochs in (1, 2):
            patch.setenv("XDG_DATA_HOME", str(found / f"after{epochs}"))
            trained(found / "pair_trial.py", epochs)
    return found


def trained(file: Path, epochs: int) -> None:
    torch.manual_seed(1)
    with pytorch.init(hparams=HPARAMS, enable_tensorboard_logging=False) as context:
        trial = load_file(file).Pair(context)
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Epoch(epochs), checkpoint_policy="all")


def checkpoint_in(folder: Path, epochs: int) -> Path:
    (found,) = (folder / f"after{epochs}").glob("**/state_dict.pth")
    return found.parent


@pytest.fixture
def converted(folder: Path, tmp_path: Path, capsys: Any) -> Path:
    target = tmp_path / "one.ckpt"
    command = ["checkpoint", "convert", str(checkpoint_in(folder, 1)), str(target)]
    command += ["--for", f"{folder / 'pair_module.py'}:Pair", *HP]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{target}\n"
    return target


def test_the_module_loads_it(folder: Path, converted: Path) -> None:
    module = load_file(folder / "pair_module.py").Pair.load_from_checkpoint(converted)
    expected = read_checkpoint(checkpoint_in(folder, 1)).state["models_state_dict"]
    assert dict(module.hparams) == HPARAMS
    for found, saved in zip((module.first, module.second), expected, strict=True):
        assert all(torch.equal(found.state_dict()[name], saved[name]) for name in saved)
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
    assert trainer.validate(module, ckpt_path=str(converted), verbose=False)


def test_training_goes_on(folder: Path, converted: Path) -> None:
    module = load_file(folder / "pair_module.py").Pair(**HPARAMS)
    trainer = pl.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(module, ckpt_path=str(converted), weights_only=True)
    assert (trainer.current_epoch, trainer.global_step) == (2, 6)
    expected = read_checkpoint(checkpoint_in(folder, 2)).state["models_state_dict"]
    for found, saved in zip((module.first, module.second), expected, strict=True):
        assert all(torch.equal(found.state_dict()[name], saved[name]) for name in saved)


def test_a_module_with_other_tensors_is_told(folder: Path, tmp_path: Path, capsys: Any) -> None:
    text = (folder / "pair_module.py").read_text().replace("Linear(3, width)", "Linear(3, 9)")
    other = tmp_path / "pair_other.py"
    other.write_text(text.replace("Linear(width, 3)", "Linear(9, 3)"))
    source, target = str(checkpoint_in(folder, 1)), str(tmp_path / "x.ckpt")
    command = ["checkpoint", "convert", source, target, "--for", f"{other}:Pair"]
    assert main([*command, *HP]) == 1
    assert "Pair has no model with the 2 tensors of model 0" in capsys.readouterr().err
    assert main(command) == 1
    assert "Pair needs width, global_batch_size" in capsys.readouterr().err
    assert not Path(target).exists()


@pytest.mark.parametrize("name", ["pair_trial.py:Pair", "pair_module.py:Nothing", "missing.py:X"])
def test_what_is_no_module(folder: Path, tmp_path: Path, capsys: Any, name: str) -> None:
    source, target = str(checkpoint_in(folder, 1)), str(tmp_path / "x.ckpt")
    command = ["checkpoint", "convert", source, target, "--for", str(folder / name)]
    assert main(command) == 1
    assert capsys.readouterr().err.startswith("det-compat: ")


def test_equal_models_keep_their_order_and_steps_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "twins.py"
    file.write_text(
        "import torch, pytorch_lightning as pl\n"
        "class Twins(pl.LightningModule):\n"
        "    def __init__(self, *, accumulate_grad_batches: int = 3):\n"
        "        super().__init__()\n"
        "        self.automatic_optimization = False\n"
        "        self.a, self.b = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)\n"
        "        self.again = torch.nn.ModuleList([self.b])\n"
        "        self.target = torch.nn.Linear(7, 1)\n"
    )
    weights = {
        f"models.{index}.{name}": torch.full(shape, float(index))
        for index in range(2)
        for name, shape in (("weight", (1, 1)), ("bias", (1,)))
    }
    made = for_module(
        {
            "state_dict": weights,
            "optimizer_states": [{}, {}],
            "hyper_parameters": {"exp_conf": {"optimizations": {"aggregation_frequency": 4}}},
            "epoch": 1,
            "global_step": 9,
        },
        file,
        "Twins",
        [],
    )
    state = made["state_dict"].items()
    found = {name: value.item() for name, value in state if "target" not in name}
    assert [found[f"{name}.weight"] for name in ("a", "b", "again.0")] == [0.0, 1.0, 1.0]
    # No trial had wrapped it.
    assert "has no target.weight, target.bias (2 tensors)" in caplog.text
    loop = made["loops"]["fit_loop"]
    stepped = loop["epoch_loop.manual_optimization.optim_step_progress"]["total"]["completed"]
    batches = loop["epoch_loop.batch_progress"]["total"]["completed"]
    # two steps of four batches each, of two optimizers
    assert (made["global_step"], stepped, batches) == (4, 4, 9)
    bad = {name: value.repeat(2, 1) for name, value in weights.items() if "weight" in name}
    with pytest.raises(InvalidCheckpointException, match="model 0"):
        for_module(
            {"state_dict": bad, "hyper_parameters": {}, "epoch": 0, "global_step": 0},
            file,
            "Twins",
            [],
        )

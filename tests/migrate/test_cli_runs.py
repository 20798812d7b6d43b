"""Runs of LightningCLI, with the configs that are written for it, which go on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
import yaml
from pytorch_lightning.cli import LightningCLI

from det_compat.adapters.checkpoints.convert import for_module
from det_compat.cli import main
from det_compat.shared.importing import load_file

TRIAL = """\
import torch
from determined.pytorch import DataLoader, PyTorchTrial


def scale(*, gamma=1.0, **rest):
    return gamma + len(rest)


class {name}(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.scale = scale(**context.get_hparams())
        self.seen = [*context.get_hparams()]
        self.model = context.wrap_model(torch.nn.Linear(4, context.get_hparam("units")))
        sgd = torch.optim.SGD(self.model.parameters(), lr=context.get_hparam("lr"))
        self.opt = context.wrap_optimizer(sgd)

    def build_training_data_loader(self):
        return DataLoader(torch.ones(8, 4), batch_size=self.context.get_per_slot_batch_size())

    def build_validation_data_loader(self):
        return DataLoader(torch.ones(8, 4), batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch).pow(2).mean() * self.scale
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {{"loss": loss}}

    def evaluate_batch(self, batch):
        return {{"error": self.model(batch).pow(2).mean()}}
"""
HEIR = """

class {name}(Base):
    def __init__(self, context):
        super().__init__(context)
        self.seen = [*self.tell(), *context.get_hparams()][len(context.get_hparams()) :]
"""
TELLING = """
    def tell(self):
        return sorted(self.context.get_hparams())
"""
CONFIG = """\
entrypoint: {module}:{name}
hyperparameters: {{global_batch_size: 4, lr: 0.1, units: 3{more}}}
searcher: {{name: single, metric: error, max_length: {{epochs: 1}}}}
"""
MORE = ", gamma: 2.0, wd: null"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("of", ["one class", "a family"])
def test_it_goes_on_with_hyperparameters_that_have_no_name(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "Alone" if of == "one class" else "Heir"
    module = f"of_cli_{name.lower()}"
    family = TRIAL.format(name="Base") + TELLING + HEIR.format(name=name)
    text = TRIAL.format(name=name) if of == "one class" else family
    (tmp_path / f"{module}.py").write_text(text)
    # A null that not every config has can be no parameter.
    for config, more in (("a.yaml", MORE), ("b.yaml", "")):
        (tmp_path / config).write_text(CONFIG.format(module=module, name=name, more=more))
    monkeypatch.chdir(tmp_path)
    configs = ["--config", "a.yaml", "--config", "b.yaml"]
    assert main(["migrate", ".", "--to", "lightning", "--write", "--force", *configs]) == 0
    written = (tmp_path / "a.lightning.yaml").read_text()
    assert f"LightningCLI({name}, subclass_mode_model=True)" in written.splitlines()[0]
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")
    cls = getattr(load_file(tmp_path / f"{module}.py"), name)

    def run(command: str, *args: str) -> Any:
        flags = ["accelerator=cpu", "logger=false", "enable_progress_bar=false"]
        plain = [f"--trainer.{flag}" for flag in (*flags, "enable_model_summary=false")]
        given = [command, "--config", "a.lightning.yaml", *plain, *args]
        cli = LightningCLI(cls, subclass_mode_model=True, save_config_callback=None, args=given)
        assert sorted({*cli.model.seen}) == ["gamma", "global_batch_size", "lr", "units", "wd"]
        assert cli.model.scale == 2.0 + 4
        return cli.trainer

    try:
        run("fit")
        assert len([*tmp_path.glob("**/best-*.ckpt")]) == 1
        (path,) = tmp_path.glob("**/epoch=*.ckpt")
        again = run("fit", "--ckpt_path", str(path), "--trainer.max_epochs=2")
        assert (again.current_epoch, again.global_step) == (2, 4)
        run("validate", "--ckpt_path", str(path))
        assert cls.load_from_checkpoint(path, weights_only=False).scale == 2.0 + 4
        path = converted(tmp_path, tmp_path / f"{module}.py", cls)
        run("validate", "--ckpt_path", str(path))
        assert cls.load_from_checkpoint(path).scale == 2.0 + 4
    finally:
        sys.modules.pop(module, None)


def converted(folder: Path, file: Path, cls: type) -> Path:
    """A checkpoint of Determined's with all hyperparameters, for a module."""
    config = yaml.safe_load(CONFIG.format(module="m", name="M", more=MORE))
    checkpoint = {
        "state_dict": {"models.0.weight": torch.ones(3, 4), "models.0.bias": torch.ones(3)},
        "hyper_parameters": {"hparams": config["hyperparameters"]},
        "pytorch-lightning_version": pl.__version__,
        "epoch": 1,
        "global_step": 2,
    }
    path = folder / "converted.ckpt"
    torch.save(for_module(checkpoint, file, cls.__name__, []), path)
    return path

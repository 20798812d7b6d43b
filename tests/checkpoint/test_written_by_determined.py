"""Checkpoints that the real determined 0.38.1 writes, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from det_compat.adapters.checkpoints.convert import convert
from det_compat.checkpoint import read_checkpoint
from det_compat.checkpoint.export import export
from det_compat.checkpoint.show import describe
from det_compat.pytorch import load_trial_from_checkpoint_path
from det_compat.shared.plain_types import from_plain
from tests.preloaded import executable

pytest.importorskip("determined")

MODEL_DEF = """
import numpy as np
import torch
from determined import pytorch


class Best(pytorch.PyTorchCallback):
    def state_dict(self):
        return {"best": np.float64(0.25), "seen": np.arange(3)}

    def load_state_dict(self, state):
        pass

    def on_checkpoint_save_start(self, checkpoint):
        checkpoint["mine"] = [1, 2]


class Two(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(
            torch.nn.Sequential(torch.nn.Linear(1, 3), torch.nn.BatchNorm1d(3))
        )
        self.other = context.wrap_model(torch.nn.Linear(3, 1))
        parameters = [*self.model.parameters(), *self.other.parameters()]
        self.opt = context.wrap_optimizer(torch.optim.Adam(parameters, lr=context.get_hparam("lr")))
        self.schedule = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.OneCycleLR(self.opt, max_lr=0.5, total_steps=100),
            pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH,
        )

    def build_training_data_loader(self):
        return pytorch.DataLoader(torch.arange(8.0).reshape(8, 1), batch_size=2, shuffle=True)

    build_validation_data_loader = build_training_data_loader

    def build_callbacks(self):
        return {"best": Best()}

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.other(self.model(batch)).pow(2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"value": self.other(self.model(batch)).mean()}
"""
SCRIPT = """
import json
import torch
from determined import pytorch
from model_def import Two

with pytorch.init(hparams={"lr": 0.125}, exp_conf={"name": "n", "password": "s3cr3t"}) as context:
    trial = Two(context)
    pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(6))
    print(json.dumps([p.tolist() for m in context.models for p in m.parameters()]))
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """The checkpoint of a run of six batches, and the parameters at its end."""
    home = tmp_path_factory.mktemp("home")
    cwd = home / "cwd"
    cwd.mkdir()
    (cwd / "model_def.py").write_text(MODEL_DEF)
    (cwd / "script.py").write_text(SCRIPT)
    env = {**os.environ, "XDG_DATA_HOME": str(home), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [executable("determined"), "script.py"],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (file,) = home.glob("**/trial_state.pkl")
    return file.parent, json.loads(done.stdout.splitlines()[-1])


def test_it_is_read(written: tuple[Path, list[Any]]) -> None:
    found = read_checkpoint(written[0])
    assert found.determined_version == "0.38.1" and found.trial_cls_spec == "model_def:Two"
    assert found.counters["batches_trained"] == found.counters["last_ckpt"] == 6
    assert found.counters["epochs_trained"] == 1 and found.hparams == {"lr": 0.125}
    assert found.state["callbacks"]["best"]["best"] == 0.25 and found.state["mine"] == [1, 2]
    assert found.state["lr_schedulers_state_dict"][0]["last_epoch"] == 6
    np.random.set_state(found.state["rng_state"]["np_rng_state"])


def test_its_trial_is_loaded(written: tuple[Path, list[Any]]) -> None:
    module: Any = ModuleType("model_def")
    exec(MODEL_DEF.replace("from determined", "from det_compat"), vars(module))
    trial: Any = load_trial_from_checkpoint_path(str(written[0]), module.Two)
    found = [p.tolist() for m in trial.context.models for p in m.parameters()]
    assert found == written[1]


def test_it_is_shown_converted_and_exported(
    written: tuple[Path, list[Any]], tmp_path: Path
) -> None:
    source, parameters = written
    shown = describe(source)
    assert shown["safe"] and shown["callbacks"] == ["best"] and shown["batches_trained"] == 6
    assert shown["models"] == [
        {"parameters": 12, "tensors": 7},
        {"parameters": 4, "tensors": 2},
    ]
    convert(source, tmp_path / "x.ckpt")
    found = torch.load(tmp_path / "x.ckpt", weights_only=True)
    assert b"s3cr3t" not in (tmp_path / "x.ckpt").read_bytes()
    seen = from_plain(found["determined"]["callbacks"])["best"]["seen"]
    assert np.array_equal(seen, np.arange(3))
    first, second = export(source, tmp_path / "w.safetensors")
    assert load_file(first)["0.weight"].tolist() == parameters[0]
    assert load_file(second)["bias"].tolist() == parameters[-1]

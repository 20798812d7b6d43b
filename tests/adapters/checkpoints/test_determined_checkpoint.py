from __future__ import annotations

import json
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat.adapters.checkpoints.continuation import continuation
from det_compat.adapters.checkpoints.determined_checkpoint import write_checkpoint
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.checkpoint.lightning import to_lightning_checkpoint
from det_compat.checkpoint.reader import read_checkpoint
from det_compat.errors import UnsafeCheckpointError
from det_compat.pytorch import load_trial_from_checkpoint_path
from tests.adapters.trials import Linear, Normed, built, same, weights
from tests.preloaded import executable


class Edits(Linear):
    """Adds to the checkpoint."""

    def finish(self) -> None:
        self.recorder.note = self.note

    def note(self, hook: str, *args: Any) -> None:
        self.recorder.calls.append((hook, *args))
        if hook == "on_checkpoint_save_start":
            args[0]["mine"] = [1, 2]


def written(trial_cls: type, **hparams: Any) -> tuple[TrialRun, Path]:
    trial = built(trial_cls, hparams)
    run = TrialRun(trial, trial.context)
    run.state.batches_trained = 7
    write_checkpoint(run, continuation(run))
    [(_, path)] = [c for c in trial.recorder.calls if c[0] == "on_checkpoint_write_end"]
    return run, Path(path)


def test_the_files_are_determineds() -> None:
    Path("model_def.py").write_text("x = 1\n")
    _, path = written(Linear)
    assert sorted(entry.name for entry in path.iterdir()) == [
        "code",
        "det_compat_state.pth",
        "load_data.json",
        "metadata.json",
        "state_dict.pth",
        "trial_state.pkl",
    ]
    assert (path / "code" / "model_def.py").read_text() == "x = 1\n"
    assert json.loads((path / "metadata.json").read_text())["steps_completed"] == 7
    load_data = json.loads((path / "load_data.json").read_text())
    assert load_data["trial_cls_spec"] == "tests.adapters.trials:Linear"
    assert load_data["experiment_config"] == {"name": "test"}


def test_the_callbacks_are_told_and_may_add_to_it() -> None:
    run, path = written(Edits)
    assert run.trial.recorder.hooks() == [
        "on_checkpoint_save_start",
        "on_checkpoint_write_end",
        "on_checkpoint_upload_end",
    ]
    assert run.trial.recorder.calls[-1][1] == path.name
    assert read_checkpoint(path).state["mine"] == [1, 2]


def test_what_is_read_is_what_was_written() -> None:
    run, path = written(Normed)
    found = read_checkpoint(path)
    assert same(found.state["models_state_dict"][0], weights(run.trial.model))
    assert found.counters["batches_trained"] == found.counters["last_ckpt"] == 7
    assert found.continuation is not None
    assert len(found.continuation["ranks"]) == 1


def test_the_models_can_be_read_by_hand() -> None:
    run, path = written(Linear)
    state = torch.load(path / "state_dict.pth", weights_only=False)["models_state_dict"][0]
    assert same(state, weights(run.trial.model))


def test_a_trial_is_loaded_from_it() -> None:
    run, path = written(Linear, lr=0.25)
    trial: Any = load_trial_from_checkpoint_path(str(path), trial_class=Linear)
    assert same(weights(trial.model), weights(run.trial.model))
    assert trial.context.get_hparam("lr") == 0.25


def test_counters_that_would_import_code_are_refused() -> None:
    _, path = written(Linear)
    with (path / "trial_state.pkl").open("wb") as file:
        pickle.dump(Path("x"), file)
    with pytest.raises(UnsafeCheckpointError, match="PosixPath"):
        read_checkpoint(path)


def test_hyperparameters_are_kept_whatever_they_are_called() -> None:
    _, path = written(Linear, token="bpe", password=7)
    assert json.loads((path / "load_data.json").read_text())["hparams"] == {
        "token": "bpe",
        "password": 7,
    }
    hparams = to_lightning_checkpoint(read_checkpoint(path))["hyper_parameters"]["hparams"]
    assert hparams == {"token": "bpe", "password": 7}


REFERENCE = """
import sys, torch
from torch import nn
from determined import pytorch

class Net(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(nn.Linear(3, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.5))
    def train_batch(self, batch, epoch_idx, batch_idx):
        raise AssertionError("the checkpoint is at the end of training")
    def evaluate_batch(self, batch):
        return {"loss": 0.0}
    def build_training_data_loader(self):
        return pytorch.DataLoader([torch.ones(3)] * 4, batch_size=2)
    build_validation_data_loader = build_training_data_loader

loaded = pytorch.load_trial_from_checkpoint_path(sys.argv[1], trial_class=Net,
    torch_load_kwargs={"weights_only": True})
with pytorch.init(hparams={}) as context:
    trial = Net(context)
    pytorch.Trainer(trial, context).fit(
        max_length=pytorch.Batch(7), latest_checkpoint=sys.argv[1].rpartition("/")[2]
    )
torch.save([loaded.model.state_dict(), trial.model.state_dict(),
    trial.optimizer.state_dict()["param_groups"][0]["lr"]], sys.argv[2])
"""


def test_determined_itself_reads_it(tmp_path: Path) -> None:
    run, path = written(Linear)
    run.trial.optimizer.param_groups[0]["lr"] = 0.125
    write_checkpoint(run, continuation(run))
    path = Path(run.trial.recorder.calls[-2][1])
    (tmp_path / "empty").mkdir()
    out = tmp_path / "out.pt"
    done = subprocess.run(
        [executable("determined"), "-c", REFERENCE, str(path), str(out)],
        cwd=tmp_path / "empty",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded, trained, lr = torch.load(out, weights_only=True)
    assert same(loaded, weights(run.trial.model))
    assert same(trained, weights(run.trial.model))
    assert lr == 0.125

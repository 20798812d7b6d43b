"""What a trial class is told of its run by ``det.get_cluster_info()`` and the environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.preloaded import python

MODEL = """
import json, os
import determined as det
import torch
from determined import pytorch


def note(where):
    info = det.get_cluster_info()
    told = [where, info.container_rank, info.trial.hparams, info.trial.trial_seed,
            info.latest_checkpoint, info.user_data, os.environ["DET_TRIAL_SEED"]]
    print("NOTE", json.dumps(told))


note("import")


class MyTrial(pytorch.PyTorchTrial):
    def __init__(self, context):
        note("init")
        self.context = context
        assert det.get_cluster_info().trial._config == context.get_experiment_config()
        self.model = context.wrap_model(torch.nn.Linear(3, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), 0.1))

    def build_training_data_loader(self):
        return pytorch.DataLoader(torch.ones(8, 3), batch_size=4)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch).mean() ** 2
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"loss": self.model(batch).mean() ** 2}
"""
CONFIG = """
name: told
entrypoint: model_def:MyTrial
hyperparameters: {lr: 0.1, global_batch_size: 4}
searcher: {name: single, metric: loss, max_length: {batches: 2}}
data: {path: /data}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("told")
    (folder / "model_def.py").write_text(MODEL)
    (folder / "const.yaml").write_text(CONFIG)
    return folder


def notes(project: Path, *words: str) -> list[Any]:
    done = python("-m", "det_compat", *words, cwd=project)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("NOTE ")]
    return [json.loads(line.removeprefix("NOTE ")) for line in lines]


def test_a_trial_class_is_told_from_its_import_on(project: Path) -> None:
    imported, built = notes(project, "fit", "const.yaml", "--run_dir", "run")
    seed = json.loads((project / "run" / "det_compat_run.json").read_text())["seed"]
    hparams = {"lr": 0.1, "global_batch_size": 4}
    assert imported == ["import", 0, hparams, seed, None, {"path": "/data"}, str(seed)]
    assert built == ["init", *imported[1:]]
    [uuid] = os.listdir(project / "run" / "checkpoints")
    words = ("validate", "const.yaml", "--run_dir", "run")
    assert [note[4] for note in notes(project, *words)] == [uuid, uuid]


def test_a_trial_that_cannot_be_imported_leaves_no_run(project: Path) -> None:
    words = ["fit", "const.yaml", "--run_dir", "never", "--model.trial_cls", "model_def:Nobody"]
    done = python("-m", "det_compat", *words, cwd=project)
    assert done.returncode == 2 and "model_def has no Nobody" in done.stderr
    assert not (project / "never").exists()

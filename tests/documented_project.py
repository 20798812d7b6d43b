"""The project that the documents speak of: what their commands name is in it, small."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.fresh_python import environment
from tests.markdown import ROOT
from tests.preloaded import executable
from tests.torchrun import free_port

MODEL_DEF = '''
"""A trial as its team wrote it for Determined."""

import torch
from determined.pytorch import DataLoader, PyTorchTrial


class MyTrial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(4, 1))
        self.optimizer = context.wrap_optimizer(
            torch.optim.SGD(self.model.parameters(), lr=context.get_hparam("lr"))
        )

    def loader(self, seed):
        x = torch.randn(64, 4, generator=torch.Generator().manual_seed(seed))
        data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
        return DataLoader(data, batch_size=self.context.get_per_slot_batch_size())

    def build_training_data_loader(self):
        return self.loader(0)

    def build_validation_data_loader(self):
        return self.loader(1)

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        x, y = batch
        return {"error": torch.nn.functional.mse_loss(self.model(x), y)}
'''

TRAIN = """
import sys

from determined import pytorch

from model_def import MyTrial

with pytorch.init(hparams={"global_batch_size": 8, "lr": 0.05}) as context:
    trainer = pytorch.Trainer(MyTrial(context), context)
    trainer.fit(max_length=pytorch.Epoch(2), checkpoint_policy="none")
    print(f"rank {context.distributed.rank} of {context.distributed.size}: {sys.argv[1:]}")
"""

CONST = """
name: mine
entrypoint: model_def:MyTrial
hyperparameters: {global_batch_size: 8, lr: 0.05}
searcher: {name: single, metric: error, max_length: {epochs: 2}}
min_validation_period: {epochs: 1}
resources: {slots_per_trial: 1}
max_restarts: 0
"""

ADAPTIVE = """
name: mine
entrypoint: model_def:MyTrial
hyperparameters:
  global_batch_size: 8
  lr: {type: log, base: 10, minval: -3, maxval: -1}
searcher: {name: adaptive_asha, metric: error, max_length: {epochs: 4}, max_trials: 2}
"""

FILES = {
    "model_def.py": MODEL_DEF,
    "src/model_def.py": MODEL_DEF,
    "train.py": TRAIN,
    "const.yaml": CONST,
    "adaptive.yaml": ADAPTIVE,
    ".gitignore": "runs/\nsearch_*/\n__pycache__/\n",
}

# A shell alone understands these; no program is given them.
_SHELL = re.compile(r"[<>|&;$*`]|^\w+=")
_SECONDS = 240


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    output: str


class Project:
    """A folder in which commands are run as they are written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self._programs = folder / "bin"
        self._programs.mkdir()
        self._program("python", "")
        self._program("det-compat", "-m det_compat")
        given = {k: v for k, v in environment().items() if not k.startswith("GIT_")}
        if importlib.util.find_spec("mlflow") is None:
            given["PYTHONPATH"] += f"{os.pathsep}{ROOT / 'tests' / 'tracking' / 'stub'}"
        self._environment = {
            **given,
            "PATH": f"{self._programs}:{Path(sys.executable).parent}:/usr/bin:/bin",
            "XDG_DATA_HOME": str(folder / "data"),
            "COLUMNS": "120",
        }

    def _program(self, name: str, options: str) -> None:
        program = self._programs / name
        program.write_text(f'#!/bin/sh\nexec "{executable()}" {options} "$@"\n')
        program.chmod(0o755)

    def write(self, files: dict[str, str]) -> None:
        """Write files, and commit them."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.lstrip("\n"))
        self._commit()

    def copy_examples(self) -> None:
        """Have the examples; their data goes into the folder, too."""
        ignored = shutil.ignore_patterns("__pycache__", "runs", "search_*")
        shutil.copytree(ROOT / "examples", self.folder / "examples", ignore=ignored)
        config = self.folder / "examples" / "pedl" / "const.yaml"
        text = config.read_text()
        assert "/tmp/half_digits" in text
        config.write_text(text.replace("/tmp/half_digits", str(self.folder / "half_digits")))

    def restore(self) -> None:
        """Have the files as they were written, beside what commands have left."""
        subprocess.run(
            ["git", "checkout", "-q", "."], cwd=self.folder, env=self._environment, check=True
        )

    def _commit(self) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        for command in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "all")):
            subprocess.run(["git", *command], cwd=self.folder, env=self._environment, check=True)

    def keep_checkpoint(self, name: str) -> None:
        """Have a checkpoint of an earlier command, as if it had been downloaded."""
        found = sorted(self.folder.glob("runs/*/*/checkpoints/*/metadata.json"))
        shutil.copytree(found[0].parent, self.folder / name)

    def run(self, command: str) -> Done:
        """Run a command line."""
        words = shlex.split(command)
        if _SHELL.search(command) or words[0] not in ("python", "det-compat"):
            return self._run(["/bin/sh", "-c", command])
        program = ["-m", "det_compat"] if words[0] == "det-compat" else []
        return self._run([executable(), *program, *words[1:]])

    def _run(self, command: list[str]) -> Done:
        # Without it, every torchrun of this machine takes the same port.
        port = {"PET_MASTER_PORT": str(free_port())}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self._environment, **port},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
        return Done(done.returncode, done.stdout)

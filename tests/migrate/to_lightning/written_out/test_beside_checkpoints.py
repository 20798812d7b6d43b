"""Files that a callback adds to a checkpoint's folder get one beside Lightning's checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from tests.migrate.rewriting import method, rewritten, trial

BUILT = (
    "    def evaluate_batch",
    "    def build_callbacks(self):\n        return {'w': Watch(self)}\n\n    def evaluate_batch",
)
HEADER = """\
import copy
import gzip
import json
import os
import pathlib

import torch
from determined.pytorch import *

"""
WATCH = """\
class Watch(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial

    def {name}(self, folder: str) -> None:
        {used}

    def keep(self, where, name):
        torch.save(self.trial.model.state_dict(), f"{{where}}/{{name}}")


"""


def watching(
    tmp_path: Path, used: str, name: str = "on_checkpoint_write_end", more: str = ""
) -> str:
    header = HEADER + WATCH.format(name=name, used=used)
    text = header.rstrip() + f"\n\n{more}\n\n" if more else header
    return rewritten(tmp_path, trial(BUILT, header=text))


@pytest.mark.parametrize(
    "used",
    [
        'self.keep(folder, "model.pt")',
        'with open(os.path.join(folder, "a.json"), "w") as f:\n            json.dump({}, f)',
        'with open(folder + "/a.json", "w") as f:\n            json.dump(list(range(3)), f)',
        "self.trial.tokenizer.save_pretrained(folder)",
        "torch.save(copy.deepcopy(self.trial.model).half(), 'a.pt'); self.keep(folder, 'model.pt')",
        "json.dump(self.trial.names.to_list(), open(folder + '/a.json', 'w'))",
        'self.path = folder + "/a.txt"; print(self.path, file=open(self.path, mode="w"))',
        'with (pathlib.Path(folder) / "a.json").open("w") as f:\n            json.dump({}, f)',
        'gzip.open(os.path.join(folder, "a.gz"), "wb").write(b"a")',
    ],
)
@pytest.mark.parametrize("name", ["on_checkpoint_end", "on_checkpoint_write_end"])
def test_a_hook_that_adds_files(tmp_path, used, name):
    made = watching(tmp_path, used, name)
    hook = method(made, "on_save_checkpoint")
    assert "MIGRATE" not in made
    assert hook.startswith("def on_save_checkpoint(self, trainer, pl_module, checkpoint) -> None:")
    assert '"step={trainer.global_step}"' in hook
    # Determined called it in the chief alone.
    assert "    if trainer.is_global_zero:\n        saved_in = " in hook
    assert "os.makedirs(folder, exist_ok=True)\n" in hook


def test_a_hook_that_asks_for_no_folder_needs_none(tmp_path):
    hook = method(watching(tmp_path, 'print("saved")'), "on_save_checkpoint")
    assert hook.endswith('print("saved")')
    assert "    if trainer.is_global_zero:\n        print(" in hook


@pytest.mark.parametrize("used", ['print(f"in {folder}")', "print(folder)"])
def test_a_hook_that_only_tells_of_the_folder_makes_none(tmp_path, used):
    made = watching(tmp_path, used)
    hook = method(made, "on_save_checkpoint")
    told = 'getattr(trainer.checkpoint_callback, "dirpath", None) or trainer.default_root_dir'
    assert f"        folder = {told}\n" in hook
    assert "makedirs" not in made
    assert "MIGRATE" not in made


def test_a_trainer_without_checkpoints_of_its_own_keeps_them_in_its_folder(tmp_path):
    names: dict[str, type[pl.LightningModule]] = {}
    data = ("DataLoader([]", "DataLoader(torch.ones(8, 2)")
    used = 'self.keep(folder, "model.pt")'
    header = HEADER + WATCH.format(name="on_checkpoint_end", used=used)
    exec(rewritten(tmp_path, trial(BUILT, data, header=header)), names)
    flags = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(
        max_epochs=1,
        default_root_dir=tmp_path,
        accelerator="cpu",
        enable_model_summary=False,
        **flags,
    )
    trainer.fit(names["Trial"](global_batch_size=4))
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    assert [*tmp_path.rglob("step=2/model.pt")]


@pytest.mark.parametrize(
    "used",
    [
        'torch.load(f"{folder}/state_dict.pth")',
        "upload(folder)",
        "self.last = folder",
        'open(os.path.join(folder, "metadata.json"))',
        "self.read(folder)",
        'print((pathlib.Path(folder) / "metadata.json").open())',
        'gzip.open(folder + "w", "rb")',
        "self.trial.done = 1; print(folder)",
        'os.system(f"gsutil cp {folder} gs://bucket")',
        'torch.save(self.trial.model.merge_and_unload(), "merged.pt")',
        "self.trial.model.half()",
    ],
)
def test_what_may_need_the_checkpoint_itself_is_marked(tmp_path, used):
    more = "    def read(self, where):\n        return os.listdir(where)"
    made = watching(tmp_path, used, more=more)
    assert "    # MIGRATE: Lightning has no hook after a checkpoint is written" in made
    assert "on_save_checkpoint" not in made


def test_what_is_added_to_the_checkpoint_comes_first(tmp_path):
    more = '    def on_checkpoint_save_start(self, checkpoint: dict):\n        checkpoint["a"] = 1'
    hook = method(watching(tmp_path, 'self.keep(folder, "a")', more=more), "on_save_checkpoint")
    assert hook.index('checkpoint["a"] = 1') < hook.index("folder = ") < hook.index("self.keep(")


def test_the_files_are_there_for_each_checkpoint(tmp_path):
    names: dict[str, type[pl.LightningModule]] = {}
    data = ("DataLoader([]", "DataLoader(torch.ones(8, 2)")
    used = 'self.keep(folder, "model.pt")'
    source = trial(BUILT, data, header=HEADER + WATCH.format(name="on_checkpoint_end", used=used))
    exec(rewritten(tmp_path, source), names)
    trainer = pl.Trainer(
        max_epochs=2,
        default_root_dir=tmp_path,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[pl.callbacks.ModelCheckpoint(save_top_k=-1)],
    )
    module = names["Trial"](global_batch_size=4)
    trainer.fit(module)
    found = sorted(path.parent.name for path in tmp_path.rglob("model.pt"))
    assert found == ["step=2", "step=4"]
    (last,) = tmp_path.rglob("step=4/model.pt")
    assert torch.equal(torch.load(last)["weight"], module.model.weight)

from __future__ import annotations

import sys

import pytest

from det_compat.cli import main
from tests.migrate.rewriting import method, rewritten, trial
from tests.preloaded import executable

INIT = "        self.context = context\n"
SIZE = "DataLoader([], batch_size=self.context.get_per_slot_batch_size())"
KEEPING = """\
    def keep(self):
        self.batch_size = self.context.get_per_slot_batch_size()
        self.rows = [[1.0, 2.0]] * 8

"""
OF_METHOD = trial(
    (INIT, f"{INIT}        self.keep()\n"),
    ("    def build_training", f"{KEEPING}    def build_training"),
    (SIZE, "DataLoader(torch.tensor(self.rows), batch_size=self.batch_size)"),
    ("DataLoader([], batch_size=4)", "DataLoader(torch.ones(4, 2), batch_size=4)"),
)
MIXIN = f"class Keeping:\n{KEEPING}\n"
OF_MIXIN = (
    OF_METHOD.replace(KEEPING, "")
    .replace("class Trial(PyTorchTrial)", f"{MIXIN}class Trial(Keeping, PyTorchTrial)")
    .replace("keep(self):", "keep(self, context):")
    .replace("self.keep()", "self.keep(context)")
    .replace("self.batch_size = self.context", "self.batch_size = context")
)
CONFIG = """\
entrypoint: model_def:Trial
searcher: {name: single, metric: error, max_length: {batches: 4}}
hyperparameters: {global_batch_size: 4}
"""


@pytest.mark.parametrize("source", [OF_METHOD, OF_MIXIN])
def test_what_a_method_keeps_for_later_is_a_property(tmp_path, capsys, monkeypatch, source):
    monkeypatch.setattr(sys, "executable", executable())
    path = tmp_path / "model_def.py"
    path.write_text(source)
    (tmp_path / "const.yaml").write_text(CONFIG)
    command = ["migrate", str(tmp_path), "--to", "lightning", "--write", "--force"]
    assert main([*command, "--verify", "--batches", "4"]) == 0
    assert "verified: 4 batches" in capsys.readouterr().out
    made = path.read_text()
    assert "hparams.world_size" not in made
    assert "def setup" not in made
    assert method(made, "batch_size") == (
        "def batch_size(self):\n"
        "    return self.hparams.global_batch_size // self.trainer.world_size"
    )


READING = "        self.lines = [0] * self.batch_size\n"
HANDING = f"{INIT}        print(self)\n"


@pytest.mark.parametrize(
    "change",
    [
        # __init__ needs it, or something that it calls
        ("        self.rows", f"{READING}        self.rows"),
        (f"{INIT}        self.keep()\n", f"{INIT}        self.keep()\n{READING}"),
        # it is set elsewhere, too, or may be asked for by what gets the trial
        ("        loss = ", "        self.batch_size = 3\n        loss = "),
        (INIT, HANDING),
    ],
)
def test_what_is_needed_at_once_is_none(tmp_path, change):
    assert change[0] in OF_METHOD
    made = rewritten(tmp_path, OF_METHOD.replace(*change))
    assert "self.batch_size = self.hparams.global_batch_size // self.hparams.world_size" in made


RANK = """\
        self.rank = context.distributed.get_rank()
        if self.rank == 0:
            print("begins")
"""


def test_a_rank_is_asked_for_when_it_is_needed(tmp_path):
    told = "        if self.rank == 0:\n            print(batch_idx)\n        loss = "
    made = rewritten(tmp_path, trial((INIT, INIT + RANK), ("        loss = ", told)))
    assert "if rank_zero_only.rank == 0:" in method(made, "__init__")
    assert "self.rank = " not in made
    assert method(made, "rank") == "def rank(self):\n    return self.global_rank"


def test_a_rank_that_another_method_of_init_reads_stays(tmp_path):
    later = "    def tell(self):\n        print(self.rank)\n\n    def build_training"
    calls = RANK + "        self.tell()\n"
    made = rewritten(tmp_path, trial((INIT, INIT + calls), ("    def build_training", later)))
    assert "self.rank = rank_zero_only.rank" in method(made, "__init__")


@pytest.mark.parametrize(
    "change",
    [
        ("        loss = ", "        self.n += 1\n        loss = "),
        (f"{INIT}        self.keep()\n", f"{INIT}        self.keep()\n        self.n = 7\n"),
        (f"{INIT}        self.keep()\n", f"        self.n = self.n\n{INIT}        self.keep()\n"),
    ],
)
@pytest.mark.parametrize("place", ["a method", "init"])
def test_what_depends_on_what_changes_later_is_made_at_once(tmp_path, change, place):
    asked = "        self.total = self.n * self.context.distributed.size\n"
    source = OF_METHOD.replace(INIT, f"{INIT}        self.n = 2\n")
    before = "        self.rows" if place == "a method" else "        self.model ="
    source = source.replace(before, asked + before)
    head = "def total(self):\n    return self.n * self.trainer.world_size"
    assert head.replace("\n", "\n    ") in rewritten(tmp_path, source)
    old, new = change
    old = old.replace(INIT, f"{INIT}        self.n = 2\n")
    assert old in source
    new = new.replace(INIT, f"{INIT}        self.n = 2\n")
    assert "def total(self)" not in rewritten(tmp_path, source.replace(old, new))

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.rewriting import HEADER, method, rewritten, trial

CLASS = """\
class Pairs(torch.utils.data.Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.data[index]


"""
LOADER = "    def build_training_data_loader(self):\n"
SAID = "# another fit() does this to the same data once more\n"


def loading(lines: str, more: str = "", kept: str = "torch.ones(4, 2)") -> str:
    return trial(
        ("self.context = context\n", f"self.context = context\n        self.data = {kept}\n"),
        (
            f"{LOADER}        return DataLoader([]",
            f"{LOADER}{lines}        return DataLoader(self.data",
        ),
        header=f"{HEADER}{CLASS}{more}",
    )


def test_data_are_wrapped_once(tmp_path):
    made = rewritten(tmp_path, loading("        self.data = Pairs(self.data)\n"))
    found: dict[str, Any] = {}
    exec(made, found)
    module = found["Trial"](global_batch_size=1)
    module.trainer = found["pl"].Trainer(logger=False, enable_checkpointing=False)
    first = module.train_dataloader().dataset
    assert module.train_dataloader().dataset is first
    assert isinstance(first, found["Pairs"])


@pytest.mark.parametrize(
    ("lines", "more", "kept"),
    [
        ("        pairs = Pairs(self.data)\n        self.data = pairs\n", "", "[]"),
        (
            "        self.data = Pairs(self.data)\n",
            "def pairs(x):\n    return Pairs(x)\n\n\n",
            "[]",
        ),
        ("        self.data = torch.utils.data.Subset(self.data, [0])\n", "", "[]"),
        ("        self.data.append(1)\n", "", "[]"),
    ],
)
def test_what_would_be_done_twice_is_said(lines, more, kept, tmp_path):
    made = rewritten(tmp_path, loading(lines, more, kept))
    assert SAID in method(made, "train_dataloader")
    assert "isinstance" not in method(made, "train_dataloader")


@pytest.mark.parametrize(
    "lines",
    [
        "        self.data = list(self.data)\n",
        "        self.data = []\n        self.data.append(1)\n",
        "        self.pairs = Pairs(self.data)\n",
    ],
)
def test_what_may_be_done_twice_is_not(lines, tmp_path):
    made = method(rewritten(tmp_path, loading(lines)), "train_dataloader")
    assert SAID not in made
    assert "isinstance" not in made

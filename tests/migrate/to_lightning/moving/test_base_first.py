"""What an heir does above the ``__init__`` of its base, which a module cannot do there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.migrate.rewriting import rewritten, trial

BASE = """
    def size(self):
        return self.context.get_hparam("n")

    def drawn(self):
        return torch.randn(self.context.get_hparam("n"))

    def width(self):
        return 1

    def build_training"""
HEIR = """

def chosen(kind):
    return {"l1": torch.nn.L1Loss, "l2": torch.nn.MSELoss}[kind]()


class Heir(Trial):
    def __init__(self, context, kind="l2"):
        LINES
        super().__init__(context)
        self.last = context.get_hparam("last")

    def counted(self):
        return 2 * self.context.get_hparam("n")

    def build(self):
        self.net = torch.nn.Linear(2, 2)

    def train_batch(self, batch, epoch_idx, batch_idx):
        self.loss = self.net = None
"""
GIVEN = {"n": 3, "last": 4, "global_batch_size": 2}


def heir(folder: Path, lines: str, *changes: tuple[str, str]) -> str:
    base = trial(
        ("\n    def build_training", BASE),
        ("torch.nn.Linear(2, 1)", "torch.nn.Linear(2, self.width())"),
    )
    source = (base + HEIR).replace("LINES", lines)
    for old, new in changes:
        source = source.replace(old, new)
    return rewritten(folder, source)


def init(made: str) -> str:
    return made.partition("class Heir")[2].partition("    def counted")[0].partition("\n")[2]


@pytest.mark.parametrize(
    ("lines", "above", "below"),
    [
        ("self.a = torch.nn.Linear(2, 2)", "a = torch.nn.Linear(2, 2)", "self.a = a"),
        ("self.kind = torch.nn.Linear(2, 2)", "own_kind = torch.nn.Linear(2, 2)", "= own_kind"),
        ("self.a = chosen(kind)", "a = chosen(kind)", "self.a = a"),
        ("self.a = torch.nn.MSELoss()", "", "self.a = torch.nn.MSELoss()"),
        ('self.a = {"l2": torch.nn.MSELoss()}[kind]', "", '{"l2": torch.nn.MSELoss()}[kind]'),
        (
            'if kind == "l2":\n            self.a = torch.nn.MSELoss()',
            "",
            "            self.a = torch.nn.MSELoss()",
        ),
        ("self.a = [torch.nn.Linear(2, 2)]", "self.a = [torch.nn.Linear(2, 2)]", ""),
        ("self.a = 3", "self.a = 3", ""),
        # The base may give what it is made of another value.
        (
            "self.w = 2.0\n        self.a = torch.nn.HuberLoss(delta=self.w)",
            "a = torch.nn.HuberLoss(delta=self.w)",
            "self.a = a",
        ),
        ("self.context = context\n        self.a = self.size()", "", "self.a = self.size()"),
        ("self.context = context\n        self.a = self.counted()", "", "self.a = self.counted()"),
    ],
)
def test_a_module_keeps_them_where_it_can(
    lines: str, above: str, below: str, tmp_path: Path
) -> None:
    made = heir(tmp_path, lines)
    first, call, rest = init(made).partition("        super().__init__(**hparams)\n")
    assert "MIGRATE" not in made and call
    assert above in first and below in rest
    found: dict[str, Any] = {}
    exec(compile(made, "made", "exec"), found)
    torch.manual_seed(1)
    module = found["Heir"](**GIVEN)
    torch.manual_seed(1)
    # What draws does so in the order of before.
    if "Linear(2, 2)" in lines:
        torch.nn.Linear(2, 2)
    assert torch.equal(module.model.weight, torch.nn.Linear(2, 1).weight)
    assert module.last == 4


@pytest.mark.parametrize(
    ("lines", "width"),
    [
        # The base asks for it as it is made.
        ("self.a = torch.nn.MSELoss()", "return 1 if self.a else 2"),
        ("self.a = torch.nn.MSELoss()", 'return 1 if getattr(self, "a") else 2'),
        ("self.a = torch.nn.Linear(2, 2)\n        self.b = self.a.weight", "return 1"),
        ("self.build()", "return 1"),
        ("self.context = context\n        self.a = self.drawn()", "return 1"),
        ("for _ in range(2):\n            self.a = torch.nn.Linear(2, 2)", "return 1"),
    ],
)
def test_what_may_be_another_thing_below_is_marked(lines: str, width: str, tmp_path: Path) -> None:
    made = heir(tmp_path, lines, ("return 1", width))
    assert re.search(r"# MIGRATE: .* the __init__ of (its|the) base, below", init(made))

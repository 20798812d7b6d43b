from __future__ import annotations

import pytest

from det_compat.migrate.to_lightning.optimization.unused import THAWED
from tests.migrate.rewriting import HEADER, rewritten, trial

WRAPS = "        self.model = context.wrap_model(torch.nn.Linear(2, 1))\n"
STEP = "        self.context.step_optimizer(self.opt)\n"
MODELS = f"{WRAPS}        self.other = context.wrap_model(torch.nn.Linear(2, 1))\n"
FREEZE = "for p in self.model.parameters():\n            p.requires_grad = False"
THAW = FREEZE.replace("False", "True")
HELPERS = """

def switch(module, on):
    for p in module.parameters():
        p.requires_grad = on


class Net(torch.nn.Linear):
    def freeze(self):
        self.weight.requires_grad_(False)

    def thaw(self):
        self.weight.requires_grad_()
"""
CALLBACKS = """    def build_callbacks(self):
        return {"thawing": Thawing(self.model)}

"""
CALLBACK = """

class Thawing(PyTorchCallback):
    def __init__(self, model):
        self.model = model
        %s

    def switch(self, is_on):
        for depth, layer in enumerate(reversed([*self.model.children()])):
            for p in layer.parameters():
                p.requires_grad = is_on

    def on_training_epoch_start(self, epoch_idx):
        %s
"""


def comments(source: str) -> str:
    """What is below the comment; nothing without one."""
    text = "".join(line.strip() + "\n" for line in source.splitlines())
    return text.partition("\n".join(THAWED) + "\n")[2].partition("\n")[0]


@pytest.mark.parametrize(
    ("early", "late", "said"),
    [
        (FREEZE, THAW, "p.requires_grad = True"),
        ("self.model.requires_grad_(False)", THAW, "p.requires_grad = True"),
        ("switch(self.model, False)", "switch(self.model, True)", "switch(self.model, True)"),
        ("self.model.freeze()", "self.model.thaw()", "self.model.thaw()"),
        (FREEZE, "self.model.weight.requires_grad_()", "self.model.weight.requires_grad_()"),
        # freezing alone, thawing alone, something else, and data
        (FREEZE, "pass", ""),
        ("pass", THAW, ""),
        (f"{FREEZE}\n        self.model.weight.requires_grad_()", "pass", ""),
        (FREEZE.replace("model", "other"), f"{FREEZE}\n        {THAW}", ""),
        (FREEZE, "batch.requires_grad_(True)", ""),
        ("switch(self.model, False)", "switch(self.model, False)", ""),
    ],
)
def test_what_a_trial_thaws_is_spoken_of(early, late, said, tmp_path):
    changes = ((WRAPS, f"{MODELS}        {early}\n"), (STEP, f"{STEP}        {late}\n"))
    assert comments(rewritten(tmp_path, trial(*changes) + HELPERS)) == said


@pytest.mark.parametrize(
    ("early", "late", "frozen", "said"),
    [
        ("self.switch(False)", "self.switch(epoch_idx > 0)", "pass", "p.requires_grad = is_on"),
        (
            "pass",
            "self.switch(True)",
            "self.model.requires_grad_(False)",
            "p.requires_grad = is_on",
        ),
        ("pass", "self.switch(True)", "pass", ""),
        ("self.switch(False)", "pass", "pass", ""),
        ("self.model.requires_grad_(False)", "pass", "pass", ""),
    ],
)
def test_what_a_callback_thaws_is_spoken_of(early, late, frozen, said, tmp_path):
    source = trial(
        (WRAPS, f"{WRAPS}        {frozen}\n"),
        ("    def build_training", f"{CALLBACKS}    def build_training"),
        header=HEADER.replace("LRScheduler", "LRScheduler, PyTorchCallback"),
    )
    assert comments(rewritten(tmp_path, source + CALLBACK % (early, late))) == said

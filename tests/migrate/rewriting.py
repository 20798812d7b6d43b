"""Snippets, migrated."""

from __future__ import annotations

import textwrap
from pathlib import Path

from det_compat.migrate.migration import migrate

HEADER = """\
import torch
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrial, PyTorchTrialContext

"""
TRIAL = """\
class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(2, 1))
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))

    def build_training_data_loader(self):
        return DataLoader([], batch_size=self.context.get_per_slot_batch_size())

    def build_validation_data_loader(self):
        return DataLoader([], batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"error": self.model(batch).sum()}
"""


def rewritten(folder: Path, source: str, to: str = "lightning", name: str = "model_def.py") -> str:
    """What becomes of the file ``name`` with this text."""
    path = folder / name
    path.write_text(textwrap.dedent(source))
    (result,) = [file for file in migrate([str(folder)], to).files if file.path == path]
    assert not result.problem, result.problem
    compile(result.after, name, "exec")
    return result.after.decode()


def trial(*changes: tuple[str, str], header: str = HEADER) -> str:
    """A trial with some of its text replaced."""
    text = header + TRIAL
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def method(source: str, name: str) -> str:
    """The text of a method, without what is around it."""
    lines = source.splitlines()
    (start,) = [i for i, line in enumerate(lines) if line.startswith(f"    def {name}(")]
    end = start + 1
    inner = ("     ", "    )")
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(inner)):
        end += 1
    return textwrap.dedent("\n".join(lines[start:end])).rstrip()

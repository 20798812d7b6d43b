"""A trial of one weight and a BatchNorm, written for determined, as the text of a user's file."""

from __future__ import annotations

from pathlib import Path

SOURCE = """
import torch
from det_compat import pytorch


class OneWeight(pytorch.PyTorchTrial):
    def __init__(self, context, width=1, fail=False):
        if fail:
            raise KeyError("user bug")
        self.context = context
        net = torch.nn.Sequential(torch.nn.Linear(width, 1), torch.nn.BatchNorm1d(1))
        self.model = context.wrap_model(net)
        self.loss = context.wrap_model(torch.nn.MSELoss())
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))

    def loader(self):
        data = [(torch.full((1,), float(i)), torch.full((1,), 2.0 * i)) for i in range(8)]
        return pytorch.DataLoader(data, batch_size=self.context.get_per_slot_batch_size())

    build_training_data_loader = build_validation_data_loader = loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        loss = self.loss(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        x, y = batch
        return {"loss": self.loss(self.model(x), y)}


class Outer:
    class Inner(OneWeight):
        pass
"""


def write(folder: Path) -> None:
    """``model_def.py``, in a folder beside which nothing else is imported."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model_def.py").write_text(SOURCE)

from __future__ import annotations

from tests.migrate.rewriting import method, rewritten

SOURCE = """\
import torch
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrial


class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        model = torch.nn.Linear(2, 1)
        context._Model(model)
        self.sgd = context._Optimizer(torch.optim.SGD(model.parameters(), lr=0.1))

    def build_training_data_loader(self):
        return DataLoader([], batch_size=4)

    def build_validation_data_loader(self):
        return DataLoader([], batch_size=4)

    def train_batch(self, batch, model, epoch_idx, batch_idx):
        loss = model(self.context._to_device(batch)).sum()
        self.context._backward(loss)
        self.context._step_optimizer(self.context.get_optimizer())
        return {"loss": loss}

    def evaluate_batch(self, batch, model):
        return {"error": model(batch).sum()}
"""


def test_names_of_today(tmp_path):
    made = rewritten(tmp_path, SOURCE, "context")
    assert "        self.model = context.wrap_model(model)\n" in made
    assert "        self.sgd = context.wrap_optimizer(" in made
    assert method(made, "train_batch") == (
        "def train_batch(self, batch, epoch_idx, batch_idx):\n"
        "    loss = self.model(self.context.to_device(batch)).sum()\n"
        "    self.context.backward(loss)\n"
        "    self.context.step_optimizer(self.sgd)\n"
        '    return {"loss": loss}'
    )
    assert rewritten(tmp_path, made, "context") == made


def test_on_to_lightning(tmp_path):
    made = rewritten(tmp_path, SOURCE)
    assert "determined" not in made
    assert "MIGRATE" not in made
    assert "return torch.optim.SGD(self.model.parameters(), lr=0.1)" in made

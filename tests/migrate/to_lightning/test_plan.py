"""Lists of what a context wraps."""

from __future__ import annotations

from tests.migrate.rewriting import HEADER, method, rewritten

SOURCE = (
    HEADER
    + """\
from typing import cast
from determined.pytorch import MetricReducer


class Mean(MetricReducer):
    def __init__(self):
        self.reset()

    def reset(self):
        self.values = []

    def update(self, value):
        self.values.append(value)

    def per_slot_reduce(self):
        return self.values

    def cross_slot_reduce(self, gathered):
        return sum(map(sum, gathered))


class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.models = []
        for _ in range(2):
            self.models.append(context.wrap_model(torch.nn.Linear(2, 1)))
        self.heads = [context.wrap_model(torch.nn.Linear(1, 1)) for _ in range(3)]
        self.main = context.wrap_optimizer(torch.optim.SGD(self.models[0].parameters(), lr=0.1))
        self.others = [
            context.wrap_optimizer(torch.optim.SGD(m.parameters(), lr=0.1)) for m in self.heads
        ]
        self.means = [
            cast(Mean, context.wrap_reducer(Mean(), f"mean_{i}")) for i in range(3)
        ]

    def build_training_data_loader(self):
        return DataLoader([], batch_size=4)

    def build_validation_data_loader(self):
        return DataLoader([], batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.models[0](batch).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.main)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {}
"""
)


def test_models_are_registered(tmp_path):
    made = rewritten(tmp_path, SOURCE)
    assert "        self.models = torch.nn.ModuleList()\n" in made
    assert "self.heads = torch.nn.ModuleList([torch.nn.Linear(1, 1) for _ in range(3)])" in made
    assert "MIGRATE" not in made


def test_every_optimizer_is_configured(tmp_path):
    made = rewritten(tmp_path, SOURCE)
    assert method(made, "configure_optimizers").endswith("return [self.main, *self.others]")
    assert method(made, "on_train_start").endswith("self.main, *self.others = self.optimizers()")


def test_reducers_in_a_list(tmp_path):
    made = rewritten(tmp_path, SOURCE)
    assert method(made, "on_validation_start").endswith(
        "    for reducer in self.means:\n        reducer.reset()"
    )
    assert method(made, "on_validation_epoch_end").endswith(
        "    for (i), reducer in zip(range(3), self.means):\n"
        '        self.log(f"mean_{i}", reducer.compute())'
    )

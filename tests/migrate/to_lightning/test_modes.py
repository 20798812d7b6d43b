from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

HOOK = """\
def on_train_epoch_start(self):
    # Lightning trains them in the mode in which they are
    self.model.train()"""


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("loss = ", "self.model.eval()\n        loss = "), id="eval in a batch"),
        pytest.param(("loss = ", "self.model.train(False)\n        loss = "), id="train(False)"),
        pytest.param(
            ("torch.nn.Linear(2, 1)", 'AutoModel.from_pretrained("m")'), id="a pretrained model"
        ),
    ],
)
def test_models_train_in_training_mode(tmp_path, change):
    made = rewritten(tmp_path, trial(change))
    assert method(made, "on_train_epoch_start") == HOOK


def test_a_validation_may_change_the_mode(tmp_path):
    change = ('        return {"error"', '        self.model.eval()\n        return {"error"')
    assert "on_train_epoch_start" not in rewritten(tmp_path, trial(change))


def test_an_heir_knows_the_models_of_its_base(tmp_path):
    heir = """

class Heir(Trial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        self.model.eval()
        return super().train_batch(batch, epoch_idx, batch_idx)
"""
    made = rewritten(tmp_path, trial() + heir)
    assert method(made.partition("class Heir")[2], "on_train_epoch_start") == HOOK

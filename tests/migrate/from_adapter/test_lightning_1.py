from __future__ import annotations

import pytest

from tests.migrate.from_adapter.adapted import NET
from tests.migrate.from_adapter.test_target import migrated

CALL = "        preds = logits.argmax(dim=1)\n"
RIGHT = "(preds == y).float().mean()"
SUPER = "        super().__init__()\n"
METRIC = f"{SUPER}        # how many are right\n        self.right = torchmetrics.Accuracy()\n"
FIRST = "import torch\n"


@pytest.mark.parametrize(
    ("line", "new"),
    [
        (
            "trainer = pl.Trainer(gpus=1, max_epochs=2)",
            'accelerator="gpu", devices=1, max_epochs=2',
        ),
        (
            "pl.Trainer(max_epochs=2, gpus=2).fit(Net())",
            'max_epochs=2, accelerator="gpu", devices=2',
        ),
        ("pl.Trainer(progress_bar_refresh_rate=5)", "callbacks=[TQDMProgressBar(refresh_rate=5)]"),
        ("pl.Trainer(gpus=count())", "# MIGRATE: Lightning's Trainer has no gpus any more"),
        ("pl.Trainer(tpu_cores=8)", "# MIGRATE: Lightning's Trainer has no tpu_cores any more"),
    ],
)
def test_trainers_get_the_flags_of_today(tmp_path, line, new):
    texts, problems = migrated(tmp_path, net=(FIRST, f"{FIRST}\n\ndef train(count):\n    {line}\n"))
    assert new in texts["net.py"] and not problems
    assert ("import TQDMProgressBar" in texts["net.py"]) is ("TQDM" in new)


@pytest.mark.parametrize(
    ("first", "made", "count"),
    [
        ("from pytorch_lightning.metrics.functional import accuracy as right\n", "", "right"),
        ("import torchmetrics\n", METRIC, "self.right"),
    ],
)
def test_accuracies_of_predictions_are_written_out(tmp_path, first, made, count):
    text = NET.replace(CALL, f"{CALL}        share = {count}(preds, y)\n")
    text = text.replace(FIRST, FIRST + first).replace(SUPER, made or SUPER, 1)
    texts, _ = migrated(tmp_path, net=(NET, text))
    other = tmp_path / "other"
    other.mkdir()
    plain, _ = migrated(other, net=(CALL, f"{CALL}        share = {RIGHT}\n"))
    assert texts["net.py"] == plain["net.py"]


def test_an_accuracy_that_is_asked_otherwise_is_marked(tmp_path):
    texts, _ = migrated(tmp_path, net=(SUPER, METRIC.replace("y()", "y(top_k=2)")))
    assert "# MIGRATE: torchmetrics.Accuracy needs a task" in texts["net.py"]


def test_what_a_data_module_had_for_its_size_is_its_dims(tmp_path):
    texts, _ = migrated(tmp_path, trials=("self.dm.dims", "self.dm.size()"))
    assert "(size,) = self.dm.dims" in texts["model_def.py"]
    other = tmp_path / "other"
    other.mkdir()
    texts, _ = migrated(other, data=("self.dims", "self.shape"), trials=("dm.dims", "dm.size()"))
    assert "# MIGRATE: LightningDataModule has no size() any more" in texts["model_def.py"]

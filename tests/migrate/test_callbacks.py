from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

CALLBACK = """\
from determined.pytorch import PyTorchCallback

class Watch(PyTorchCallback):
    def {0}:
        print({1})


"""


def callback(tmp_path, signature: str, used: str = "0") -> str:
    source = CALLBACK.format(signature, used) + trial(
        (
            "    def evaluate_batch",
            "    def build_callbacks(self):\n        return {'w': Watch()}\n\n"
            "    def evaluate_batch",
        )
    )
    return rewritten(tmp_path, source)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("on_training_start(self)", "on_train_start(self, trainer, pl_module)"),
        (
            "on_training_epoch_start(self, epoch_idx)",
            "on_train_epoch_start(self, trainer, pl_module)",
        ),
        ("on_validation_end(self, metrics)", "on_validation_end(self, trainer, pl_module)"),
        ("on_trial_shutdown(self)", "teardown(self, trainer, pl_module, stage)"),
        (
            "on_checkpoint_save_start(self, checkpoint)",
            "on_save_checkpoint(self, trainer, pl_module, checkpoint)",
        ),
    ],
)
def test_hooks(tmp_path, old, new):
    made = callback(tmp_path, old)
    assert f"    def {new}:" in made
    assert "class Watch(pl.Callback):" in made
    assert "return [Watch()]" in method(made, "configure_callbacks")
    assert "MIGRATE" not in made


def test_what_hooks_were_given(tmp_path):
    made = callback(tmp_path, "on_training_epoch_end(self, epoch)", "epoch")
    assert "        epoch = trainer.current_epoch\n        print(epoch)" in made
    made = callback(tmp_path, "on_validation_end(self, results)", "results['error']")
    assert "        results = trainer.callback_metrics\n" in made


def test_hooks_that_lightning_does_not_have(tmp_path):
    made = callback(tmp_path, "on_checkpoint_write_end(self, checkpoint_dir)", "checkpoint_dir")
    assert "    # MIGRATE: Lightning has no hook after a checkpoint is written" in made
    assert "    def on_checkpoint_write_end(self, checkpoint_dir):" in made


def test_arguments_that_lightning_does_not_have(tmp_path):
    made = callback(
        tmp_path, "on_training_workload_end(self, avg_metrics, batch_metrics)", "batch_metrics"
    )
    assert "    # MIGRATE: Lightning calls on_train_epoch_end instead" in made
    assert "    def on_training_workload_end(self, avg_metrics, batch_metrics):" in made


def test_callbacks_that_are_no_literal(tmp_path):
    source = trial(
        (
            "    def evaluate_batch",
            "    def build_callbacks(self):\n        return make()\n\n    def evaluate_batch",
        )
    )
    assert "return list(make().values())" in rewritten(tmp_path, source)

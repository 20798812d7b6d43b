from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.context.device", "self.device"),
        ("self.context.distributed.get_rank()", "self.global_rank"),
        ("self.context.distributed.size", "self.trainer.world_size"),
        ("self.context.current_train_epoch()", "self.current_epoch"),
        ('self.context.get_hparam("lr")', "self.hparams.lr"),
        ("self.context.get_hparam(name)", "self.hparams[name]"),
        ("self.context.get_data_config()", "self.hparams.data"),
        ("self.context.to_device(torch.ones(2))", "torch.ones(2).to(self.device)"),
        (
            "self.context.to_device(batch)",
            "self.transfer_batch_to_device(batch, self.device, 0)",
        ),
        ("2 * self.context.get_per_slot_batch_size()", "2 * (self.hparams.global_batch_size // "),
        (
            "not self.context.is_epoch_start()",
            "not (self.trainer.fit_loop.epoch_loop.batch_idx == 0)",
        ),
        ("self.context._epoch_len", "self.trainer.num_training_batches"),
    ],
)
def test_expressions(tmp_path, old, new):
    made = rewritten(tmp_path, trial(("self.model(batch).sum()}", f"{old}}}")))
    assert new in method(made, "validation_step")
    assert "MIGRATE" not in made


def test_stopping(tmp_path):
    change = (
        '        return {"error"',
        '        self.context.set_stop_requested(True)\n        return {"error"',
    )
    assert "self.trainer.should_stop = True" in rewritten(tmp_path, trial(change))


def test_before_there_is_a_trainer(tmp_path):
    change = ("self.context = context", "self.n = context.get_per_slot_batch_size()")
    made = rewritten(tmp_path, trial(change))
    assert "# MIGRATE: get_per_slot_batch_size is that of one device here" in made
    assert "self.n = self.hparams.global_batch_size\n" in made


def test_contexts_by_other_names(tmp_path):
    change = (
        "self.context = context",
        "self.context = self.ctx = context\n        self.hp = context.get_hparam",
    )
    made = rewritten(tmp_path, trial(change, ("self.model(batch).sum()}", 'self.hp("lr")}')))
    assert "self.hparams.lr" in made
    assert "context" not in made


def test_helpers_get_the_module(tmp_path):
    helper = "def scale(ctx: PyTorchTrialContext):\n    return ctx.get_hparam('scale')\n\n\n"
    source = trial(("class Trial", f"{helper}class Trial"), ("lr=0.1", "lr=scale(context)"))
    made = rewritten(tmp_path, source)
    assert "def scale(ctx: pl.LightningModule):\n    return ctx.hparams.scale" in made
    assert "lr=scale(self)" in made
    assert "scale: Any" in method(made, "__init__")


def test_methods_that_are_handed_on_stay(tmp_path):
    change = ("self.context = context", "self.helper.backward = context.backward")
    assert "self.helper.backward = self.manual_backward" in rewritten(tmp_path, trial(change))

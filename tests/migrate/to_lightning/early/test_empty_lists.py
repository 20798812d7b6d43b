"""Lists of what is wrapped that only some configs make are there for hooks, empty."""

from __future__ import annotations

import pytest
import pytorch_lightning as pl

from tests.migrate.rewriting import method, rewritten, trial

MADE = (
    "        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))\n"
)
HEADS = """\
        self.make_heads(context)

    def make_heads(self, context):
{condition}            self.heads = [context.wrap_model(torch.nn.Linear(2, 1)) for _ in range(2)]
            self.opts = [
                context.wrap_optimizer(torch.optim.SGD(h.parameters(), lr=0.1)) for h in self.heads
            ]
            self.schedules = [
                context.wrap_lr_scheduler(
                    torch.optim.lr_scheduler.StepLR(o, 1), LRScheduler.StepMode.STEP_EVERY_EPOCH
                )
                for o in self.opts
            ]
            self.means = [
                context.wrap_reducer(lambda x: sum(x), f"m{{i}}", for_training=False)
                for i in (0, 1)
            ]
            self.named = {{
                n: context.wrap_reducer(lambda x: sum(x), n, for_training=False) for n in ("a", "b")
            }}
"""
STEP = (
    "        self.context.step_optimizer(self.opt)\n",
    "        self.context.step_optimizer(self.opt)\n"
    '        if self.context.get_hparam("heads"):\n'
    "            for head, opt in zip(self.heads, self.opts):\n"
    "                self.context.backward(head(batch).sum())\n"
    "                self.context.step_optimizer(opt)\n",
)
EVALUATED = (
    '        return {"error"',
    '        if self.context.get_hparam("heads"):\n'
    "            for each in (*self.means, *self.named.values()):\n"
    "                each.update(1.0)\n"
    '        return {"error"',
)
DATA = ("DataLoader([], batch_size=4)", "DataLoader(torch.ones(8, 2), batch_size=4)")
TRAINING = ("DataLoader([], batch_size=self", "DataLoader(torch.ones(8, 2), batch_size=self")


def made(tmp_path, condition: str, *changes: tuple[str, str]) -> str:
    heads = HEADS.format(condition=condition)
    return rewritten(
        tmp_path, trial((MADE, MADE + heads), STEP, EVALUATED, DATA, TRAINING, *changes)
    )


def init_of(source: str) -> str:
    return method(source.partition("class Trial")[2], "__init__")


@pytest.mark.parametrize("heads", [False, True])
def test_a_module_trains_with_and_without_its_lists(tmp_path, heads):
    source = made(tmp_path, '        if context.get_hparam("heads"):\n')
    names: dict[str, type[pl.LightningModule]] = {}
    exec(source, names)
    module = names["Trial"](heads=heads, global_batch_size=4)
    trainer = pl.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module)
    assert trainer.global_step == (12 if heads else 4)
    assert {"m0", "m1", "a", "b"} <= trainer.callback_metrics.keys() or not heads
    rates = [each.param_groups[0]["lr"] for each in module.opts]
    assert rates == pytest.approx([0.001, 0.001] if heads else [])


def test_lists_that_are_always_made_are_not_made_before(tmp_path):
    init = init_of(made(tmp_path, "        with torch.no_grad():\n"))
    assert " = []" not in init
    assert " = {}" not in init


def test_a_list_that_code_asks_for_by_name_is_not_there(tmp_path):
    asked = ('        return {"loss"', '        hasattr(self, "heads")\n        return {"loss"')
    source = made(tmp_path, '        if context.get_hparam("heads"):\n', asked)
    init = init_of(source)
    assert "self.heads = []" not in init
    assert "self.opts = []" in init

from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import HEADER, method, rewritten, trial

SCHEDULE = """\
lr=0.1))
        self.schedule = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 1), {0}
        )
"""


def scheduled(folder, mode: str) -> str:
    return rewritten(folder, trial(("lr=0.1))\n", SCHEDULE.format(mode))))


@pytest.mark.parametrize(
    "looked_up",
    [
        'LRScheduler.StepMode[context.get_hparam("mode")]',
        'getattr(LRScheduler.StepMode, context.get_hparam("mode"))',
    ],
)
def test_a_step_mode_that_is_looked_up_at_run_time(tmp_path, looked_up):
    made = scheduled(tmp_path, looked_up)
    assert "self.schedule_step_mode = mode\n" in made
    assert method(made, "training_step").endswith(
        '    if self.schedule_step_mode in ("STEP_EVERY_BATCH", "STEP_EVERY_OPTIMIZER_STEP"):\n'
        "        self.schedule.step()"
    )
    epoch = '    if self.trainer.is_last_batch and self.schedule_step_mode == "STEP_EVERY_EPOCH":\n'
    assert f"{epoch}        self.schedule.step()" in method(made, "training_step")
    assert "MIGRATE" not in made


def test_schedulers_of_two_modes_under_one_name(tmp_path):
    either = """\
lr=0.1))
        if context.get_hparam("warm"):
            self.schedule = context.wrap_lr_scheduler(
                torch.optim.lr_scheduler.StepLR(self.opt, 1),
                LRScheduler.StepMode.STEP_EVERY_BATCH,
            )
        else:
            self.schedule = context.wrap_lr_scheduler(
                torch.optim.lr_scheduler.StepLR(self.opt, 2),
                LRScheduler.StepMode.STEP_EVERY_EPOCH,
            )
"""
    made = rewritten(tmp_path, trial(("lr=0.1))\n", either)))
    assert '            self.schedule_step_mode = "STEP_EVERY_BATCH"\n' in made
    assert '            self.schedule_step_mode = "STEP_EVERY_EPOCH"\n' in made
    epoch = 'interval = "epoch" if self.schedule_step_mode == "STEP_EVERY_EPOCH" else "step"'
    assert epoch in method(made, "configure_optimizers")


def test_a_mode_that_may_be_none_of_lightnings_is_a_condition(tmp_path):
    looked_up = """\
lr=0.1))
        self.schedule = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 1),
            LRScheduler.StepMode[context.get_hparam("mode")],
        )
"""
    made = rewritten(tmp_path, trial(("lr=0.1))\n", looked_up)))
    assert "interval" not in made
    epoch = 'if self.trainer.is_last_batch and self.schedule_step_mode == "STEP_EVERY_EPOCH":'
    assert epoch in method(made, "training_step")


MAYBE = """\
lr=0.1))
        self.schedule = None
        if context.get_hparam("warm"):
            self.schedule = context.wrap_lr_scheduler(
                torch.optim.lr_scheduler.StepLR(self.opt, 1),
                LRScheduler.StepMode.STEP_EVERY_BATCH,
            )
"""
STEPS = "        self.context.step_optimizer(self.opt)\n"
THERE = 'getattr(self, "schedule", None) is not None'


def test_a_scheduler_that_is_only_made_at_times(tmp_path):
    made = rewritten(tmp_path, trial(("lr=0.1))\n", MAYBE)))
    assert method(made, "configure_optimizers") == (
        "def configure_optimizers(self):\n"
        "    opt = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"
        "    if self.hparams.warm:\n"
        "        schedule = torch.optim.lr_scheduler.StepLR(opt, 1)\n"
        "        return {\n"
        '            "optimizer": opt,\n'
        '            "lr_scheduler": {"scheduler": schedule, "interval": "step"},\n'
        "        }\n"
        "    return opt"
    )
    assert "schedule" not in method(made, "__init__") and "manual_backward" not in made


def test_a_scheduler_that_is_one_of_several_or_none(tmp_path):
    cosine = MAYBE[MAYBE.index("        if") :].replace("        if", "        elif")
    cosine = cosine.replace("warm", "cosine").replace("StepLR", "CosineAnnealingLR")
    made = rewritten(tmp_path, trial(("lr=0.1))\n", MAYBE + cosine)))
    assert "manual_backward" not in made
    assert method(made, "configure_optimizers") == (
        "def configure_optimizers(self):\n"
        f"    if {THERE}:\n"
        "        return {\n"
        '            "optimizer": self.opt,\n'
        '            "lr_scheduler": {"scheduler": self.schedule, "interval": "step"},\n'
        "        }\n"
        "    return self.opt"
    )


def test_a_scheduler_that_is_only_made_at_times_is_stepped_where_lightning_steps_none(tmp_path):
    made = rewritten(tmp_path, trial(("lr=0.1))\n", MAYBE), (STEPS, STEPS * 2)))
    assert f"return [self.opt], [self.schedule] if {THERE} else []\n" in made
    assert f"    if {THERE}:\n        self.schedule.step()" in method(made, "training_step")


EVERY = """\
lr=0.1))
        every = {0}
        self.schedule = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 1), LRScheduler.StepMode.{1}, frequency=every
        )
"""


def test_a_scheduler_that_counts_batches_counts_them_over_epochs(tmp_path):
    every = EVERY.format('context.get_hparam("every")', "STEP_EVERY_BATCH")
    made = rewritten(tmp_path, trial(("lr=0.1))\n", every)))
    # Lightning would count those of each epoch anew.
    assert "frequency" not in method(made, "configure_optimizers") and "every = " not in made
    assert method(made, "lr_scheduler_step").endswith(
        "    if self.global_step % self.hparams.every == 0:\n        scheduler.step()"
    )


def test_a_scheduler_that_counts_what_a_variable_knows(tmp_path):
    every = EVERY.format('hparams["every"] * 2', "STEP_EVERY_BATCH")
    every = every.replace("    every", "    hparams = context.get_hparams()\n        every", 1)
    made = rewritten(tmp_path, trial(("lr=0.1))\n", every)))
    assert "MIGRATE" not in made
    assert '% (self.hparams["every"] * 2) == 0' in method(made, "lr_scheduler_step")


def test_a_scheduler_that_counts_batches_where_lightning_steps_none(tmp_path):
    every = EVERY.format(3, "STEP_EVERY_BATCH")
    made = rewritten(tmp_path, trial(("lr=0.1))\n", every), (STEPS, STEPS * 2)))
    assert "+ 1) % 3 == 0:\n" in method(made, "training_step") and "every = " not in made


def test_a_scheduler_that_counts_epochs(tmp_path):
    every = EVERY.format(2, "STEP_EVERY_EPOCH")
    made = rewritten(tmp_path, trial(("lr=0.1))\n", every)))
    assert '"interval": "epoch", "frequency": 2' in made and "every = " not in made
    assert "lr_scheduler_step" not in made


ALWAYS = """\
        self.other = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 2), LRScheduler.StepMode.STEP_EVERY_EPOCH
        )
"""


def test_one_of_two_schedulers_that_is_only_made_at_times(tmp_path):
    made = rewritten(tmp_path, trial(("lr=0.1))\n", MAYBE + ALWAYS)))
    assert method(made, "configure_optimizers") == (
        "def configure_optimizers(self):\n"
        "    opt = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"
        "    self.schedule = None\n"
        "    if self.hparams.warm:\n"
        "        self.schedule = torch.optim.lr_scheduler.StepLR(opt, 1)\n"
        "    other = torch.optim.lr_scheduler.StepLR(opt, 2)\n"
        "    schedulers = []\n"
        f"    if {THERE}:\n"
        '        schedulers.append({"scheduler": self.schedule, "interval": "step"})\n'
        '    schedulers.append({"scheduler": other, "interval": "epoch"})\n'
        "    return [opt], schedulers"
    )


@pytest.mark.parametrize("caller", ["build_training_data_loader", "__init__"])
def test_a_scheduler_that_a_method_makes(tmp_path, caller):
    own = """\
    def schedule_with(self, opt):
        self.schedule = self.context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(opt, 1), LRScheduler.StepMode.STEP_EVERY_BATCH
        )

    def build_training_data_loader(self):
"""
    call = "        self.schedule_with(self.model.opt)\n"
    is_early = caller == "__init__"
    changes = (
        ("    def build_training_data_loader(self):\n", own + ("" if is_early else call)),
        ("lr=0.1))\n", f"lr=0.1))\n{call if is_early else ''}"),
    )
    made = rewritten(tmp_path, trial(*changes))
    # Lightning asks for optimizers before it asks for loaders.
    assert (".step()" not in method(made, "training_step")) == is_early


IDLE = """\
lr=0.1))
        # a warm-up
        warm = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda step: (step + 1) / 8)
        self.schedule = context.wrap_lr_scheduler(warm, LRScheduler.StepMode.MANUAL_STEP)
"""


def test_a_scheduler_that_nothing_steps_sets_the_first_learning_rate(tmp_path):
    made = rewritten(tmp_path, trial(("lr=0.1))\n", IDLE)))
    assert "automatic_optimization" not in made
    assert method(made, "configure_optimizers") == (
        "def configure_optimizers(self):\n"
        "    opt = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"
        "    # a warm-up\n"
        "    # nothing steps it: it sets the first learning rates\n"
        "    torch.optim.lr_scheduler.LambdaLR(opt, lambda step: (step + 1) / 8)\n"
        "    return opt"
    )


@pytest.mark.parametrize(
    "used",
    [
        "self.schedule.step()",
        "print(self.schedule.get_last_lr())",
        "print(self.context.lr_schedulers)",
    ],
)
def test_a_scheduler_that_something_uses_is_kept(tmp_path, used):
    change = ('        return {"error"', f'        {used}\n        return {{"error"')
    made = rewritten(tmp_path, trial(("lr=0.1))\n", IDLE), change))
    assert "self.automatic_optimization = False" in made
    assert "schedule]" in method(made, "configure_optimizers").splitlines()[-1]


@pytest.mark.parametrize(
    "made",
    [
        # under another name, too
        "self.warm = {0}\n        {1}(self.warm, {2})",
        "warm = {0}\n        self.both = [warm]\n        {1}(warm, {2})",
        # a method keeps it
        "{1}(self.make(self.opt), {2})",
    ],
)
def test_a_scheduler_that_has_another_name_may_be_stepped_by_that(tmp_path, made):
    scheduler = "torch.optim.lr_scheduler.LambdaLR(self.opt, lambda step: (step + 1) / 8)"
    wrap = "self.schedule = context.wrap_lr_scheduler"
    lines = made.format(scheduler, wrap, "LRScheduler.StepMode.MANUAL_STEP")
    method_of_it = scheduler.replace("self.opt", "optimizer")
    keeping = f"""\
    def make(self, optimizer):
        self.warm = {method_of_it}
        return self.warm

    def train_batch("""
    source = trial(
        ("lr=0.1))\n", f"lr=0.1))\n        {lines}\n"), ("    def train_batch(", keeping)
    )
    result = rewritten(tmp_path, source)
    assert "self.automatic_optimization = False" in result
    assert "nothing steps it" not in result


def test_a_run_goes_on_with_the_learning_rate_of_a_scheduler_that_nothing_steps(tmp_path):
    data = (("DataLoader([], batch", "DataLoader(list(torch.ones(8, 2)), batch"),)
    made = rewritten(tmp_path, trial(("lr=0.1))\n", IDLE), *data))
    space: dict[str, Any] = {"__name__": "made"}
    exec(made, space)
    loud = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet: dict[str, Any] = dict.fromkeys(loud, False)
    weights, rates = [], []
    for lengths in ([2], [1, 2]):
        torch.manual_seed(0)
        path = None
        for epochs in lengths:
            module = space["Trial"](global_batch_size=2)
            trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", **quiet)
            trainer.fit(module, ckpt_path=path, weights_only=False)
            path = tmp_path / "last.ckpt"
            trainer.save_checkpoint(path)
        weights.append(module.model.weight)
        rates.append(trainer.optimizers[0].param_groups[0]["lr"])
    assert torch.equal(*weights)
    assert rates == [0.1 / 8] * 2


CROSSED = """\
lr=0.1))
        self.schedule = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.LambdaLR(self.opt, lambda n: 1 / (n + 1)),
            LRScheduler.StepMode.STEP_EVERY_EPOCH,
        )
        self.decay = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.9),
            LRScheduler.StepMode.STEP_EVERY_BATCH,
        )
"""


def test_schedulers_step_in_their_order_after_the_last_batch_of_an_epoch(tmp_path):
    made = rewritten(tmp_path, trial(("lr=0.1))\n", CROSSED)))
    # Lightning steps those of batches first.
    assert method(made, "training_step").endswith(
        "    if self.trainer.is_last_batch:\n        self.schedule.step()\n    self.decay.step()"
    )
    first, second = CROSSED.index("        self.schedule"), CROSSED.index("        self.decay")
    epochs = "".join(
        CROSSED[first:second].replace("self.schedule", f"self.{name}") for name in "abc"
    )
    made = rewritten(tmp_path, trial(("lr=0.1))\n", CROSSED[:first] + epochs + CROSSED[second:])))
    steps = [f"        self.{name}.step()\n" for name in "abc"]
    assert method(made, "training_step").endswith(
        f"    if self.trainer.is_last_batch:\n{''.join(steps)}    self.decay.step()"
    )
    turned = CROSSED[:first] + CROSSED[second:] + CROSSED[first:second]
    made = rewritten(tmp_path, trial(("lr=0.1))\n", turned)))
    assert "manual_backward" not in made


BY_HAND = (
    ("lr=0.1))\n", SCHEDULE.format("LRScheduler.StepMode.MANUAL_STEP")),
    (STEPS, f"{STEPS}        self.schedule.step()\n"),
)


def test_a_scheduler_that_is_stepped_by_hand_after_each_batch_is_lightnings(tmp_path):
    made = rewritten(tmp_path, trial(*BY_HAND))
    assert "manual_backward" not in made and "schedule.step()" not in made
    assert '{"scheduler": schedule, "interval": "step"}' in method(made, "configure_optimizers")


EARLY = '        if batch_idx % 3 == 1:\n            return {"loss": loss}\n'


@pytest.mark.parametrize(
    "change",
    [
        ('{"loss": loss}', '{"loss": loss, "lr": self.schedule.get_last_lr()[0]}'),
        ('{"loss": loss}', '{"loss": loss, "lr": self.opt.param_groups[0]["lr"]}'),
        ("self.schedule.step()\n", "self.schedule.step(epoch_idx)\n"),
        ("self.schedule.step()\n", "if batch_idx:\n            self.schedule.step()\n"),
        (STEPS, ""),
        ("        self.context.backward", EARLY + "        self.context.backward"),
    ],
)
def test_a_scheduler_whose_steps_by_hand_are_seen_stays_as_it_is(tmp_path, change):
    made = rewritten(tmp_path, trial(*BY_HAND, change))
    assert "schedule.step(" in method(made, "training_step")


def test_a_scheduler_that_nothing_steps_may_be_made_at_times_beside_another(tmp_path):
    maybe = (
        MAYBE[MAYBE.index("        if") :]
        .replace("self.schedule", "self.warm")
        .replace("STEP_EVERY_BATCH", "MANUAL_STEP")
    )
    change = SCHEDULE.format("LRScheduler.StepMode.STEP_EVERY_EPOCH") + maybe
    made = method(rewritten(tmp_path, trial(("lr=0.1))\n", change))), "configure_optimizers")
    assert "    if self.hparams.warm:\n        # nothing steps it" in made
    assert made.endswith('"lr_scheduler": {"scheduler": schedule, "interval": "epoch"},\n    }')


STEPPED = ("lr=0.1))\n", SCHEDULE.format("LRScheduler.StepMode.STEP_EVERY_BATCH"))


def test_schedulers_step_where_a_batch_returns_early(tmp_path):
    early = '        if batch_idx % 3 == 1: return {"loss": loss}\n'
    backward = "        self.context.backward"
    made = rewritten(tmp_path, trial(STEPPED, (STEPS, STEPS * 2), (backward, early + backward)))
    # A hook behind the step is one that Lightning calls once ModelCheckpoint has saved.
    assert "on_train_batch_end" not in made
    assert (
        "    if batch_idx % 3 == 1:\n"
        '        self.log("loss", loss)\n'
        "        self.schedule.step()\n"
        "        return\n"
    ) in method(made, "training_step")
    assert method(made, "training_step").endswith("\n    self.schedule.step()")


HEIRS = """\


class Second(Trial):
    def __init__(self, context):
        super().__init__(context)
        self.second = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 1), LRScheduler.StepMode.STEP_EVERY_BATCH
        )


class Other(Trial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        metrics = super().train_batch(batch, epoch_idx, batch_idx)
        return {**metrics, "more": batch.sum()}
"""


EPOCHS = (STEPPED[0], STEPPED[1].replace("BATCH", "EPOCH"))


@pytest.mark.parametrize("change", [STEPPED, EPOCHS, ("lr=0.1))\n", "lr=0.1))\n")])
def test_a_run_of_an_heir_goes_on_with_the_learning_rates_of_its_schedulers(tmp_path, change):
    data = ("DataLoader([], batch", "DataLoader(list(torch.ones(8, 2)), batch")
    made = rewritten(tmp_path, trial(change, data, (STEPS, STEPS * 2)) + HEIRS)
    assert "MIGRATE" not in made
    space: dict[str, Any] = {"__name__": "made"}
    exec(made, space)
    for name in ("Trial", "Second", "Other"):
        rates = [_rates(space[name], tmp_path / name, steps) for steps in ((16,), (8, 16))]
        assert rates[0] == rates[1]
        assert rates[0] < 0.1 or (change not in (STEPPED, EPOCHS) and name != "Second")


def test_a_validation_sees_what_schedulers_of_epochs_have_set(tmp_path):
    changes = (
        EPOCHS,
        (STEPS, STEPS * 2),
        ("DataLoader([], batch", "DataLoader(list(torch.ones(8, 2)), batch"),
        ('{"error": self.model(batch).sum()}', '{"rate": self.schedule.get_last_lr()[0]}'),
    )
    made = rewritten(tmp_path, trial(*changes).replace("DataLoader([]", "DataLoader([1.0]"))
    assert "MIGRATE" not in made
    space: dict[str, Any] = {"__name__": "made"}
    exec(made, space)
    loud = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet: dict[str, Any] = dict.fromkeys(loud, False)
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", **quiet)
    trainer.fit(space["Trial"](global_batch_size=2))
    assert trainer.callback_metrics["rate"] == pytest.approx(0.01)


class _Saving(pl.Callback):
    """Saves when ModelCheckpoint does, which has more to say of manual optimization."""

    def __init__(self, path) -> None:
        self._path = path

    def on_train_batch_end(self, trainer, *args) -> None:
        trainer.save_checkpoint(self._path)


@pytest.mark.parametrize("other", ["a.py", "zoo.py"])
def test_an_heir_may_have_the_name_of_another_class(tmp_path, other):
    (tmp_path / "base.py").write_text(trial((STEPS, STEPS * 2), ("class Trial", "class Base")))
    heir = HEIRS.partition("\n\n\nclass Other")[0].replace("Second(Trial)", "Trial(Base)")
    (tmp_path / "heir.py").write_text(f"{HEADER}from base import Base\n{heir}\n")
    (tmp_path / other).write_text(trial((STEPS, STEPS * 2), header=f"{HEADER}import base\n"))
    made = {f.path.name: f.after.decode() for f in migrate([str(tmp_path)], "lightning").files}
    assert method(made["base.py"], "training_step").endswith("    self.step_schedulers()")
    assert method(made["heir.py"], "step_schedulers").endswith("    self.second.step()")
    assert "step_schedulers" not in made[other]


def test_a_trial_with_a_mixin_steps_in_training_step_itself(tmp_path):
    mixin = (
        "class Mixin:\n    def scale(self):\n        return self.context.get_hparam('scale')\n\n\n"
    )
    changes = (STEPPED, (STEPS, STEPS * 2), ("class Trial(Py", f"{mixin}class Trial(Mixin, Py"))
    made = rewritten(tmp_path, trial(*changes))
    assert method(made, "training_step").endswith("    self.schedule.step()")
    assert "step_schedulers" not in made


def _rates(module: type[pl.LightningModule], folder, steps) -> float:
    """The last learning rate of a run that goes on from a checkpoint after each of some steps."""
    path = None
    for step in steps:
        saving = _Saving(folder)
        trainer = pl.Trainer(
            max_steps=step,
            accelerator="cpu",
            callbacks=[saving],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module(global_batch_size=2), ckpt_path=path, weights_only=False)
        path = folder
    return trainer.optimizers[0].param_groups[0]["lr"]


def test_what_another_heir_steps_is_not_asked_for(tmp_path):
    lines = trial(header="").splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if "build_training_data_loader" in line)
    loaders = next(i for i, line in enumerate(lines) if "def train_batch" in line)
    base = "class Base(PyTorchTrial):\n" + "".join(lines[at:loaders])
    one = "".join([*lines[:at], *lines[loaders:]]).replace("(PyTorchTrial)", "(Base)")
    other = one.replace("class Trial", "class Other").replace(
        "lr=0.1))\n", SCHEDULED.format("STEP_EVERY_EPOCH")
    )
    # Two steps are none of Lightning's.
    step = "        self.context.step_optimizer(self.opt)\n"
    other, one = (text.replace(step, step * 2) for text in (other, one))
    made = rewritten(tmp_path, f"{HEADER}\n{base}\n\n{one}\n\n{other}")
    assert "heirs have schedulers" not in made
    assert made.count("self.scheduler.step()") == 1


SCHEDULED = """\
lr=0.1))
        self.scheduler = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 2), LRScheduler.StepMode.{0}
        )
"""


@pytest.mark.parametrize(
    ("call", "first", "heir", "is_sure"),
    [
        ("self.make()", "", "", True),
        ("self.sched = self.make()", "", "", True),
        ("if batch:\n            self.make()", "", "", False),
        ("self.make()", "if self.off:\n            return\n        ", "", False),
        ("self.call(self.make)", "", "", False),
        ("self.make()", "", "\n\nclass Heir(Trial):\n    def make(self):\n        pass\n", False),
    ],
)
def test_what_a_method_makes_that_init_runs_is_there(call, first, heir, is_sure, tmp_path):
    made = (
        "self.context.wrap_lr_scheduler(torch.optim.lr_scheduler.StepLR(self.opt, 2), step_mode=1)"
    )
    made = made.replace("step_mode=1", "LRScheduler.StepMode.STEP_EVERY_EPOCH")
    own = f"    def make(self):\n        {first}self.s = {made}\n\n"
    source = trial(
        ("lr=0.1))\n", f"lr=0.1))\n        {call}\n"),
        ("    def build_training", f"{own}    def build_training"),
    )
    text = method(rewritten(tmp_path, source + heir), "configure_optimizers")
    assert ('if getattr(self, "s", None)' not in text) is is_sure

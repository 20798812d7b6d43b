from __future__ import annotations

import pytest

from det_compat.migrate.tree.marks import PRECISION, PRECISION_LINK, comment
from tests.migrate.rewriting import HEADER, method, rewritten, trial


def test_hparams_are_there_already(tmp_path):
    change = ("self.context = context", "self.hparams = context.get_hparams()")
    made = rewritten(tmp_path, trial(change, ("lr=0.1", 'lr=self.hparams["lr"]')))
    assert 'lr=self.hparams["lr"]' in made
    assert "self.hparams = " not in made
    assert "def __init__(self, *, global_batch_size: int, lr: Any)" in made


WRAPPED = ("self.context = context", "self.hparams = AttrDict(context.get_hparams())")


@pytest.mark.parametrize(
    ("use", "is_plain"),
    [
        pytest.param('lr=self.hparams.get("lr", self.hparams.lr)', True, id="read"),
        pytest.param("lr=self.hparams.optimizer.lr", False, id="nested"),
        pytest.param('lr=self.hparams.update(x=1) or self.hparams["x"]', False, id="changed"),
        pytest.param('lr=vars(self.hparams)["lr"]', False, id="as an object"),
    ],
)
def test_hparams_in_a_dict_of_attributes(tmp_path, use, is_plain):
    made = rewritten(tmp_path, trial(WRAPPED, ("lr=0.1", use)))
    assert (use in made) is is_plain and ("AttrDict" not in made) is is_plain
    given = "self.hyperparameters" if "def hyperparameters" in made else "self.hparams"
    assert (f"self.trial_hparams = AttrDict({given})" in made) is not is_plain


def test_a_dict_of_attributes_that_is_handed_on_has_hyperparameters_alone(tmp_path):
    made = rewritten(tmp_path, trial(WRAPPED, ("lr=0.1", "lr=rate(self.hparams)")))
    assert "lr=rate(AttrDict(self.hyperparameters))" in made
    assert "self.trial_hparams" not in made


def test_nested_hparams_that_are_handed_on_keep_their_dict(tmp_path):
    config = "searcher: {name: single, metric: x, max_length: {batches: 8}}\n"
    config += "hyperparameters: {global_batch_size: 4, model: {width: 3}}\n"
    (tmp_path / "const.yaml").write_text(f"entrypoint: model_def:Trial\n{config}")
    made = rewritten(tmp_path, trial(WRAPPED, ("lr=0.1", "lr=rate(self.hparams)")))
    assert "lr=rate(self.trial_hparams)" in made


@pytest.mark.parametrize("config", [True, False])
def test_nested_hparams_that_are_looked_up_keep_their_dict(tmp_path, config):
    if config:
        text = "searcher: {name: single, metric: x, max_length: {batches: 8}}\n"
        text += "hyperparameters: {global_batch_size: 4, net: {width: 3}}\n"
        (tmp_path / "const.yaml").write_text(f"entrypoint: model_def:Trial\n{text}")
    change = (WRAPPED[0], f"{WRAPPED[1]}\n        self.net = self.hparams.net")
    made = rewritten(tmp_path, trial(change, ("lr=0.1", "lr=rate(self.net, **self.net)")))
    assert "self.net = self.trial_hparams.net" in made


def test_mixed_precision_is_never_dropped_in_silence(tmp_path):
    call = ":\n            context.experimental.use_amp()\n        "
    calls = f"if self.mixed{call}elif self.more{call}else{call}\n"
    change = ("self.context = context\n", f"self.context = context\n        {calls}")
    made = rewritten(tmp_path, trial(change))
    mark = comment(PRECISION, PRECISION_LINK)
    assert f"    {mark}\n    def __init__(" in made
    assert "if self.mixed" not in made
    assert rewritten(tmp_path, made) == made


def test_an_alias_beside_another_value(tmp_path):
    text = (
        "n, ranks = 3, self.context.distributed\n"
        "        return DataLoader([ranks.size], batch_size=n)"
    )
    change = ("return DataLoader([], batch_size=self.context.get_per_slot_batch_size())", text)
    made = method(rewritten(tmp_path, trial(change)), "train_dataloader")
    assert made == (
        "def train_dataloader(self):\n"
        "    n = 3\n"
        "    # Lightning shuffles this in several processes\n"
        "    return DataLoader([self.trainer.world_size], batch_size=n)"
    )


def test_a_variable_of_the_file_becomes_the_module(tmp_path):
    setting = "self.context = context\n        global shared\n        shared = context"
    source = trial(("self.context = context", setting))
    made = rewritten(tmp_path, f'{source}\n\ndef rate():\n    return shared.get_hparam("rate")\n')
    assert "        global shared\n        shared = self\n" in made
    assert "def rate():\n    return shared.hparams.rate\n" in made
    assert "MIGRATE" not in made


def test_a_torch_module_with_the_context(tmp_path):
    loss = (
        "class Loss(torch.nn.Module):\n"
        "    def __init__(self, context: PyTorchTrialContext):\n"
        "        super().__init__()\n"
        "        self.context = context\n\n\n"
    )
    change = ("lr=0.1))\n", "lr=0.1))\n        self.loss = Loss(context)\n")
    both = loss.replace("self.context = context", "self.n, self.context = 2, context")
    made = rewritten(tmp_path, trial(change, header=HEADER + both))
    assert "        self.n = 2\n        # no submodule, since it has this one in it\n" in made
    made = rewritten(tmp_path, trial(change, header=HEADER + loss))
    assert "        # no submodule, since it has this one in it\n" in made
    assert '        object.__setattr__(self, "context", context)\n' in made
    assert "self.loss = Loss(self)" in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("device", "self.device"),
        ("distributed.size", "self.trainer.world_size"),
        ("distributed.rank", "self.global_rank"),
    ],
)
def test_a_variable_that_keeps_a_value_stays(tmp_path, old, new):
    text = f"kept = self.context.{old}\n        loss = self.model(batch).sum().to(kept)"
    made = rewritten(tmp_path, trial(("loss = self.model(batch).sum()", text)))
    assert method(made, "training_step").startswith(
        "def training_step(self, batch, batch_idx):\n"
        f"    kept = {new}\n"
        "    loss = self.model(batch).sum().to(kept)\n"
    )


def test_a_value_beside_another_stays(tmp_path):
    text = "n, ranks = 3, self.context.distributed.size\n        loss = self.model(batch).sum()"
    made = rewritten(tmp_path, trial(("loss = self.model(batch).sum()", text)))
    assert "    n, ranks = 3, self.trainer.world_size\n" in method(made, "training_step")


def test_an_attribute_of_the_same_name_goes(tmp_path):
    text = "self.device = context.device\n        self.context = context\n"
    source = trial(
        ("self.context = context\n", text),
        ("self.model(batch)", "self.model(batch.to(self.device))"),
    )
    made = rewritten(tmp_path, source)
    assert "self.device = " not in made
    assert "self.model(batch.to(self.device))" in made


SCHEDULE = """\
lr=0.1))
        {0}
        self.schedule = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 1), step_mode=step_mode
        )
"""


def test_a_step_mode_with_a_name_goes(tmp_path):
    mode = "step_mode = LRScheduler.StepMode.STEP_EVERY_EPOCH"
    made = rewritten(tmp_path, trial(("lr=0.1))\n", SCHEDULE.format(mode))))
    assert "step_mode =" not in made
    assert '"interval": "epoch"' in made
    assert "MIGRATE" not in made
    assert "determined" not in made


def test_a_step_mode_that_is_read_is_a_text(tmp_path):
    mode = "step_mode = LRScheduler.StepMode.STEP_EVERY_EPOCH\n        print(step_mode)"
    made = rewritten(tmp_path, trial(("lr=0.1))\n", SCHEDULE.format(mode))))
    assert 'step_mode = "STEP_EVERY_EPOCH"' in made
    assert "MIGRATE" not in made


def test_a_step_mode_that_a_base_in_another_file_reads_stays(tmp_path):
    base = trial(
        ("lr=0.1))\n", SCHEDULE.format("step_mode = self.mode")),
        (
            "    def __init__",
            "    mode = LRScheduler.StepMode.STEP_EVERY_EPOCH\n\n    def __init__",
        ),
    )
    (tmp_path / "base.py").write_text(base)
    heir = "class Heir(Trial):\n    mode = LRScheduler.StepMode.STEP_EVERY_BATCH\n"
    imports = "from determined.pytorch import LRScheduler\nfrom base import Trial\n\n\n"
    assert '    mode = "STEP_EVERY_BATCH"\n' in rewritten(tmp_path, imports + heir)


def test_the_device_is_there_already(tmp_path):
    changes = (
        ("self.context = context", "self.context = context\n        self.device = context.device"),
        ("self.model(batch).sum()}", "self.model(batch.to(self.device)).sum()}"),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert "self.model(batch.to(self.device)).sum()" in made
    assert "trial_device" not in made
    assert "MIGRATE" not in made


def test_a_context_in_a_cast_or_set_by_a_function_is_no_part_of_the_module(tmp_path):
    text = "self.ctx = cast(PyTorchTrialContext, context)\n        keep(self, context)"
    text += "\n        self.me = self"
    change = ("self.context = context", f"self.context = context\n        {text}")
    source = trial(change, ("class T", "from typing import cast\n\n\nclass T"))
    source += "\n\ndef keep(trial, context: PyTorchTrialContext):\n    trial.ctx = context\n"
    made = rewritten(tmp_path, source)
    assert "self.ctx" not in made
    assert 'object.__setattr__(trial, "ctx", context)' in made
    assert 'object.__setattr__(self, "me", self)' in made


def test_a_context_that_is_kept_twice_at_once_makes_no_module_a_part_of_itself(tmp_path):
    source = trial(("self.context = context", "self.context = (kept := context)"))
    made = rewritten(tmp_path, source)
    assert ":=" not in made and "self.context" not in made


def test_a_class_says_of_no_context_that_it_has_one(tmp_path):
    said = "class Trial(PyTorchTrial):\n    context: PyTorchTrialContext\n    size: int\n\n"
    made = rewritten(tmp_path, trial(("class Trial(PyTorchTrial):\n", said)))
    assert "class Trial(pl.LightningModule):\n    size: int\n\n    def __init__" in made

from __future__ import annotations

import pytest

from det_compat.migrate.configs import BATCHES
from tests.migrate.rewriting import method, rewritten, trial

CONFIG = """\
entrypoint: model_def:Trial
hyperparameters: {{global_batch_size: 8}}
searcher: {{name: single, metric: error, max_length: {{batches: 8}}}}
optimizations: {{aggregation_frequency: {0}, average_aggregated_gradients: {1}}}
"""
STEP = "self.context.step_optimizer(self.opt)"
SCHEDULED = """\
lr=0.1))
        self.schedule = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 1), LRScheduler.StepMode.{0}
        )
"""


def aggregated(folder, *changes, frequency=3, averages="true"):
    (folder / "const.yaml").write_text(CONFIG.format(frequency, averages))
    return rewritten(folder, trial(*changes))


def test_a_module_steps_once_in_several_batches(tmp_path):
    clipped = STEP.replace("opt)", "opt, clip_grads=clip)  # why")
    made = aggregated(tmp_path, (STEP, clipped))
    assert "MIGRATE" not in made
    assert "global_batch_size: int = 8, accumulate_grad_batches: int = 3" in made
    assert method(made, "training_step").splitlines()[3:-1] == [
        "    self.manual_backward(loss)",
        "    # why",
        "    if self.is_step_due():",
        "        self.average_gradients(opt)",
        '        params = [p for group in opt.param_groups for p in group["params"]]',
        "        if clip is not None:",
        "            clip(params)",
        "        opt.step()",
        "        opt.zero_grad()",
    ]
    assert method(made, "is_step_due").splitlines()[-2:] == [
        "    batches = self.trainer.fit_loop.total_batch_idx + 1",
        "    return batches % self.hparams.accumulate_grad_batches == 0",
    ]
    assert "def on_validation_model_zero_grad" in made


def test_a_module_names_the_batches_of_each_config(tmp_path):
    (tmp_path / "slow.yaml").write_text(CONFIG.format(1, "true"))
    made = aggregated(tmp_path)
    assert "accumulate_grad_batches: int = 3" in made
    said = method(made, "is_step_due").splitlines()[1]
    assert said == "    # accumulate_grad_batches is 3 for const.yaml, 1 for slow.yaml"


@pytest.mark.parametrize(
    ("averages", "given", "is_averaged"),
    [
        ("false", "", False),
        ("false", ", average_aggregated_gradients=True", True),
        ("true", ", average_aggregated_gradients=False", False),
    ],
)
def test_gradients_are_averaged_where_they_were(averages, given, is_averaged, tmp_path):
    change = ("lr=0.1))\n", f"lr=0.1){given})\n")
    made = aggregated(tmp_path, change, averages=averages)
    assert "self.is_step_due()" in made
    assert ("average_gradients" in made) == is_averaged


@pytest.mark.parametrize(
    ("mode", "lines"),
    [
        ("STEP_EVERY_OPTIMIZER_STEP", ["self.schedule.step()"]),
        (
            "STEP_EVERY_BATCH",
            [
                "for _ in range(self.hparams.accumulate_grad_batches):",
                "    self.schedule.step()",
            ],
        ),
        (
            "STEP_EVERY_EPOCH",
            [
                "# the last step of an epoch",
                "last, length = self.trainer.fit_loop.total_batch_idx, "
                "self.trainer.num_training_batches",
                "following = last + self.hparams.accumulate_grad_batches",
                "for epoch in range(last // length, following // length):",
                "    self.schedule.step()",
            ],
        ),
        ("MANUAL_STEP", []),
    ],
)
def test_schedulers_step_with_optimizers(mode, lines, tmp_path):
    made = aggregated(tmp_path, ("lr=0.1))\n", SCHEDULED.format(mode)))
    steps = ["    if self.is_step_due():", *(f"        {line}" for line in lines)]
    end = method(made, "training_step").splitlines()[-len(steps) :]
    assert (end == steps) is bool(lines)
    assert "on_train_batch_end" not in made
    assert "on_train_epoch_end" not in made


def test_schedulers_step_as_a_run_decides(tmp_path):
    mode = '{"batch": LRScheduler.StepMode.STEP_EVERY_BATCH}[context.get_hparam("mode")]'
    scheduled = SCHEDULED.replace("LRScheduler.StepMode.{0}", mode)
    made = aggregated(tmp_path, ("lr=0.1))\n", scheduled))
    assert "MIGRATE" not in made
    said = method(made, "training_step").partition("    if self.is_step_due():\n        if")[2]
    asked = [line.strip() for line in f"if{said}".splitlines() if "step_mode ==" in line]
    assert asked == [
        'if self.schedule_step_mode == "STEP_EVERY_OPTIMIZER_STEP":',
        'if self.schedule_step_mode == "STEP_EVERY_BATCH":',
        'if self.schedule_step_mode == "STEP_EVERY_EPOCH":',
    ]
    assert "            for _ in range(self.hparams.accumulate_grad_batches):\n" in said


def test_what_asks_a_context_asks_the_module(tmp_path):
    asking = "if self.context._should_communicate_and_update():\n            print('due')"
    made = aggregated(
        tmp_path,
        (STEP, f"{STEP}\n        {asking}"),
        ("return {", "print(self.context._aggregation_frequency)\n        return {"),
    )
    assert "        if self.is_step_due():\n            print('due')" in made
    assert "print(self.hparams.accumulate_grad_batches)" in made


def test_a_scaler_steps_when_a_step_is_due(tmp_path):
    made = aggregated(tmp_path, (STEP, f"{STEP[:-1]}, scaler=self.scaler)"))
    assert "MIGRATE" not in made
    step = method(made, "training_step").partition("    if self.is_step_due():\n")[2]
    assert step.startswith("        self.average_gradients(opt)\n        if self.scaler is None:\n")
    assert "            self.scaler.step(opt)\n" in step


OWN = "    def is_step_due(self):\n        pass\n\n"
MIXIN = "class Mixed:\n    def clipped(self):\n        return self.context.get_hparam('clip')\n\n\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (STEP, f"{STEP[:-1]}, auto_zero_grads=False)"),
        (STEP, f"step = {STEP}"),
        ("    def train_batch", f"{OWN}    def train_batch"),
        ("class Trial(", f"{MIXIN}class Trial(Mixed, "),
    ],
)
def test_what_cannot_be_written_so_is_marked(old, new, tmp_path):
    made = aggregated(tmp_path, (old, new))
    assert "# MIGRATE: const.yaml asks for steps with the mean of the gradients of 3 batch" in made
    assert "accumulate_grad_batches" not in made


HEIRS = """\
class Narrow(Trial):
    pass


class Wide(Trial):
    def __init__(self, context):
        super().__init__(context)
        self.wide = context.wrap_optimizer(torch.optim.SGD(self.parameters(), lr=0.2))
        self.schedule = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.wide, 1), LRScheduler.StepMode.STEP_EVERY_BATCH
        )
"""


def family(folder, frequencies):
    for name, frequency in frequencies.items():
        config = CONFIG.format(frequency, "true").replace(":Trial", f":{name}")
        (folder / f"{name}.yaml").write_text(config)
    return rewritten(folder, f"{trial()}\n\n{HEIRS}")


def test_a_family_steps_once_in_several_batches(tmp_path):
    made = family(tmp_path, {"Narrow": 3, "Wide": 3})
    assert "MIGRATE" not in made
    assert made.count("def is_step_due") == made.count("def average_gradients") == 1
    assert made.count("accumulate_grad_batches: int = 3") == 2
    assert made.count("def on_validation_model_zero_grad") == 1
    wide = made.partition("class Wide(")[2]
    assert method(wide, "step_schedulers").splitlines()[1:] == [
        "    if self.is_step_due():",
        "        for _ in range(self.hparams.accumulate_grad_batches):",
        "            self.schedule.step()",
    ]


def test_a_family_whose_base_is_not_initialized_knows_the_number_of_batches(tmp_path):
    (tmp_path / "const.yaml").write_text(CONFIG.format(3, "true"))
    head, init, rest = trial().partition("    def __init__")
    own, build, rest = rest.partition("    def build_training")
    loaders, train, steps = rest.partition("    def train_batch")
    base = f"{head.replace('class Trial', 'class Base')}{build}{loaders}"
    made = rewritten(tmp_path, f"{base}\n\nclass Trial(Base):\n{init}{own}{train}{steps}")
    assert "MIGRATE" not in made
    saved = f"self.save_hyperparameters(dict({BATCHES}={BATCHES}, **hparams))"
    assert "".join(saved.split()) in "".join(made.split())


def test_each_class_of_a_family_has_its_own_number(tmp_path):
    made = family(tmp_path, {"Narrow": 2, "Wide": 3})
    assert "MIGRATE" not in made
    base, narrow, wide = made.split("\nclass ")[1:]
    said = "# accumulate_grad_batches is 2 for Narrow.yaml, 3 for Wide.yaml"
    assert said in method(base, "is_step_due")
    assert "accumulate_grad_batches: int = 1" in method(base, "__init__")
    assert method(narrow, "__init__").splitlines() == [
        "def __init__(self, *, accumulate_grad_batches: int = 2, **hparams: Any):",
        "    super().__init__(**hparams)",
    ]
    assert "accumulate_grad_batches: int = 3" in method(wide, "__init__")


def test_configs_that_disagree_are_marked(tmp_path):
    (tmp_path / "sum.yaml").write_text(CONFIG.format(2, "false"))
    assert aggregated(tmp_path).count("# MIGRATE") == 2


def test_the_first_config_says_what_is_usual(tmp_path):
    (tmp_path / "often.yaml").write_text(CONFIG.format(4, "true"))
    assert "accumulate_grad_batches: int = 1" in aggregated(tmp_path, frequency=1)


@pytest.mark.parametrize("entrypoint", ["python3 train.py", "python3 model_def.py"])
def test_a_script_is_told_by_no_config(entrypoint, tmp_path):
    text = CONFIG.format(3, "true").replace("model_def:Trial", entrypoint)
    (tmp_path / "const.yaml").write_text(text)
    assert "accumulate_grad_batches" not in rewritten(tmp_path, trial())


def test_a_module_that_is_made_by_hand_steps_as_it_did(tmp_path):
    script = """
import det_compat

made = det_compat.to_lightning(Trial)({})
other = det_compat.to_lightning(Trial)({}, config)
"""
    (tmp_path / "const.yaml").write_text(CONFIG.format(3, "true"))
    made = rewritten(tmp_path, trial() + script)
    assert "made = Trial(**{}, accumulate_grad_batches=1)" in made
    assert 'get("aggregation_frequency", 1)' in made


@pytest.mark.parametrize(
    ("lr", "saved"),
    [
        ('hparams["lr"]', [""]),
        ('context.get_hparams().get("lr", 1)', ['"accumulate_grad_batches"', "hparams"]),
    ],
)
def test_a_trial_that_is_given_its_hyperparameters_as_a_dict_steps_so(lr, saved, tmp_path):
    script = """

import determined.pytorch as pytorch


def main(hparams):
    with pytorch.init(hparams=hparams, aggregation_frequency=2) as context:
        trainer = pytorch.Trainer(Trial(context, hparams), context)
        trainer.fit(max_length=pytorch.Epoch(1))
"""
    source = trial(
        ("(self, context)", "(self, context, hparams)"),
        ("lr=0.1", f"lr={lr}"),
        ("self.context.get_per_slot_batch_size()", "4"),
    )
    made = rewritten(tmp_path, source + script)
    assert "Trial(hparams, accumulate_grad_batches=2)" in made
    assert "# MIGRATE:" not in made
    saving = [f"        self.save_hyperparameters({each})\n" for each in saved]
    assert "        super().__init__()\n" + "".join(saving) in made

from __future__ import annotations

import textwrap

import pytest

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import method, rewritten

OLD = """\
import torch
from determined.pytorch import ClipGradsL2Norm, DataLoader, LRScheduler, PyTorchTrial


class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context

    def build_model(self):
        return torch.nn.Linear(2, 1)

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def create_lr_scheduler(self, optimizer):
        return LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 2), step_every_epoch=True)

    def build_training_data_loader(self):
        return DataLoader([], batch_size=4)

    def build_validation_data_loader(self):
        return DataLoader([], batch_size=4)

    def build_callbacks(self):
        limit = 2.0
        return {"clip": ClipGradsL2Norm(limit)}

    def train_batch(self, batch, model, epoch_idx, batch_idx):
        # forward
        return {"loss": model(batch).sum(), "n": 1}

    def evaluate_batch(self, batch, model):
        return {"error": model(batch).sum()}
"""


def test_init_wraps(tmp_path):
    assert method(rewritten(tmp_path, OLD, "context"), "__init__") == (
        "def __init__(self, context):\n"
        "    self.context = context\n"
        "\n"
        "    self.model = context.wrap_model(self.build_model())\n"
        "    self.opt = context.wrap_optimizer(self.optimizer(self.model))\n"
        "    self.lr_scheduler = context.wrap_lr_scheduler(\n"
        "        self.create_lr_scheduler(self.opt), "
        "step_mode=LRScheduler.StepMode.STEP_EVERY_EPOCH\n"
        "    )"
    )


@pytest.mark.parametrize(
    ("metric", "then"),
    [
        ("model(batch).mean()", "self.model(batch).mean()"),
        ("net(batch).mean()", "net(batch).mean()"),
        ("self.rate()", "self.rate()"),
    ],
)
def test_a_metric_that_reads_the_model_is_computed_before_the_step(tmp_path, metric, then):
    loss = "        net = model\n        loss = net(batch).sum()\n"
    text = OLD.replace(
        '        return {"loss": model(batch).sum(), "n": 1}\n',
        f'{loss}        return {{"loss": loss, "mean": {metric}}}\n',
    ).replace('return {"clip": ClipGradsL2Norm(limit)}', "return {}")
    assert method(rewritten(tmp_path, text, "context"), "train_batch") == (
        "def train_batch(self, batch, epoch_idx, batch_idx):\n"
        "    # forward\n"
        "    net = self.model\n"
        "    loss = net(batch).sum()\n"
        f'    metrics = {{"loss": loss, "mean": {then}}}\n'
        "    self.context.backward(loss)\n"
        "    self.context.step_optimizer(self.opt)\n"
        "    return metrics"
    )


def test_train_batch_steps_and_clips(tmp_path):
    assert method(rewritten(tmp_path, OLD, "context"), "train_batch") == (
        "def train_batch(self, batch, epoch_idx, batch_idx):\n"
        "    # forward\n"
        "    loss = self.model(batch).sum()\n"
        "    self.context.backward(loss)\n"
        "    self.context.step_optimizer(\n"
        "        self.opt, clip_grads=lambda params: "
        "torch.nn.utils.clip_grad_norm_(params, 2.0)\n"
        "    )\n"
        '    return {"loss": loss, "n": 1}'
    )


@pytest.mark.parametrize(
    "body",
    [
        'return {"clip": ClipGradsL2Norm(2.0)} if self.clips else {}',
        'c = {}\nif self.clips:\n    c = {"clip": ClipGradsL2Norm(2.0)}\nreturn c',
        'if not self.clips:\n    return {}\nreturn {"clip": ClipGradsL2Norm(2.0)}',
        'n = 1.0\nreturn {"clip": ClipGradsL2Norm(n + 1)}',
        'return {"a": ClipGradsL2Norm(3.0), "b": ClipGradsL2Norm(2.0)}',
        'c = {}\nc["clip"] = ClipGradsL2Norm(2.0)\nreturn c',
    ],
)
def test_clipping_that_is_more_than_one_callback_stays_one(tmp_path, body):
    source = OLD.replace(
        '        limit = 2.0\n        return {"clip": ClipGradsL2Norm(limit)}',
        textwrap.indent(body, " " * 8),
    ).replace("self.context = context\n", "self.context = context\n        self.clips = False\n")
    made = rewritten(tmp_path, source)
    assert "configure_gradient_clipping" not in made
    # Lightning calls it, as Determined did then.
    assert "MIGRATE" not in made
    assert "ClipGradsL2Norm(" in method(made, "configure_callbacks")
    kept = rewritten(tmp_path, source, "context")
    assert "MIGRATE" in kept and "clip_grads=" not in kept


def test_nothing_else_changes(tmp_path):
    made = rewritten(tmp_path, OLD, "context")
    assert "ClipGradsL2Norm" not in made
    assert "        return torch.optim.lr_scheduler.StepLR(optimizer, 2)\n" in made
    assert 'return {"error": self.model(batch).sum()}' in made
    assert rewritten(tmp_path, made, "context") == made


def test_on_to_lightning(tmp_path):
    made = rewritten(tmp_path, OLD)
    assert "determined" not in made
    assert "    opt = self.optimizer(self.model)\n" in method(made, "configure_optimizers")
    assert "params, 2.0)" in method(made, "configure_gradient_clipping")


def test_a_trial_that_is_not_known_stays(tmp_path):
    made = rewritten(tmp_path, OLD.replace("return LRScheduler(", "return make("), "context")
    assert "# MIGRATE: its LR scheduler is made in a way that is not known" in made
    assert "wrap_model" not in made


def test_a_trial_with_loaders_downloads_by_itself(tmp_path):
    (tmp_path / "data.py").write_text("def download_data(directory, data_config): ...\n")
    assert "download_data" not in rewritten(tmp_path, OLD, "context")


def test_trials_of_today_stay(tmp_path):
    source = rewritten(tmp_path, OLD, "context")
    assert rewritten(tmp_path, source, "context") == source


RUN_TIME_MODE = """\
        every = self.context.get_hparam("every_batch")
        return LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 2), step_every_batch=every)
"""


def of_run_time_mode() -> str:
    lines = OLD.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if "return LRScheduler(" in line)
    return "".join([*lines[:at], RUN_TIME_MODE, *lines[at + 1 :]])


def test_a_step_mode_of_run_time_is_wrapped_where_the_scheduler_is(tmp_path):
    after = """\
    self.lr_scheduler = context.wrap_lr_scheduler(
        self.create_lr_scheduler(self.opt),
        step_mode=(
            LRScheduler.StepMode.STEP_EVERY_BATCH if self.context.get_hparam("every_batch")
            else LRScheduler.StepMode.MANUAL_STEP
        ),
    )"""
    made = rewritten(tmp_path, of_run_time_mode(), "context")
    assert after in method(made, "__init__")
    assert "every = " not in method(made, "create_lr_scheduler")


def test_a_function_in_create_lr_scheduler_has_returns_of_its_own(tmp_path):
    ramp = "def ramp(step):\n            return min(1.0, step / 10)\n\n        return LRScheduler("
    source = OLD.replace("return LRScheduler(", ramp, 1)
    made = rewritten(tmp_path, source, "context")
    assert "MIGRATE" not in made
    assert "step_mode=LRScheduler.StepMode.STEP_EVERY_EPOCH" in method(made, "__init__")
    assert "return min(1.0, step / 10)" in method(made, "create_lr_scheduler")


@pytest.mark.parametrize("given", ["mode", "step_mode=mode"])
def test_a_step_mode_in_a_variable_is_wrapped_where_the_scheduler_is(given, tmp_path):
    source = of_run_time_mode().replace(
        'every = self.context.get_hparam("every_batch")', "mode = LRScheduler.StepMode.MANUAL_STEP"
    )
    made = rewritten(tmp_path, source.replace("step_every_batch=every", given), "context")
    assert "step_mode=LRScheduler.StepMode.MANUAL_STEP" in method(made, "__init__")
    assert "mode =" not in method(made, "create_lr_scheduler")


def test_a_step_mode_of_run_time_steps_in_lightning(tmp_path):
    after = """
    if self.hparams.every_batch:
        self.lr_scheduler.step()"""
    made = rewritten(tmp_path, of_run_time_mode())
    assert method(made, "training_step").endswith(after)
    assert "MIGRATE" not in made


CHOSEN_MODE = """\
        mode = LRScheduler.StepMode.MANUAL_STEP
        if self.context.get_hparam("every_batch"):
            mode = LRScheduler.StepMode.STEP_EVERY_BATCH
        elif self.context.get_hparam("every_epoch"):
            mode = LRScheduler.StepMode.STEP_EVERY_EPOCH
        return LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 2), step_mode=mode)
"""


def test_a_step_mode_that_an_if_chooses_is_chosen_where_the_scheduler_is_wrapped(tmp_path):
    after = """
    if self.hparams.every_batch:
        self.lr_scheduler.step()
    if self.trainer.is_last_batch and not self.hparams.every_batch and self.hparams.every_epoch:
        self.lr_scheduler.step()"""
    source = of_run_time_mode().replace(RUN_TIME_MODE, CHOSEN_MODE)
    made = rewritten(tmp_path, source)
    assert method(made, "training_step").endswith(after)
    assert "mode" not in method(made, "create_lr_scheduler")
    assert "MIGRATE" not in made


def test_a_step_mode_that_an_if_sets_among_others_is_left_to_the_method(tmp_path):
    chosen = CHOSEN_MODE.replace("\n        elif", "\n            print(mode)\n        elif")
    source = of_run_time_mode().replace(RUN_TIME_MODE, chosen)
    made = rewritten(tmp_path, source, "context")
    assert "return self.context.wrap_lr_scheduler(" in method(made, "create_lr_scheduler")
    assert "            print(mode)\n" in made
    module = rewritten(tmp_path, source)
    assert "MIGRATE" not in module
    assert 'self.lr_scheduler_step_mode == "STEP_EVERY_EPOCH"' in method(module, "training_step")


def test_a_step_mode_that_only_the_method_knows_is_left_to_the_method(tmp_path):
    source = of_run_time_mode().replace("every = self", "every = optimizer and self")
    made = rewritten(tmp_path, source, "context")
    assert "self.lr_scheduler = self.create_lr_scheduler(self.opt)\n" in made
    assert "self.context.wrap_lr_scheduler(" in method(made, "create_lr_scheduler")
    assert "MIGRATE" not in made
    stepped = method(rewritten(tmp_path, source), "training_step")
    assert 'self.lr_scheduler_step_mode in ("STEP_EVERY_BATCH", "STEP_EVERY_' in stepped
    unknown = source.replace("return LRScheduler(", "return helper(LRScheduler, ")
    made = rewritten(tmp_path, unknown, "context")
    assert "# MIGRATE: its LR scheduler is made in a way that is not known" in made


def test_an_older_trial_may_have_no_scheduler(tmp_path):
    change = "        return LRScheduler(torch"
    assert change in OLD
    lacking = f'        if self.context.get_hparam("plain"):\n            return None\n{change}'
    made = rewritten(tmp_path, OLD.replace(change, lacking))
    assert "MIGRATE" not in made
    assert "        if lr_scheduler is not None:\n            return {" in made
    assert "        return torch.optim.lr_scheduler.StepLR(optimizer, 2)\n" in made


def test_gradients_are_clipped_as_a_config_without_an_entrypoint_says(tmp_path):
    text = "searcher: {name: single, metric: error, max_steps: 1}\nhyperparameters:\n"
    (tmp_path / "const.yaml").write_text(f"{text}  clip_grad_l2_norm: 0.5\n")
    source = OLD.replace('return {"clip": ClipGradsL2Norm(limit)}', "return {}")
    made = method(rewritten(tmp_path, source, "context"), "train_batch")
    clip = 'torch.nn.utils.clip_grad_norm_(params, self.context.get_hparam("clip_grad_l2_norm"))'
    assert clip in "".join(line.strip() for line in made.splitlines())


@pytest.mark.parametrize(
    ("others", "clips"),
    [
        ("{clip_grad_l2_norm: {type: double, minval: 0.1, maxval: 1}}", "clip_grads=lambda params"),
        ("{}", 'if self.context.get_hparams().get("clip_grad_l2_norm") is not None else None'),
    ],
)
def test_hyperparameters_clip_where_a_config_has_them(others, clips, tmp_path):
    config = "{{searcher: {{name: single, metric: error, max_length: {{batches: 8}}}}, {}}}"
    for name, hparams in (("a", "{clip_grad_l2_norm: 0.5}"), ("b", others)):
        (tmp_path / f"{name}.yaml").write_text(config.format(f"hyperparameters: {hparams}"))
    source = OLD.replace('{"clip": ClipGradsL2Norm(limit)}', "{}")
    assert clips in method(rewritten(tmp_path, source, "context"), "train_batch")


@pytest.mark.parametrize(
    ("script", "clips", "otherwise"),
    [
        ('CONFIG = {"hyperparameters": {"clip_grad_val": 0.5}}\nExperiment(Trial, CONFIG)', 1, 1),
        ("hp = dict(clip_grad_val=0.5)\ncreate(config={'hyperparameters': hp})", 1, 1),
        ('config["hyperparameters"]["clip_grad_val"] = 0.5\ncreate(config=config)', 1, 1),
        ("create(config={})", 0, 1),
        ("", 0, 0),
    ],
)
def test_gradients_are_clipped_as_the_config_of_a_script_says(script, clips, otherwise, tmp_path):
    text = "searcher: {name: single, metric: error, max_steps: 1}\nhyperparameters:\n"
    (tmp_path / "const.yaml").write_text(f"{text}  clip_grad_l2_norm: 0.5\n")
    source = OLD.replace('return {"clip": ClipGradsL2Norm(limit)}', "return {}")
    imports = "from determined.experimental import create\nfrom model_def import Trial\n"
    (tmp_path / "run.py").write_text(f"{imports if script else ''}{script}\n")
    made = method(rewritten(tmp_path, source, "context"), "train_batch")
    assert made.count("clip_grad_value_(") == clips
    assert made.count("clip_grad_norm_(") == 1
    assert ('.get("clip_grad_l2_norm")' in made) is bool(otherwise)


def test_a_trial_of_two_generations_is_refused(tmp_path):
    (tmp_path / "model_def.py").write_text(
        OLD.replace("context = context", "model = context.wrap_model(torch.nn.Linear(2, 1))")
    )
    (result,) = migrate([str(tmp_path)], "context").files
    assert result.problem.startswith("Trial mixes generations: ")
    assert result.after == result.before


def test_what_a_trial_asks_its_context_for_is_what_it_wraps(tmp_path):
    change = "        return LRScheduler("
    asking = "        self.stepped = self.context.get_optimizer(), self.context.get_model()\n"
    made = rewritten(tmp_path, OLD.replace(change, f"{asking}{change}"), "context")
    assert "        self.stepped = self.opt, self.model\n" in made


RETURN = '        return {"loss": model(batch).sum(), "n": 1}\n'
STEPS = "    self.context.backward(loss)\n    self.context.step_optimizer("


@pytest.mark.parametrize(
    ("lines", "taken"),
    [
        pytest.param(
            "if epoch_idx:\n            return self.parts(batch)\n        return self.parts(batch)",
            'metrics["loss"]\n',
            id="dicts",
        ),
        pytest.param(
            "if epoch_idx:\n            return torch.ones(1)\n        return {'loss': 1}",
            'metrics["loss"] if isinstance(metrics, dict) else metrics\n',
            id="a tensor or a dict",
        ),
    ],
)
def test_a_train_batch_that_returns_in_several_places_trains_in_each(lines, taken, tmp_path):
    parts = (
        "    def parts(self, batch):\n        return {'loss': batch.sum()}\n\n    def train_batch"
    )
    source = OLD.replace(RETURN, f"        {lines}\n").replace("    def train_batch", parts)
    made = rewritten(tmp_path, source, "context")
    assert "return" in method(made, "metrics_of_batch")
    assert method(made, "train_batch").startswith(
        "def train_batch(self, batch, epoch_idx, batch_idx):\n"
        "    metrics = self.metrics_of_batch(batch, epoch_idx, batch_idx)\n"
        f"    loss = {taken}{STEPS}"
    )


def test_a_dict_that_a_method_puts_the_loss_into_is_one(tmp_path):
    parts = (
        "    def parts(self, batch):\n        found = helper(batch)\n"
        "        found['loss'] = batch.sum()\n        return found\n\n    def train_batch"
    )
    lines = "        found = self.parts(batch)\n        return found\n"
    source = OLD.replace(RETURN, lines).replace("    def train_batch", parts)
    made = method(rewritten(tmp_path, source, "context"), "train_batch")
    assert f'    loss = metrics["loss"]\n{STEPS}' in made


EITHER = 'loss = metrics["loss"] if isinstance(metrics, dict) else metrics'


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("losses = {'loss': model(batch).sum()}\n        return losses", 'loss = metrics["loss"]'),
        ("return torch.mean(model(batch))", "loss = torch.mean(self.model(batch))"),
        ("loss = model(batch).sum()\n        return loss", "loss = self.model(batch).sum()"),
        ("return helper(batch)", EITHER),
    ],
)
def test_the_loss_of_what_train_batch_returns(lines, after, tmp_path):
    source = OLD.replace(RETURN, f"        {lines}\n")
    made = method(rewritten(tmp_path, source, "context"), "train_batch")
    assert f"    {after}\n{STEPS}" in made


def test_a_metric_that_is_called_loss_keeps_its_value(tmp_path):
    lines = (
        "        loss = model(batch).sum()\n"
        '        return {"loss": loss + model(batch).mean(), "data": loss}\n'
    )
    made = method(rewritten(tmp_path, OLD.replace(RETURN, lines)), "training_step")
    assert "    total_loss = loss + self.model(batch).mean()\n" in made
    assert 'self.log_dict({"loss": total_loss, "data": loss})\n    return total_loss' in made


@pytest.mark.parametrize(
    ("line", "name"),
    [('self.model = "resnet"', "network"), ("self.model = None", "network"), ("pass", "model")],
)
def test_a_model_gets_another_name_where_the_trial_has_something_under_it(line, name, tmp_path):
    source = OLD.replace("= context\n", f"= context\n        {line}\n", 1)
    made = rewritten(tmp_path, source, "context")
    assert f"self.{name} = context.wrap_model(self.build_model())" in made
    assert f"self.{name}(batch).sum()" in method(made, "train_batch")


def test_a_model_keeps_the_name_that_build_model_gives_it(tmp_path):
    source = OLD.replace("= context\n", "= context\n        self.model = None\n", 1).replace(
        "        return torch.nn.Linear(2, 1)",
        "        self.model = torch.nn.Linear(2, 1)\n        return self.model",
    )
    made = rewritten(tmp_path, source, "context")
    assert "self.model = context.wrap_model(self.build_model())" in made


def test_a_scheduler_that_a_block_returns_is_the_plain_one(tmp_path):
    made = "LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 2), step_every_epoch=True)"
    tried = f"try:\n            return {made}\n        finally:\n            print(1)"
    after = rewritten(tmp_path, OLD.replace(f"return {made}", tried), "context")
    assert "        return torch.optim.lr_scheduler.StepLR(optimizer, 2)\n" in after


def test_each_of_several_wrappers_of_schedulers_is_the_context_s(tmp_path):
    made = "LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 2), step_every_epoch=True)"
    first = f"if self.fast:\n            return {made}\n        return {made}"
    after = rewritten(tmp_path, OLD.replace(f"return {made}", first), "context")
    create = method(after, "create_lr_scheduler")
    assert create.count("self.context.wrap_lr_scheduler(") == 2
    assert "LRScheduler(torch" not in create


@pytest.mark.parametrize(
    ("given", "modes"),
    [
        ('**{"step_every_epoch": True}', ["StepMode.STEP_EVERY_EPOCH\n"]),
        ('**{"step_mode": LRScheduler.StepMode.MANUAL_STEP}', ["StepMode.MANUAL_STEP\n"]),
        (
            '**{self.context.get_hparam("flag"): True}',
            [
                'STEP_EVERY_BATCH if self.context.get_hparam("flag") == "step_every_batch"',
                'STEP_EVERY_EPOCH if self.context.get_hparam("flag") == "step_every_epoch"',
                "StepMode.MANUAL_STEP",
            ],
        ),
        (
            '**{self.flag: True, "step_every_batch": self.fast}',
            ['STEP_EVERY_BATCH if self.flag == "step_every_batch" or self.fast', "MANUAL_STEP"],
        ),
        ("**self.context.get_hparam('flags')", []),
        ("**{**self.flags}", []),
        ("**{self.flag: self.fast}", []),
        ("*self.flags", []),
    ],
)
def test_flags_of_a_wrapper_may_be_in_a_dict(given, modes, tmp_path):
    made = rewritten(tmp_path, OLD.replace("step_every_epoch=True", given), "context")
    assert ("# MIGRATE: its LR scheduler is made in a way" in made) is (not modes)
    init = method(made, "__init__") + "\n"
    at = [init.index(mode) for mode in modes]
    assert at == sorted(at)

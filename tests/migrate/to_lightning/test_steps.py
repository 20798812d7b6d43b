from __future__ import annotations

import textwrap

import pytest

from tests.migrate.rewriting import method, rewritten, trial


def test_one_backward_and_one_step_are_lightnings(tmp_path):
    made = method(rewritten(tmp_path, trial()), "training_step")
    assert made == (
        "def training_step(self, batch, batch_idx):\n"
        "    loss = self.model(batch).sum()\n"
        '    self.log("loss", loss)\n'
        "    return loss"
    )


def test_comments_stay_but_for_those_on_what_goes(tmp_path):
    backward, step = "        self.context.backward(loss)", "        self.context.step_optimizer"
    changes = (
        (backward, f"        # why\n{backward}"),
        (step, f"        # Now we step the optimizer,\n        # once.\n{step}"),
    )
    made = method(rewritten(tmp_path, trial(*changes)), "training_step")
    assert "    # why\n" in made and "once" not in made


def test_steps_in_other_places_are_manual(tmp_path):
    change = ("        self.context.step_optimizer(self.opt)\n", STEP_SOMETIMES)
    made = rewritten(tmp_path, trial(change))
    assert "self.automatic_optimization = False" in made
    assert method(made, "training_step") == (
        "def training_step(self, batch, batch_idx):\n"
        "    batch_idx = self.trainer.fit_loop.total_batch_idx\n"
        "    opt = self.optimizers()\n"
        "    loss = self.model(batch).sum()\n"
        "    self.manual_backward(loss)\n"
        "    if batch_idx % 2:\n"
        "        opt.step()\n"
        "        opt.zero_grad()\n"
        '    self.log("loss", loss)'
    )
    assert "def on_validation_model_zero_grad(self):" in made


STEP_SOMETIMES = """\
        if batch_idx % 2:
            self.context.step_optimizer(self.opt)
"""


def test_what_a_step_asks_lightning_for_stands_below_its_docstring(tmp_path):
    told = ("batch_idx):\n", 'batch_idx):\n        """Trains on a batch."""\n')
    change = ("        self.context.step_optimizer(self.opt)\n", STEP_SOMETIMES)
    made = method(rewritten(tmp_path, trial(change, told)), "training_step")
    assert '    """Trains on a batch."""\n    opt = self.opt' in made.replace(BATCH_NUMBER, "")
    assert BATCH_NUMBER in made


TOTAL = "self.trainer.fit_loop.total_batch_idx"
BATCH_NUMBER = f"    batch_idx = {TOTAL}\n"


def test_code_that_sees_the_step_is_manual(tmp_path):
    change = ('return {"loss": loss}', 'return {"loss": loss, "after": self.model(batch).sum()}')
    assert "automatic_optimization = False" in rewritten(tmp_path, trial(change))


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ((), "self.global_step"),
        (("step_optimizer(self.opt)", "step_optimizer(self.opt, scaler=self.scaler)"), TOTAL),
        (("        self.context.step_optimizer(self.opt)\n", STEP_SOMETIMES), TOTAL),
    ],
)
def test_a_step_with_each_batch_numbers_the_batches(change, number, tmp_path):
    """Lightning counts steps by a public name; a scaler may leave some out."""
    seen = (
        'return {"loss": loss}',
        'return {"loss": loss, "i": batch_idx, "after": self.model(batch).sum()}',
    )
    made = rewritten(tmp_path, trial(seen, *([change] if change else [])))
    assert "automatic_optimization = False" in made
    assert f"    batch_idx = {number}\n" in method(made, "training_step")


HELPER = """\
    def twice(self, value):
        return {0}

    def evaluate_batch"""


def test_functions_of_their_arguments_do_not_see_the_step(tmp_path):
    source = trial(
        ('return {"loss": loss}', 'return {"loss": loss, "twice": self.twice(loss)}'),
        ("    def evaluate_batch", HELPER.format("value * 2")),
    )
    made = method(rewritten(tmp_path, source), "training_step")
    assert '    self.log_dict({"loss": loss, "twice": self.twice(loss)})\n    return loss' in made


def test_methods_that_see_the_step_are_manual(tmp_path):
    source = trial(
        ('return {"loss": loss}', 'return {"loss": loss, "twice": self.twice(loss)}'),
        ("    def evaluate_batch", HELPER.format("self.model.weight.sum() * 2 * value")),
    )
    assert "automatic_optimization = False" in rewritten(tmp_path, source)


def test_arguments_of_backward_are_manual(tmp_path):
    change = ("backward(loss)", "backward(loss, retain_graph=True)")
    made = rewritten(tmp_path, trial(change))
    assert "self.manual_backward(loss, retain_graph=True)" in made


def test_clipping_has_its_hook(tmp_path):
    clip = "step_optimizer(self.opt, clip_grads=lambda ps: torch.nn.utils.clip_grad_norm_(ps, 2.0))"
    made = rewritten(tmp_path, trial(("step_optimizer(self.opt)", clip)))
    assert method(made, "configure_gradient_clipping") == (
        "def configure_gradient_clipping(\n"
        "    self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None\n"
        "):\n"
        '    params = [p for group in optimizer.param_groups for p in group["params"]]\n'
        "    torch.nn.utils.clip_grad_norm_(params, 2.0)"
    )


def test_clipping_by_what_train_batch_knows_is_manual(tmp_path):
    clip = "step_optimizer(self.opt, clip_grads=lambda ps: clip(ps, loss))"
    made = method(rewritten(tmp_path, trial(("step_optimizer(self.opt)", clip))), "training_step")
    assert "    clip(params, loss)\n    opt.step()\n" in made


def test_epochs_and_early_returns(tmp_path):
    change = (
        "        loss = self.model(batch).sum()\n",
        "        if epoch_idx > 3:\n            return {}\n"
        "        loss = self.model(batch).sum()\n",
    )
    made = method(rewritten(tmp_path, trial(change)), "training_step")
    assert "    if self.current_epoch > 3:\n        return\n" in made


def test_a_loss_that_is_no_variable(tmp_path):
    changes = (
        ("loss = self.model(batch).sum()", 'losses = {"a": self.model(batch).sum()}'),
        ("backward(loss)", 'backward(losses["a"])'),
        ('return {"loss": loss}', 'return {"loss": losses["a"]}'),
    )
    assert method(rewritten(tmp_path, trial(*changes)), "training_step") == (
        "def training_step(self, batch, batch_idx):\n"
        '    losses = {"a": self.model(batch).sum()}\n'
        '    loss = losses["a"]\n'
        '    self.log("loss", loss)\n'
        "    return loss"
    )


REDUCER = """\
    def evaluation_reducer(self):
        return {0}

    def evaluate_batch"""


def test_every_batch_counts_the_same(tmp_path):
    assert method(rewritten(tmp_path, trial()), "validation_step") == (
        "def validation_step(self, batch, batch_idx):\n"
        "    # each batch counts the same, whatever its size\n"
        '    self.log("error", self.model(batch).sum(), batch_size=1, sync_dist=True)'
    )


def test_what_is_returned_behind_a_colon_is_logged(tmp_path):
    early = '        if batch.sum() > 1: return {"error": batch.sum()}\n        return {"error"'
    made = method(rewritten(tmp_path, trial(('        return {"error"', early))), "validation_step")
    assert '> 1:\n        self.log("error", batch.sum(), batch_size=1, sync_dist=True)\n' in made


def test_names_of_training_metrics_are_told_apart(tmp_path):
    made = rewritten(tmp_path, trial(('"error":', '"loss":')))
    assert 'self.log("val_loss", ' in made


def test_the_batch_index(tmp_path):
    made = rewritten(tmp_path, trial(("(self, batch):", "(self, batch, batch_idx):")))
    assert "def validation_step(self, batch, batch_idx):" in made


def test_one_reduction(tmp_path):
    source = trial(("    def evaluate_batch", REDUCER.format("pytorch.Reducer.SUM")))
    made = rewritten(tmp_path, "from determined import pytorch\n" + source)
    assert 'reduce_fx="sum", batch_size=1, sync_dist=True)' in made
    assert "evaluation_reducer" not in made


def test_one_reduction_below_a_docstring(tmp_path):
    documented = '"""Sums."""\n        return pytorch.Reducer.SUM'
    text = REDUCER.format("0").replace("return 0", documented)
    made = rewritten(
        tmp_path, "from determined import pytorch\n" + trial(("    def evaluate_batch", text))
    )
    assert 'reduce_fx="sum", batch_size=1, sync_dist=True)' in made
    assert "evaluation_reducer" not in made


def test_the_same_reduction_for_each(tmp_path):
    reducers = '{"error": pytorch.Reducer.SUM, "loss": pytorch.Reducer.SUM}'
    source = trial(("    def evaluate_batch", REDUCER.format(reducers)))
    made = rewritten(tmp_path, "from determined import pytorch\n" + source)
    assert 'reduce_fx="sum", batch_size=1, sync_dist=True)' in made
    assert "evaluation_reducer" not in made


def test_a_reduction_for_each(tmp_path):
    reducers = '{"error": pytorch.Reducer.MAX, "loss": pytorch.Reducer.AVG}'
    source = trial(("    def evaluate_batch", REDUCER.format(reducers)))
    made = rewritten(tmp_path, "from determined import pytorch\n" + source)
    assert 'return {"error": "max", "loss": "mean"}' in made
    assert "self.log(name, value, reduce_fx=reduction, batch_size=1, sync_dist=True)" in made
    assert "determined" not in made


def test_the_whole_data_set_is_one_batch(tmp_path):
    made = rewritten(
        tmp_path, trial(("evaluate_batch(self, batch)", "evaluate_full_dataset(self, batch)"))
    )
    assert "def validation_step(self, batch, batch_idx):" in made
    wrapped = "torch.utils.data.DataLoader([DataLoader([], batch_size=4)], batch_size=None)"
    assert f"return {wrapped}" in method(made, "val_dataloader")


@pytest.mark.parametrize(
    ("before", "is_automatic"),
    [
        ('return {"loss": loss, "lr": self.scheduler.get_last_lr()[0]}', True),
        ('self.last = batch_idx\n        return {"loss": loss}', True),
        ('self.last = self.model(batch)\n        return {"loss": loss}', False),
        ('return {"loss": loss, "w": self.model.weight.sum()}', False),
    ],
)
def test_what_comes_after_a_step_may_not_see_it(before, is_automatic, tmp_path):
    scheduler = (
        "lr=0.1))\n",
        "lr=0.1))\n        self.scheduler = context.wrap_lr_scheduler(\n"
        "            torch.optim.lr_scheduler.StepLR(self.opt, 2), "
        "LRScheduler.StepMode.STEP_EVERY_BATCH\n        )\n",
    )
    made = rewritten(tmp_path, trial(scheduler, ('return {"loss": loss}', before)))
    assert ("automatic_optimization" not in made) is is_automatic


@pytest.mark.parametrize(
    ("entry", "logged"),
    [
        ('**{f"{n}": x for n, x in parts}', '"error": 0, **{f"{n}": x for n, x in parts}'),
        ('**{"a": 1, "b": "text"}', '"error": 0, "a": 1'),
        ('**{n: "text"\n for n in parts}', '"error", 0'),
        ('"nested": dict(parts)', 'numbers_of({"error": 0, "nested": dict(parts)}, "mean")'),
        ('"nested": {"a": {"text": "b", "n": 1}}', '"error": 0, "nested/a/n": 1'),
    ],
)
def test_the_metrics_of_a_dict_that_is_unpacked(tmp_path, entry, logged):
    change = ('{"error": self.model(batch).sum()}', f'{{"error": 0, {entry}}}')
    made = method(rewritten(tmp_path, trial(change)), "validation_step")
    assert logged in made
    assert ("# MIGRATE: Lightning logs numbers" in made) is ("text" in entry)


def test_a_dict_whose_bracket_is_as_deep_as_its_entries(tmp_path):
    entries = '                "loss": loss,\n                "n": 1,\n                }'
    result = f"        return {{\n{entries}"
    made = rewritten(tmp_path, trial(('        return {"loss": loss}', result)))
    assert (
        '        self.log_dict({\n            "loss": loss,\n            "n": 1,\n            })'
        in made
    )


@pytest.mark.parametrize(
    "steps",
    [
        "loss = loss + 0.1 * self.model.weight.norm()\n        self.context.backward(loss / 2)\n",
        "self.context.backward(loss)\n        self.context.backward(loss * 2)\n",
        "loss = self.model.loss(batch)\n        self.context.backward(2 * (1 + loss))\n",
    ],
)
def test_a_loss_that_is_returned_alone_is_logged(tmp_path, steps):
    returned = ('return {"loss": loss}', "return loss")
    made = rewritten(tmp_path, trial(("self.context.backward(loss)\n", steps), returned))
    assert 'self.log("loss", loss)' in method(made, "training_step")
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    "line",
    [
        'loss = loss if isinstance(loss, dict) else {"loss": loss}',
        'loss = {"loss": loss.detach()}',
        "loss = self.told(loss)",
    ],
)
def test_a_dict_by_the_name_of_the_loss_is_no_loss(tmp_path, line):
    told = '    def told(self, loss):\n        return {"loss": loss}\n\n    def evaluate_batch'
    source = trial(
        ('        return {"loss": loss}', f"        {line}\n        return loss"),
        ("    def evaluate_batch", told),
    )
    made = method(rewritten(tmp_path, source), "training_step")
    assert made.endswith("self.log_dict(numbers_of(loss))")


@pytest.mark.parametrize(
    ("lines", "is_marked"),
    [
        ('found = dict(loss=loss, name="a")\nreturn found', True),
        ("found = dict(loss=loss, several=[1, 2])\nreturn found", False),
        ('found: dict = {"loss": loss, "name": "a"}\nreturn found', True),
        ('found = {"loss": loss}\nfound |= {"name": "a"}\nreturn found', True),
        ('found = {"loss": loss}\nfound.setdefault("name", "a")\nreturn found', True),
        ('found = {"loss": loss}\nreturn found | {"name": "a"}', True),
        ('found = {"loss": loss, "n": "%d" % 3}\nreturn found', True),
    ],
)
def test_what_is_no_number_is_seen_however_it_is_put_into_the_metrics(lines, is_marked, tmp_path):
    """Lightning logs no texts, and the first batch ended in an error."""
    text = textwrap.indent(lines, " " * 8)
    made = rewritten(tmp_path, trial(('        return {"loss": loss}', text)))
    assert "self.log_dict(numbers_of(" in method(made, "training_step")
    assert ("MIGRATE" in made) is is_marked


@pytest.mark.parametrize(
    "lines",
    [
        'return {"loss": loss, "name": "a" if loss else None}',
        'name = "a" if loss else None\nreturn {"loss": loss, "name": name}',
        'if loss:\n    name = "a"\nelse:\n    name = None\nreturn {"loss": loss, "name": name}',
        'name, n = "a", 1\nreturn {"loss": loss, "name": name}',
    ],
)
def test_a_text_that_is_none_at_times_is_left_out_with_a_mark(lines, tmp_path):
    text = textwrap.indent(lines, " " * 8)
    made = rewritten(tmp_path, trial(('        return {"loss": loss}', text)))
    assert 'MIGRATE: Lightning logs numbers, and "name" is none' in made
    assert 'self.log("loss", loss)' in method(made, "training_step")

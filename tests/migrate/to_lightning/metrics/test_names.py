from __future__ import annotations

import textwrap

import pytest
import torch

from tests.migrate.rewriting import method, rewritten, trial

SAID = "    # val_ tells these from what training logs: {}\n"
ALL = 'log_dict({{f"val_{{name}}": value for name, value in {}.items()}}'
SOME = 'log_dict({{f"val_{{name}}" if name == "loss" else name: value for name, value in {}.items()'
HELPER = """\
    def measure(self, batch):
        return {}

    def train_batch("""
RETURN = 'return {"error": self.model(batch).sum()}'
BOTH = '{"loss": batch.sum(), "error": batch.max()}'


NOT_YET = 'name if name.startswith("val") else f"val_{name}": value'


@pytest.mark.parametrize(
    ("evaluation", "helper", "said", "logged"),
    [
        ('return {"loss": batch.sum()}', "1", "loss", 'log("val_loss", batch.sum()'),
        (
            'found = {"loss": batch.sum()}\n        return found',
            "1",
            "loss",
            'found = {"val_loss": batch.sum()}',
        ),
        (
            'found = {"loss": batch.sum()}\n        print(found)\n        return found',
            "1",
            "loss",
            ALL.format("found"),
        ),
        (
            'found = {"error": 1.0}\n        found["loss"] = 2.0\n        return found',
            "1",
            "loss",
            'found["val_loss"] = 2.0',
        ),
        (
            'found = {"error": 1.0}\n        found["loss"] = sum(found.values())\n'
            "        return found",
            "1",
            "loss",
            SOME.format("found"),
        ),
        (
            'found = {"error": 1.0}\n        total = sum(found.values())\n'
            '        found["loss"] = total\n        return found',
            "1",
            "loss",
            'found["val_loss"] = total',
        ),
        ("return self.measure(batch)", '{"loss": 1.0}', "loss", ALL.format("self.measure(batch)")),
        (
            "found = self.measure(batch)\n        return found",
            BOTH,
            "loss",
            SOME.format("found"),
        ),
        (
            "n, found = self.measure(batch)\n        return found",
            f"1, {BOTH}",
            "loss",
            SOME.format("found"),
        ),
        (
            'if len(batch):\n            return {"loss": batch.sum()}\n        return None',
            "1",
            "loss",
            'log("val_loss", batch.sum()',
        ),
        ("return self.measure(batch)", '{"error": 1.0}', "", "log_dict(self.measure(batch)"),
        ("return scores(batch)", "1", "", "numbers_of(scores(batch)"),
    ],
)
def test_what_training_logs_too(evaluation, helper, said, logged, tmp_path):
    """Lightning has one series for a name, in which a monitor would see both."""
    source = trial((RETURN, evaluation), ("    def train_batch(", HELPER.format(helper)))
    made = method(rewritten(tmp_path, source), "validation_step")
    assert (SAID.format(said) in made) is bool(said)
    assert logged in " ".join(made.split()).replace("( ", "(")


def test_a_method_that_calls_itself_tells_what_is_known(tmp_path):
    again = "{'loss': 1.0} if batch else self.measure(batch)"
    source = trial(
        (RETURN, "return self.measure(batch)"), ("    def train_batch(", HELPER.format(again))
    )
    assert "log_dict(" in rewritten(tmp_path, source)


def test_reducers_by_name_are_asked_for_the_names_that_they_have(tmp_path):
    """A callback that asks for such a metric is told it under the name that it has now."""
    reducer = 'return {"loss": Reducer.SUM, "error": Reducer.MAX}'
    source = trial(
        (RETURN, 'return {"loss": batch.sum(), "error": batch.max()}'),
        (
            "    def evaluate_batch",
            f"    def evaluation_reducer(self):\n        {reducer}\n\n    def evaluate_batch",
        ),
    )
    made = method(rewritten(tmp_path, source), "validation_step")
    assert "reduction = reductions[name] if" in made
    assert 'self.log(\n            f"val_{name}" if name == "loss" else name,' in made
    assert SAID.format("loss").strip() in made


@pytest.mark.parametrize(
    ("trained", "said"),
    [
        ("scores(batch)", NOT_YET),
        ('{"loss": loss}', "scores(batch)"),
    ],
)
def test_names_that_only_a_run_tells(trained, said, tmp_path):
    source = trial((RETURN, "return scores(batch)"), ('return {"loss": loss}', f"return {trained}"))
    made = method(rewritten(tmp_path, source), "validation_step")
    assert ("# val_ tells these from what training logs\n" in made) is (said == NOT_YET)
    assert said in made


@pytest.mark.parametrize(
    ("evaluated", "logged"),
    [
        (
            'return {"loss": 2.0, f"{batch}": 3.0, batch: 4.0, batch + "\\"": 5.0}',
            '"val_loss": 2.0, f"val_{batch}": 3.0, f"val_{batch}": 4.0, '
            '"val_" + str(batch + "\\""): 5.0',
        ),
        (
            'return {**{k: 1.0 for k in "ab"}, "loss": 2.0}',
            '**{f"val_{k}": 1.0 for k in "ab"}, "val_loss": 2.0',
        ),
        (
            'return {**scores(batch), "loss": 2.0}',
            '**{f"val_{name}": value for name, value in scores(batch).items()}, "val_loss": 2.0',
        ),
        (
            'found = scores(batch)\n        found["loss"] = 1.0\n        return found',
            'log_dict({f"val_{name}": value for name, value in numbers_of(found, "mean").items()}',
        ),
    ],
)
def test_where_more_than_what_is_known_may_be_the_same_all_are_renamed(evaluated, logged, tmp_path):
    """Nobody would tell half of the names from training's, by what happens to stand in the code."""
    source = trial((RETURN, evaluated), ('{"loss": loss}', '{"loss": loss, f"{batch}": 1.0}'))
    made = method(rewritten(tmp_path, source), "validation_step")
    assert "    # val_ tells these from what training logs\n" in made
    assert logged in " ".join(made.split()).replace("( ", "(").replace("{ ", "{")


def test_reducers_keep_their_names_where_all_others_get_new_ones(tmp_path):
    """A callback that asks for some of either finds them as before."""
    seen = """
    from determined.pytorch import PyTorchCallback

    class Seeing(PyTorchCallback):
        def on_validation_end(self, metrics):
            print(metrics["loss"], metrics["mAP"])
    """
    source = trial(
        (
            "self.context = context\n",
            "self.context = context\n        self.scores = context.wrap_reducer(Scores())\n",
        ),
        (
            'return {"loss": loss}',
            'found = scores(batch)\n        found["loss"] = loss\n        return found',
        ),
        (RETURN, 'found = scores(batch)\n        found["loss"] = 1.0\n        return found'),
    )
    made = rewritten(tmp_path, source + textwrap.dedent(seen))
    assert 'f"val_{name}": value' in method(made, "validation_step")
    hook = made[made.index("class Seeing") :]
    lines = textwrap.dedent(hook[hook.index("        as_before") :].split("        print")[0])
    space = {"metrics": {"loss": 5.0, "val_loss": 1.0, "mAP": 2.0}}
    exec(lines, space)
    assert (space["metrics"]["loss"], space["metrics"]["mAP"]) == (1.0, 2.0)
    assert "MIGRATE" not in hook


@pytest.mark.parametrize("call", ["trial.evaluate_batch(batch)", ""])
def test_a_class_that_keeps_its_batch_methods_tells_its_metrics_apart_too(call, tmp_path):
    source = trial((RETURN, 'return {"loss": 1.0, "other": 2.0}'))
    made = rewritten(tmp_path, f"{source}\n\ndef use(trial, batch):\n    return {call or 0}\n")
    assert ("metrics = self.evaluate_batch(batch" in made) is bool(call)
    assert SAID.format("loss") in made
    assert ('f"val_{name}" if name == "loss" else name' in made) is bool(call)


def test_names_in_an_attribute_that_keeps_the_best(tmp_path):
    kept = (
        '        found = {"loss": batch.sum(), "other": batch.max()}\n'
        '        if self.best is None or found["loss"] < self.best["loss"]:\n'
        "            self.best = found\n        return self.best"
    )
    init = ("self.context = context\n", "self.context = context\n        self.best = None\n")
    made = rewritten(tmp_path, trial(init, (f"        {RETURN}", kept)))
    assert SAID.format("loss") in made
    assert SOME.format("self.best") in made.replace("(\n            {", "({").replace(
        "(\n        {", "({"
    )


def test_names_of_either_of_two_dicts(tmp_path):
    kept = (
        '        found = {"loss": batch.sum(), "other": batch.max()}\n        self.best = found\n'
        "        return self.best if batch_idx else found"
    )
    made = rewritten(tmp_path, trial((f"        {RETURN}", kept)))
    assert SAID.format("loss") in made
    assert "in (self.best if batch_idx else found).items()" in made


MEASURE = """\
    def measure(self, batch, stage="train"):
        return scores(batch)

    def train_batch("""
VAL_OF_ALL = '{f"val_{name}": value for name, value in'


@pytest.mark.parametrize(
    ("trained", "evaluated", "is_said"),
    [
        ("self.measure(batch)", "self.measure(batch)", True),
        ("self.measure(batch)", 'self.measure(batch, "val")', False),
        ("self.measure(batch)", '{**self.measure(batch), "more": 1}', False),
        ("scores(batch)", "scores(batch)", False),
    ],
)
def test_one_helper_gives_both_the_same_names(trained, evaluated, is_said, tmp_path):
    """Whichever they are, a validation's are told from those of training."""
    source = trial(
        ("    def train_batch(", MEASURE),
        ('return {"loss": loss}', f"found = {trained}\n        return found"),
        (RETURN, f"found = {evaluated}\n        return found"),
    )
    made = method(rewritten(tmp_path, source), "validation_step")
    assert (VAL_OF_ALL if is_said else NOT_YET) in made
    assert "    # val_ tells these from what training logs\n" in made


def test_a_dict_that_is_made_of_another_has_the_names_at_once(tmp_path):
    found = "return {name: value.mean() for name, value in scores(batch).items()}"
    source = trial(('return {"loss": loss}', "return scores(batch)"), (RETURN, found))
    made = method(rewritten(tmp_path, source), "validation_step")
    assert f"{NOT_YET}.mean()" in made and made.count(" for name, value in") == 1


def test_a_validation_keeps_the_names_that_tell_it_from_training(tmp_path):
    source = trial(
        ('return {"loss": loss}', 'return {"loss": loss, **scores(batch)}'),
        (
            RETURN,
            'return {"val_loss": 1.0, "error": 2.0, **scores(batch), **{n: 3.0 for n in "ab"}}',
        ),
    )
    space = {"scores": lambda batch: {"val_acc": 4.0, "acc": 5.0}}
    exec(rewritten(tmp_path, source), space)
    logged = {}
    module = space["Trial"](global_batch_size=2)
    module.log_dict = lambda metrics, **_: logged.update(metrics)
    module.validation_step(torch.ones(2, 2), 0)
    assert sorted(logged) == ["val_a", "val_acc", "val_b", "val_error", "val_loss"]


def test_a_callback_gets_these_under_their_names(tmp_path):
    seen = """\
    from determined.pytorch import PyTorchCallback

    class Seeing(PyTorchCallback):
        def on_validation_end(self, metrics):
            print(metrics["error"], {**metrics})
    """
    source = trial(
        ("    def train_batch(", MEASURE),
        ('return {"loss": loss}', "return self.measure(batch)"),
        (RETURN, "return self.measure(batch)"),
    )
    made = rewritten(tmp_path, source + "\n\n" + textwrap.dedent(seen))
    text = 'metrics = {n.removeprefix("val_"): v for n, v in metrics.items() if n.startswith('
    assert f'{text}"val_")}}' in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("use", "is_left"), [('print(metrics["error"])', False), ("print({**metrics})", True)]
)
def test_a_callback_gets_what_may_have_been_renamed_under_both_names(use, is_left, tmp_path):
    seen = f"""\
    from determined.pytorch import PyTorchCallback

    class Seeing(PyTorchCallback):
        def on_validation_end(self, metrics):
            {use}
    """
    source = trial(
        ('return {"loss": loss}', "return scores(batch)"), (RETURN, "return scores(batch)")
    )
    made = rewritten(tmp_path, source + "\n\n" + textwrap.dedent(seen))
    assert "metrics = {**metrics, **as_before}" in made
    assert ("MIGRATE" in made) is is_left


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('stage="val"', SAID.format("error")),
        ('"val"', SAID.format("error")),
        ('stage="train"', "    # val_ tells these from what training logs\n"),
        ('"train"', "    # val_ tells these from what training logs\n"),
    ],
)
def test_a_text_that_a_helper_is_given_may_be_in_its_names(given, said, tmp_path):
    measure = MEASURE.replace("scores(batch)", '{f"{stage}_loss": batch.sum(), "error": 1.0}')
    source = trial(
        ("    def train_batch(", measure),
        ('return {"loss": loss}', 'return self.measure(batch, "train")'),
        (RETURN, f"return self.measure(batch, {given})"),
    )
    assert said in method(rewritten(tmp_path, source), "validation_step")


ASKS = "loss, info = self.algo.losses(self.model, batch, {0})\n        "
ITEMS = "{{k: v.item() for k, v in info.items(){0}}}"


@pytest.mark.parametrize(
    ("trained", "validated", "is_same"),
    [
        (ASKS.format("n=3") + "return info", ASKS.format("n=4") + "return info", True),
        (
            ASKS.format(3) + "info.update(batch.more)\n        return " + ITEMS.format(""),
            ASKS.format(4) + "return " + ITEMS.format(""),
            True,
        ),
        ("return self.algo.losses(batch)", "return self.algo.losses(batch)", True),
        # A model of detection returns more where it does not train.
        (
            "found = self.model(batch)\n        loss = sum(found.values())\n        return found",
            "found, out = self.model(batch)\n        return found",
            True,
        ),
        # These may be other names.
        (ASKS.format('"train"') + "return info", ASKS.format('"val"') + "return info", False),
        (ASKS.format(3) + "return loss", ASKS.format(4) + "return info", None),
        (
            ASKS.format(3) + "return info",
            ASKS.format(4) + "info.update(x)\n        return info",
            False,
        ),
        (ASKS.format(3) + "return info", ASKS.format(4) + "return " + ITEMS.format(" if v"), False),
        ("return self.algo.losses(batch)", "return self.algo.scores(batch)", False),
    ],
)
def test_what_one_call_gives_to_both_has_the_same_names(trained, validated, is_same, tmp_path):
    source = trial(('return {"loss": loss}', trained), (RETURN, validated))
    made = method(rewritten(tmp_path, source), "validation_step")
    assert ("# val_ tells these from what training logs\n" in made) is (is_same is not None)
    assert ('f"val_{name}"' in made) is (is_same is not None)
    assert ('name.startswith("val")' in made) is (is_same is False)


SCORES = """\
    def scores(self, batch):
        return {{"loss": batch.sum(), "{0}": batch.mean()}}

    def others(self, batch):
        return {{"mse": batch.mean()}}

    def train_batch("""


@pytest.mark.parametrize(
    ("trained", "evaluated", "logged"),
    [
        ('{"loss": loss, **self.others(batch)}', "{**self.scores(batch)}", "loss"),
        ('{"loss": loss}', "{name: value.mean() for name, value in found.items()}", "loss"),
        ("{**self.others(batch)}", "{**self.scores(batch), 'n': batch.max()}", ""),
        ("self.others(batch)", "found", ""),
        ("{**self.others(batch)}", "{'mse': batch.min(), **found}", "mse"),
    ],
)
def test_names_that_come_by_two_stars_and_in_loops_are_known(trained, evaluated, logged, tmp_path):
    source = trial(
        ("    def train_batch(", SCORES.format("top")),
        ('return {"loss": loss}', f"return {trained}"),
        (RETURN, f"found = self.scores(batch)\n        return {evaluated}"),
    )
    made = rewritten(tmp_path, source)
    assert "give it another" not in made
    assert "startswith" not in made
    step = method(made, "validation_step")
    assert (f"# val_ tells these from what training logs: {logged}\n" in step) is bool(logged)
    assert ("val_" in step) is bool(logged)
    space: dict = {"__name__": "model_def"}
    exec(made, space)
    module, names = space["Trial"](global_batch_size=4), {}
    module.log_dict = lambda found, **options: names.update(found)
    module.log = lambda name, value, **options: names.update({name: value})
    module.validation_step(torch.ones(3, 2), 0)
    validated = {*names}
    names.clear()
    module.training_step(torch.ones(3, 2), 0)
    assert not validated & {*names}

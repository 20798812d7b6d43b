from __future__ import annotations

from pathlib import Path

import pytest

from tests.migrate.rewriting import HEADER, method, rewritten, trial


def test_no_validation_comes_before_training(tmp_path: Path) -> None:
    heir = "\n\nclass Heir(Trial):\n    def evaluate_batch(self, batch):\n        return {}\n"
    made = rewritten(tmp_path, trial() + heir)
    assert made.count("self.trainer.num_sanity_val_steps = 0") == 1
    assert "num_sanity_val_steps" in method(made.partition("class Heir")[0], "on_fit_start")


def test_an_heir_that_evaluates_the_whole_loader(tmp_path):
    heir = """

class Heir(Trial):
    evaluate_batch = None

    def evaluate_full_dataset(self, data_loader):
        return {"batches": len(data_loader)}
"""
    made = rewritten(tmp_path, trial() + heir).partition("class Heir")[2]
    assert "DataLoader([super().val_dataloader()], batch_size=None)" in method(
        made, "val_dataloader"
    )


def test_a_validation_loader_that_needs_the_one_of_training(tmp_path):
    changes = (
        (
            "        return DataLoader([], batch_size=self",
            "        self.rows = [1]\n        return DataLoader([], batch_size=self",
        ),
        ("return DataLoader([], batch_size=4)", "return DataLoader(self.rows, batch_size=4)"),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert method(made, "val_dataloader").startswith(
        "def val_dataloader(self):\n    if self.trainer.train_dataloader is None:\n"
    )


def test_a_mixin_makes_the_loader_of_validations_without_a_trainer_too(tmp_path):
    mixin = (
        "class Rows:\n    def build_training_data_loader(self):\n        self.rows = [1]\n"
        "        return DataLoader(self.rows, batch_size=4)\n\n"
        "    def build_validation_data_loader(self):\n"
        "        return DataLoader(self.rows, batch_size=4)\n\n\nclass Trial(Rows, PyTorchTrial)"
    )
    loaders = trial().partition("    def build_training")[2].partition("    def train_batch")[0]
    made = rewritten(
        tmp_path,
        trial((f"    def build_training{loaders}", ""), ("class Trial(PyTorchTrial)", mixin)),
    )
    assert method(made.partition("class Trial")[0], "val_dataloader").startswith(
        'def val_dataloader(self):\n    trainer = getattr(self, "trainer", None)\n'
        "    if trainer is not None and trainer.train_dataloader is None:\n"
    )


def test_a_metric_that_is_changed_in_place(tmp_path):
    changes = (
        ("lr=0.1))\n", "lr=0.1))\n        self.sum = torch.zeros(())\n        self.n = 0\n"),
        (
            'return {"error": self.model(batch).sum()}',
            'self.sum += 1\n        self.n += 1\n        return {"sum": self.sum, "n": self.n}',
        ),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert 'self.log("n", self.n, batch_size=1, sync_dist=True)' in made
    assert method(made, "on_validation_epoch_end") == (
        "def on_validation_epoch_end(self):\n"
        "    super().on_validation_epoch_end()\n"
        '    self.log("sum", self.sum)'
    )
    reduced = "    def evaluation_reducer(self):\n        return None\n\n    def evaluate_batch"
    made = rewritten(tmp_path, trial(*changes, ("    def evaluate_batch", reduced)))
    assert "# MIGRATE: Determined reported what sum was after the last batch" in made


def test_metrics_that_are_made_elsewhere(tmp_path):
    change = ('return {"error": self.model(batch).sum()}', "return scores(self.model(batch))")
    made = rewritten(tmp_path, trial(change))
    assert (
        'self.log_dict(numbers_of(scores(self.model(batch)), "mean"), batch_size=1, sync_dist=True)'
        in made
    )
    known = 'def scores(x):\n    return {"error": x.sum()}\n\n\nclass Trial'
    made = rewritten(tmp_path, trial(change, ("class Trial", known)))
    assert "self.log_dict(scores(self.model(batch)), batch_size=1, sync_dist=True)" in made


def test_what_a_decorator_needs_stays(tmp_path):
    header = HEADER + "def noted(step):\n    return step\n\n\n"
    change = ("    def train_batch", "    @noted\n    def train_batch")
    made = rewritten(tmp_path, trial(change, header=header))
    assert "metrics = self.train_batch(" in method(made, "training_step")
    plain = ("    def train_batch", "    @torch.enable_grad()\n    def train_batch")
    assert "def train_batch" not in rewritten(tmp_path, trial(plain))


def test_a_base_without_train_batch_has_a_step_where_that_is(tmp_path):
    base = "class Base(PyTorchTrial):\n    def __init__(self, context):\n"
    base += "        self.context = context\n\n\nclass Trial(Base)"
    made = rewritten(tmp_path, trial(("class Trial(PyTorchTrial)", base)))
    first, _, second = made.partition("class Trial(Base)")
    assert "def training_step" not in first
    assert 'self.log("loss", loss)' in method(second, "training_step")
    assert "train_batch" not in made


_HEIR = """

class Heir(Trial):
    def scores(self, batch):
        return 1

{}
"""


@pytest.mark.parametrize(
    ("more", "trains", "validates"),
    [
        ("", True, True),
        ("    def train_batch(self, batch, epoch_idx, batch_idx): ...\n", False, True),
        ("    def evaluate_batch(self, batch): ...\n", True, False),
        ("    def evaluate_full_dataset(self, data_loader): ...\n", True, False),
        ("    def evaluation_reducer(self): return Reducer.SUM\n", True, False),
        ("    def again(self, batch): self.train_batch(batch, 0, 0)\n", False, False),
    ],
)
def test_what_no_relative_has_becomes_a_step(more, trains, validates, tmp_path):
    header = HEADER.replace("DataLoader", "DataLoader, Reducer")
    made = rewritten(tmp_path, trial(header=header) + _HEIR.format(more))
    base = made[: made.index("class Heir")]
    assert ("metrics = self.train_batch(" not in base) is trains
    assert ("metrics = self.evaluate_batch(" not in base) is validates
    assert made.count("def training_step") == 1


def test_an_heir_may_return_other_metrics(tmp_path):
    changes = (
        ('return {"error": self.model(batch).sum()}', 'return {"error": self.scores(batch)}'),
        (
            "    def train_batch",
            "    def scores(self, batch):\n        return 0\n\n    def train_batch",
        ),
        ('return {"loss": loss}', "return {**self.more(batch)}"),
        ("    def evaluate", "    def more(self, batch):\n        return {}\n\n    def evaluate"),
    )
    heir = _HEIR.format("    def more(self, batch):\n        return {'a': [1, 2]}\n")
    made = rewritten(tmp_path, trial(*changes) + heir)
    assert "numbers_of({**self.more(batch)})" in method(made, "training_step")
    assert 'self.log("error", self.scores(batch)' in method(made, "validation_step")


def test_metrics_of_unknown_kinds_are_sorted_out_beside_others(tmp_path):
    parts = "from tools import parts\n"
    change = ('return {"loss": loss}', 'return {"loss": loss, **parts(batch)}')
    made = rewritten(tmp_path, trial(change, header=parts + HEADER))
    assert 'numbers_of({"loss": loss, **parts(batch)})' in made
    known = "def parts(batch):\n    return {'a': batch.sum()}\n\n\n"
    made = rewritten(tmp_path, trial(change, header=HEADER + known))
    assert 'self.log_dict({"loss": loss, **parts(batch)})' in made


def test_gradients_stay_that_an_optimizer_is_given_later(tmp_path):
    (tmp_path / "grow.py").write_text(
        "import model_def\ndef grow(opt, p):\n    opt.add_param_group({'params': p})\n"
    )
    assert "def on_validation_model_zero_grad(self)" in rewritten(tmp_path, trial())


@pytest.mark.parametrize(
    ("zeroing", "stay"),
    [
        ("", True),
        ("self.model.zero_grad()\n        self.other.zero_grad()", False),
        ("self.opt.zero_grad()\n        self.more.zero_grad()", False),
        ("self.model.zero_grad()", True),
        (
            "self.other.zero_grad()\n        if batch_idx % 2:\n            self.opt.zero_grad()",
            True,
        ),
        ("self.other.zero_grad()\n        self.model.zero_grad(False)", True),
        ("print(self.model.bias.grad)\n        self.zero()", True),
    ],
)
def test_gradients_stay_that_one_model_leaves_in_another(tmp_path, zeroing, stay):
    loss = "        loss = self.model(batch).sum()\n"
    backward = "        self.context.backward(loss)\n"
    more = (
        "        self.other = context.wrap_model(torch.nn.Linear(1, 1))\n"
        "        other = torch.optim.SGD(self.other.parameters(), context.get_hparam('lr'))\n"
        "        self.more = context.wrap_optimizer(other)\n\n    def build_training_data"
    )
    made = rewritten(
        tmp_path,
        trial(
            ("\n    def build_training_data", more),
            (loss, f"        {zeroing}\n        loss = self.other(self.model(batch)).sum()\n"),
            (backward, f"        self.context.step_optimizer(self.more)\n{backward}"),
        ),
    )
    assert "self.automatic_optimization = False" in made
    assert ("def on_validation_model_zero_grad(self)" in made) == stay


STEPS = "{0}self.context.step_optimizer(self.{1})\n"
BOTH = STEPS.format(" " * 8, "more") + STEPS.format(" " * 8, "opt")


@pytest.mark.parametrize(
    ("steps", "stay"),
    [
        (BOTH, False),
        (STEPS.format(" " * 8, "opt"), True),
        (BOTH.replace("more)", "more, None, False)"), True),
        (BOTH.replace("        self", "        if batch_idx:\n            self", 1), True),
        (f"        if batch_idx:\n            return {{}}\n{BOTH}", True),
        (f"        self.other(batch).sum().backward()\n{BOTH}", True),
        (f"{BOTH}        self.context.backward(self.model(batch).sum())\n", True),
    ],
)
def test_no_gradients_stay_where_each_batch_ends_with_all_steps(steps, stay, tmp_path):
    more = (
        "        self.other = context.wrap_model(torch.nn.Linear(2, 1))\n"
        "        other = torch.optim.SGD(self.other.parameters(), lr=0.1)\n"
        "        self.more = context.wrap_optimizer(other)\n\n    def build_training_data"
    )
    made = rewritten(
        tmp_path,
        trial(
            ("\n    def build_training_data", more),
            ("loss = self.model(batch)", "loss = self.model(batch) * self.other(batch)"),
            ("        self.context.step_optimizer(self.opt)\n", steps),
        ),
    )
    assert ("def on_validation_model_zero_grad(self)" in made) is stay


FREEZING = "self.{}.requires_grad_({})"


@pytest.mark.parametrize(
    ("first", "second", "stay"),
    [
        (("other", True), ("model", False), False),
        (("other", True), ("other", True), True),
        (("other", True), ("other", False), True),
        (("other", False), ("model", True), True),
    ],
)
@pytest.mark.parametrize("elsewhere", ["", "self.model.bias.requires_grad = True"])
def test_a_step_between_two_backward_passes_leaves_nothing_where_its_model_is_frozen(
    first, second, stay, elsewhere, tmp_path
):
    more = (
        "        self.other = context.wrap_model(torch.nn.Linear(2, 1))\n"
        "        other = torch.optim.SGD(self.other.parameters(), lr=0.1)\n"
        "        self.more = context.wrap_optimizer(other)\n\n    def build_training_data"
    )
    loss = "        loss = self.model(batch).sum()\n"
    step = "        self.context.step_optimizer(self.opt)\n"
    again = (
        f"        {FREEZING.format(*second)}\n"
        "        self.context.backward(self.other(batch).sum())\n"
        "        self.context.step_optimizer(self.more)\n"
    )
    judge = '        return {"error": '
    made = rewritten(
        tmp_path,
        trial(
            ("\n    def build_training_data", more),
            (loss, f"        {FREEZING.format(*first)}\n{loss}"),
            (step, step + again),
            (judge, f"        {elsewhere or 'pass'}\n{judge}"),
        ),
    )
    assert ("def on_validation_model_zero_grad(self)" in made) is (stay or bool(elsewhere))


MIXED = """\
class Mixin:
    def train_batch(self, batch, epoch_idx, batch_idx):
        {}return {{"loss": self.step(batch)}}

    def step(self, batch):
        self.model(batch).sum().backward()


class Trial(Mixin, PyTorchTrial)"""


@pytest.mark.parametrize(
    ("more", "stay"), [("", False), ("self.other(batch).sum().backward()\n        ", True)]
)
def test_no_gradients_stay_where_a_mixin_calls_what_steps(more, stay, tmp_path):
    other = (
        "        self.other = context.wrap_model(torch.nn.Linear(2, 1))\n"
        "        other = torch.optim.SGD(self.other.parameters(), lr=0.1)\n"
        "        self.more = context.wrap_optimizer(other)\n\n    def build_training_data"
    )
    made = rewritten(
        tmp_path,
        trial(
            ("\n    def build_training_data", other),
            ("    def train_batch(self, batch, epoch_idx, batch_idx)", "    def step(self, batch)"),
            ("        self.context.step_optimizer(self.opt)\n", BOTH),
            ('return {"loss": loss}', "return loss"),
            ("class Trial(PyTorchTrial)", MIXED.format(more)),
        ),
    )
    assert ("def on_validation_model_zero_grad(self)" in made) is stay


@pytest.mark.parametrize("zeroing", ["self.opt.zero_grad()", "pass"])
def test_gradients_need_not_stay_where_each_method_zeroes_what_it_steps(tmp_path, zeroing):
    steps = "".join(
        f"\n    def step_{name}(self, batch):\n        {zeroing.replace('opt', name)}\n"
        "        self.context.backward(self.model(batch).sum() * self.more_model(batch).sum())\n"
        f"        self.context.step_optimizer(self.{name})\n"
        for name in ("opt", "more")
    )
    more = (
        "        self.more_model = context.wrap_model(torch.nn.Linear(2, 1))\n        self.more = "
        "context.wrap_optimizer(torch.optim.SGD(self.more_model.parameters(), lr=0.1))\n"
    )
    calls = "        self.step_opt(batch)\n        self.step_more(batch)\n"
    made = rewritten(
        tmp_path,
        trial(
            ("        self.context.backward(loss)\n", ""),
            ("        self.context.step_optimizer(self.opt)\n", calls),
            ("\n    def build_training_data", f"{more}{steps}\n    def build_training_data"),
        ),
    )
    assert ("def on_validation_model_zero_grad(self)" in made) == (zeroing == "pass")


def test_gradients_of_optimizers_in_a_list_may_be_of_each_others_models(tmp_path):
    """What one has left there is used by the next step, behind a validation, too."""
    made = (
        "self.opts = [context.wrap_optimizer(torch.optim.SGD(net.parameters(), lr=0.1)) "
        "for net in (self.model, self.more)]\n"
    )
    more = "self.more = context.wrap_model(torch.nn.Linear(1, 1))\n        "
    source = trial(
        (
            "self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))\n",
            more + made,
        ),
        ("step_optimizer(self.opt)", "step_optimizer(self.opts[0])"),
    )
    assert "def on_validation_model_zero_grad(self)" in rewritten(tmp_path, source)


def test_attributes_that_are_asked_for_by_name_stay(tmp_path):
    made = rewritten(tmp_path, trial() + "\n\ndef rate(trial):\n    return getattr(trial, 'opt')\n")
    assert "self.opt = torch.optim.SGD" in method(made, "configure_optimizers")
    assert "MIGRATE" not in made


def test_one_evaluation_of_all_data_is_reduced_by_nothing(tmp_path):
    """Each device does all of it: their sum would be several times what it was."""
    whole = "evaluate_full_dataset(self, data_loader)"
    reducer = "    def evaluation_reducer(self):\n        return Reducer.SUM\n\n    def evaluate"
    source = trial(("evaluate_batch(self, batch)", whole), ("    def evaluate", reducer))
    made = method(
        rewritten(tmp_path, source.replace("model(batch).sum()}", "model(1).sum()}")),
        "validation_step",
    )
    assert "reduce_fx" not in made and "sync_dist=True" in made


def test_gradients_stay_in_an_heir_that_trains_two_models(tmp_path):
    base = (
        "class Base(PyTorchTrial):\n    def rows(self):\n        return []\n\n\nclass Trial(Base)"
    )
    more = (
        "        self.other = context.wrap_model(torch.nn.Linear(1, 1))\n"
        "        other = torch.optim.SGD(self.other.parameters(), lr=0.1)\n"
        "        self.more = context.wrap_optimizer(other)\n"
    )
    summed = "self.model(batch).sum()\n        self"
    backward = "        self.context.backward(loss)\n"
    made = rewritten(
        tmp_path,
        trial(
            ("class Trial(PyTorchTrial)", base),
            ("\n    def build_training_data", f"{more}\n    def build_training_data"),
            (summed, summed.replace("self.model(batch)", "self.other(self.model(batch))", 1)),
            (backward, f"        self.context.step_optimizer(self.more)\n{backward}"),
        ),
    )
    assert "def on_validation_model_zero_grad(self)" in made


def test_gradients_stay_in_all_heirs_by_the_hook_of_their_base(tmp_path):
    opt = "self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))\n"
    heir = "\nclass Trial(Base):\n    def train_batch"
    made = rewritten(
        tmp_path,
        trial(
            ("class Trial(PyTorchTrial)", "class Base(PyTorchTrial)"),
            (opt, f"{opt}        {opt.replace('opt =', 'more =')}"),
            ("    def train_batch", heir),
            ("step_optimizer(self.opt)", "step_optimizer(self.more)"),
        ),
    )
    base, _, heir = made.partition("class Trial(Base)")
    assert "def on_validation_model_zero_grad(self)" in base
    assert "def on_validation_model_zero_grad(self)" not in heir


@pytest.mark.parametrize(
    ("old", "call"),
    [
        ("torch.nn.Linear(2, 1))", "torch.nn.Linear(2, 1)\n            .float()\n        )"),
        ("torch.nn.Linear(2, 1))", "None\n            or torch.nn.Linear(2, 1)\n        )"),
        (
            "torch.optim.SGD(self.model.parameters(), lr=0.1))",
            "torch.optim.SGD(self.model.parameters(), lr=0.1)  # the plain one\n"
            '            if context.get_hparam("sgd")\n'
            "            else torch.optim.Adam(self.model.parameters())\n        )",
        ),
    ],
)
def test_what_is_wrapped_may_have_several_lines(old, call, tmp_path):
    made = rewritten(tmp_path, trial((old, f"\n            {call}")))
    assert "MIGRATE" not in made
    lines = [line.strip() for line in call.splitlines()[:-1]]
    written = [line.strip() for line in made.splitlines()]
    assert all(
        line.replace('context.get_hparam("sgd")', "self.hparams.sgd") in written for line in lines
    )

from __future__ import annotations

import pytest

from tests.migrate.rewriting import HEADER, method, rewritten, trial

HOOK = """\
def on_train_epoch_start(self):
    # Lightning trains them in the mode in which they are
    self.model.train()"""


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("loss = ", "self.model.eval()\n        loss = "), id="eval in a batch"),
        pytest.param(("loss = ", "self.model.train(False)\n        loss = "), id="train(False)"),
        pytest.param(
            ("torch.nn.Linear(2, 1)", 'AutoModel.from_pretrained("m")'), id="a pretrained model"
        ),
    ],
)
def test_models_train_in_training_mode(tmp_path, change):
    made = rewritten(tmp_path, trial(change))
    assert method(made, "on_train_epoch_start") == HOOK


FROZEN = "import torch\n\n\nclass Net(torch.nn.Linear):\n    def {}\n"


@pytest.mark.parametrize(
    ("nets", "is_sure"),
    [
        (FROZEN.format("train(self, mode=True):\n        return super().train(False)"), False),
        (
            FROZEN.format("__init__(self, *a):\n        super().__init__(*a)\n        self.eval()"),
            False,
        ),
        (FROZEN.format("forward(self, x):\n        return x"), True),
        ("def Net(*a):\n    net = torch.nn.Linear(*a)\n    net.eval()\n    return net\n", False),
        ("def Net(*a):\n    return torch.nn.Linear(*a).eval()\n", False),
        ("def Net(*a):\n    return torch.nn.Linear(*a)\ndef test(net):\n    net.eval()\n", True),
    ],
)
def test_models_of_another_file_may_have_a_mode_of_their_own(tmp_path, nets, is_sure):
    (tmp_path / "nets.py").write_text(nets)
    made = rewritten(tmp_path, "import nets\n" + trial(("torch.nn.Linear(2, 1)", "nets.Net(2, 1)")))
    assert ("on_train_epoch_start" not in made) == is_sure


def test_a_validation_may_change_the_mode(tmp_path):
    change = ('        return {"error"', '        self.model.eval()\n        return {"error"')
    assert "on_train_epoch_start" not in rewritten(tmp_path, trial(change))


def test_an_heir_knows_the_models_of_its_base(tmp_path):
    heir = """

class Heir(Trial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        self.model.eval()
        return super().train_batch(batch, epoch_idx, batch_idx)
"""
    made = rewritten(tmp_path, trial() + heir)
    assert method(made.partition("class Heir")[2], "on_train_epoch_start") == HOOK


NOT_WRAPPED = """\
class Count(MetricReducer):
    def __init__(self): self.reset()
    def reset(self): self.n = 0
    def update(self, n): self.n += n
    def per_slot_reduce(self): return self.n
    def cross_slot_reduce(self, counts): return sum(counts)


class Begin(PyTorchCallback):
    def __init__(self, count): self.count = count
    def on_validation_start(self): self.count.update(100)


class Trial(PyTorchTrial):
"""
MADE = """\
        self.teacher = torch.nn.BatchNorm1d(2)
        self.count = context.wrap_reducer(Count(), name="count", for_training=False)

    def build_callbacks(self):
        return {"begin": Begin(self.count)}

    def build_training"""


def test_a_model_that_is_not_wrapped_stays_in_its_mode_where_callbacks_update_reducers(tmp_path):
    made = rewritten(
        tmp_path,
        trial(
            ("import DataLoader", "import MetricReducer, PyTorchCallback, DataLoader"),
            ("class Trial(PyTorchTrial):\n", NOT_WRAPPED),
            ("    def build_training", MADE),
            ("self.model(batch).sum()}", "self.model(self.teacher(batch)).sum()}"),
        ),
    )
    assert made.count("def on_validation_model_eval") == 1
    hook = method(made, "on_validation_model_eval").splitlines()
    assert [hook[1].strip(), hook[-1].strip()] == ["self.model.eval()", "self.count.reset()"]
    assert "super().on_validation" not in made


@pytest.mark.parametrize("trains", [True, False])
def test_a_mode_that_a_validation_sets_is_there_in_training(tmp_path, trains):
    changes = [
        (
            "        self.model",
            "        self.teacher = torch.nn.BatchNorm1d(2)\n        self.model",
        ),
        ('        return {"error"', '        self.teacher.eval()\n        return {"error"'),
        ("self.model(batch).sum()}", "self.model(self.teacher(batch)).sum()}"),
    ]
    if trains:
        changes.append(("loss = ", "batch = self.teacher(batch)\n        loss = "))
    made = rewritten(tmp_path, trial(*changes))
    for mode in ("eval", "train"):
        hook = f"    def on_validation_model_{mode}(self):\n        self.model.{mode}()\n"
        assert (hook in made) == trains


LOSSES = """\
import lib
import torch


class Perceptual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))


class TokenConfig(Perceptual): ...


class Far(lib.Far):
    layer = torch.nn.BatchNorm1d(2)


class Vocabulary(dict):
    layer = torch.nn.BatchNorm1d(2)
    words = lib.words()


def examples():
    return Perceptual()


def make_loss():
    return Perceptual()
"""


@pytest.mark.parametrize(
    ("made_by", "stays", "is_inherited"),
    [
        ("losses.make_loss()", True, False),
        ("losses.make_loss()", True, True),
        ("torch.nn.ReLU()", False, False),
        ("torch.nn.ReLU()", False, True),
        # Neither a name makes data of a model, nor a layer a model of what has it.
        ("losses.examples()", True, False),
        ("losses.TokenConfig()", True, False),
        ("losses.Far()", True, False),
        ("losses.Vocabulary()", False, False),
        ("losses.Vocabulary().net()", True, False),
    ],
)
def test_a_model_of_another_file_that_is_not_wrapped_stays_in_its_mode(
    tmp_path, made_by, stays, is_inherited
):
    (tmp_path / "losses.py").write_text(LOSSES)
    source = trial(
        ("        self.model", f"        self.body = {made_by}\n        self.model"),
        ("self.model(batch).sum()}", "self.body(self.model(batch)).sum()}"),
        header="import losses\n" + HEADER,
    )
    if is_inherited:
        source = source.replace("class Trial(PyTorchTrial)", "class Base(PyTorchTrial)").replace(
            "    def evaluate_batch", "\nclass Trial(Base):\n    def evaluate_batch"
        )
    made = rewritten(tmp_path, source).partition("class Trial")[2]
    # What stays in training mode may change in a validation, too.
    for text in ("def on_validation_model_eval", "num_sanity_val_steps = 0"):
        assert (text in made) == stays


def test_a_wrapped_model_whose_results_are_kept_and_handed_on_needs_no_hook(tmp_path):
    change = ("self.model(batch).sum()}", "torch.add(out, self.model(batch)).sum()}")
    source = trial(change).replace(
        '        return {"error"', '        out = self.model(batch)\n        return {"error"'
    )
    assert "on_validation_model_eval" not in rewritten(tmp_path, source)


@pytest.mark.parametrize(
    ("made", "stays"),
    [
        ("resnet18()", True),
        ("lib.Factory.build('a')", True),
        ("getattr(lib, 'name')()", True),
        ("lib.nets['a']", True),
        ("torch.nn.TransformerEncoderLayer(4, 2)", True),
        ("torch.nn.Sequential(resnet18())", True),
        ("torch.hub.load('a', 'b')", True),
        ("torch.nn.CrossEntropyLoss()", False),
        ("resnet18().eval()", False),
        ("torch.relu", False),
        ("self.model", False),
    ],
)
def test_what_may_be_a_model_with_modes_stays_in_its_mode(tmp_path, made, stays):
    source = trial(
        (
            "        self.opt =",
            f"        other: object = {made}\n        self.x = other\n        self.opt =",
        ),
        ("self.model(batch).sum()}", "self.x(self.model(batch)).sum()}"),
        header="import lib\nfrom torchvision.models import resnet18\n" + HEADER,
    )
    direct = source.replace(f"other: object = {made}", f"other = self.y = {made}")
    assert ("on_validation_model_eval" in rewritten(tmp_path, source)) == stays
    assert ("on_validation_model_eval" in rewritten(tmp_path, direct)) == stays


@pytest.mark.parametrize(
    ("use", "stays"), [("lib.judge(self.x)", True), ("torch.utils.data.Subset(self.x, [])", False)]
)
def test_what_only_loaders_get_is_no_model(tmp_path, use, stays):
    source = trial(
        (
            "        self.opt =",
            f"        self.x = lib.make()\n        self.y = {use}\n        self.opt =",
        ),
        header="import lib\n" + HEADER,
    )
    assert ("def on_validation_model_eval" in rewritten(tmp_path, source)) == stays


def test_a_model_that_no_attribute_keeps_has_its_mode_marked_where_another_is_not_wrapped(tmp_path):
    source = trial(
        (
            "        self.opt =",
            "        self.x = lib.make()\n"
            "        lib.add(context.wrap_model(lib.net))\n"
            "        self.opt =",
        ),
        ("self.model(batch).sum()}", "self.x(self.model(batch)).sum()}"),
        header="import lib\n" + HEADER,
    )
    made = rewritten(tmp_path, source)
    assert "validations put all models into evaluation mode, wrapped or not" in made
    assert "def on_validation_model_eval" not in made


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_a_model_that_a_function_gives_a_trial_stays_in_its_mode_or_is_marked(tmp_path, is_wrapped):
    (tmp_path / "parts.py").write_text(
        "import torch\n\n\ndef add(trial):\n    trial.norm = torch.nn.BatchNorm1d(1)\n"
    )
    changes = [("self.model(batch).sum()}", "self.norm(self.model(batch)).sum()}")]
    if not is_wrapped:
        changes.append(("context.wrap_model(torch.nn.Linear(2, 1))", "wrapped(context)"))
    made = rewritten(tmp_path, trial(*changes))
    assert ("def on_validation_model_eval" in made) == is_wrapped
    mark = "# MIGRATE: validations put all models into evaluation mode, wrapped or not"
    assert (mark in made) != is_wrapped

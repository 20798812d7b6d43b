from __future__ import annotations

import pytest

from tests.migrate.rewriting import HEADER, method, rewritten, trial

HOOK = """\
def {}(self):
    # models that come in evaluation mode would be trained in it
    self.model.train()"""
START, EPOCH = "on_train_start", "on_train_epoch_start"


@pytest.mark.parametrize("start", ["self.model.eval()", "self.model.train(False)"])
def test_models_train_in_training_mode(tmp_path, start):
    made = rewritten(tmp_path, trial(("loss = ", f"{start}\n        loss = ")))
    assert START not in made
    assert method(made, EPOCH) == HOOK.format(EPOCH)


@pytest.mark.parametrize("start", ["self.model.eval()", "self.model.train(False)"])
def test_a_model_that_is_made_in_evaluation_mode_trains_in_the_other(tmp_path, start):
    made = rewritten(
        tmp_path, trial(("        self.opt = ", f"        {start}\n        self.opt = "))
    )
    assert method(made, START) == HOOK.format(START)
    assert EPOCH not in made


def test_losses_have_no_mode(tmp_path):
    loss = "        self.loss = context.wrap_model(torch.nn.MSELoss())\n"
    change = ("        self.model =", f"{loss}        self.model =")
    made = rewritten(tmp_path, trial(change, ("loss = ", "self.model.eval()\n        loss = ")))
    assert method(made, EPOCH) == HOOK.format(EPOCH)


def test_a_pretrained_model_trains_in_training_mode_from_the_start(tmp_path):
    made = rewritten(tmp_path, trial(("torch.nn.Linear(2, 1)", 'AutoModel.from_pretrained("m")')))
    assert method(made, START) == HOOK.format(START)
    assert EPOCH not in made


def test_a_start_has_modes_and_optimizers(tmp_path):
    change = ("torch.nn.Linear(2, 1)", 'AutoModel.from_pretrained("m")')
    asked = ("class Trial", "def look(trial):\n    trial.opt.step()\n\n\nclass Trial")
    automatic = ("        return {", "        self.opt.zero_grad()\n        return {")
    made = rewritten(tmp_path, trial(change, asked, automatic))
    start = method(made, START)
    assert "self.opt = self.optimizers()\n" in start
    assert "self.model.train()" in start
    assert made.count(f"def {START}(") == 1


def test_an_heir_starts_as_its_base_does(tmp_path):
    base = """
class Base(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(AutoModel.from_pretrained("m"))


class Trial(Base)"""
    init = "self.model = context.wrap_model(torch.nn.Linear(2, 1))"
    own = (
        "super().__init__(context)\n        self.other = context.wrap_model(torch.nn.Linear(2, 1))"
    )
    made = rewritten(tmp_path, trial(("class Trial(PyTorchTrial)", base), (init, own)))
    start = method(made.partition("class Trial")[2], START)
    assert "self.model.train()" in start
    assert "super()" not in start
    heir = "\n\nclass Heir(Trial):\n    def __init__(self, context):\n        {}\n".format(
        "super().__init__(context)\n        self.more = context.wrap_model(torch.nn.Linear(2, 1))"
    )
    made = rewritten(tmp_path, trial(("class Trial(PyTorchTrial)", base), (init, own)) + heir)
    start = method(made.partition("class Heir")[2], START)
    assert f"    super().{START}()\n" in start
    assert "self.more.train()" in start


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
    assert (START not in made) == is_sure
    assert (EPOCH in made) == ("def train(" in nets)


def test_a_validation_may_change_the_mode(tmp_path):
    change = ('        return {"error"', '        self.model.eval()\n        return {"error"')
    assert START not in rewritten(tmp_path, trial(change))


LOOKED = "self.model.eval()\n        {}self.look()\n        self.model{}.train({})\n        loss = "


@pytest.mark.parametrize(
    ("between", "part", "mode", "is_back"),
    [
        ("", "", "", True),
        ("", "", "mode=True", True),
        ("", "", "False", False),
        ("", "[0]", "", False),
        ("if self.done:\n            return {}\n        ", "", "", False),
        ("self.model = self.made()\n        ", "", "", False),
    ],
)
def test_a_model_may_be_put_back_at_once(tmp_path, between, part, mode, is_back):
    made = rewritten(tmp_path, trial(("loss = ", LOOKED.format(between, part, mode))))
    assert (EPOCH not in made) == is_back


def test_an_heir_knows_the_models_of_its_base(tmp_path):
    heir = """

class Heir(Trial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        self.model.eval()
        return super().train_batch(batch, epoch_idx, batch_idx)
"""
    made = rewritten(tmp_path, trial() + heir)
    assert method(made.partition("class Heir")[2], EPOCH) == HOOK.format(EPOCH)


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
    assert [hook[2].strip(), hook[-1].strip()] == ["self.model.eval()", "self.count.reset()"]
    assert "super().on_validation" not in made


@pytest.mark.parametrize(
    ("more", "count"),
    [("", 1), ("self.own = context.wrap_model(torch.nn.Linear(2, 1))", 2)],
)
def test_an_heir_has_the_hooks_of_its_base_where_it_wraps_no_more(tmp_path, more, count):
    heir = f"""

class Heir(Trial):
    def __init__(self, context):
        super().__init__(context)
        {more or "pass"}
"""
    kept = "self.teacher = torch.nn.BatchNorm1d(2)\n\n    def build_training"
    changes = (
        ("\n    def build_training", f"        {kept}"),
        ("self.model(batch).sum()}", "self.model(self.teacher(batch)).sum()}"),
    )
    made = rewritten(tmp_path, trial(*changes) + heir)
    assert made.count("def on_validation_model_eval") == count


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
    said = "        # the other modules keep their mode\n"
    for mode, why in (("eval", said), ("train", "")):
        hook = f"    def on_validation_model_{mode}(self):\n{why}        self.model.{mode}()\n"
        assert (hook in made) == trains


@pytest.mark.parametrize(
    ("imported", "is_said"),
    [
        ("from model import Net", True),
        ("import models.nets as nets", True),
        ("from torchvision.models import resnet18 as Net", False),
        ("from nets_here import Net", False),
    ],
)
def test_a_model_that_nobody_has_seen_may_be_in_any_mode(tmp_path, imported, is_said):
    (tmp_path / "nets_here.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Linear):\n    pass\n"
    )
    made = "nets.Net(2, 1)" if "nets" in imported.split()[-1] else "Net(2, 1)"
    after = rewritten(tmp_path, f"{imported}\n" + trial(("torch.nn.Linear(2, 1)", made)))
    assert (START in after) == is_said


@pytest.mark.parametrize(
    ("model", "is_told"),
    [
        ('torch.hub.load("repo", "net")', True),
        ('torch.load("net.pt", weights_only=False)', True),
        ("torch.nn.Linear(2, 1)", False),
    ],
)
def test_models_that_somebody_else_has_made_are_told_to_train(model, is_told, tmp_path):
    made = rewritten(tmp_path, trial(("torch.nn.Linear(2, 1)", model)))
    assert ("def on_train_start(self)" in made) is is_told


def test_a_batch_that_begins_in_training_mode_needs_no_hook(tmp_path):
    made = (("torch.nn.Linear(2, 1)", 'torch.hub.load("a", "b")'),)
    begins = ("        loss = ", "        self.model.train()\n        loss = ")
    later = (
        "        self.context.backward",
        "        self.model.train()\n        self.context.backward",
    )
    assert START not in rewritten(tmp_path, trial(*made, begins))
    assert START in rewritten(tmp_path, trial(*made, later))


EMA = """

class Average:
    def __init__(self, model):
        self.model = model
"""


@pytest.mark.parametrize(("base", "has_mode"), [("", False), ("(torch.nn.Module)", True)])
def test_an_object_in_the_place_of_a_model_has_no_mode(base, has_mode, tmp_path):
    """As an average of weights is, where the copy of a model was wrapped before."""
    wrapped = "self.model = context.wrap_model(torch.nn.Linear(2, 1))"
    copied = """
        if context.get_hparam("apart"):
            self.average = context.wrap_model(torch.nn.Linear(2, 1))
        self.average = Average(self.model)
        self.teacher = torch.nn.BatchNorm1d(2)"""
    asked = ("self.model(batch).sum()}", "self.model(self.teacher(batch)).sum()}")
    source = trial((wrapped, wrapped + copied), asked)
    made = rewritten(tmp_path, source + EMA.replace("Average:", f"Average{base}:"))
    assert ("self.average.eval()" in made) is has_mode
    assert "self.model.eval()" in method(made, "on_validation_model_eval")


FREEZE = """\
    def freeze(self):
        for part in self.model.modules():
            if isinstance(part, torch.nn.BatchNorm1d):
                part.eval()

    def train_batch"""
#: What train_batch begins with, and whether a model stays in evaluation mode over batches.
LASTING = {
    "self.freeze()": False,
    "if self.is_frozen:\n            self.freeze()": False,
    "if not self.is_frozen:\n            self.freeze()": False,
    "if self.context.is_epoch_start():\n            self.freeze()": True,
    "if batch_idx == 0:\n            self.model.eval()": True,
    "if batch_idx:\n            return {}\n        self.freeze()": True,
}


@pytest.mark.parametrize("begins", LASTING)
def test_a_validation_ends_the_mode_that_a_batch_left_behind(tmp_path, begins):
    """Determined did so; Lightning gives back the one that was there before."""
    setting = ("        self.model =", "        self.is_frozen = True\n        self.model =")
    start = ("        loss = ", f"        {begins}\n        loss = ")
    made = rewritten(tmp_path, trial(setting, start, ("    def train_batch", FREEZE)))
    assert ("def on_validation_model_train" in made) is LASTING[begins]
    assert ("no scheduling_unit any more" in method(made, EPOCH)) is LASTING[begins]


@pytest.mark.parametrize(
    ("begins", "lasts"),
    [
        ("self.model.apply(fix)", False),
        ("fix(self.model)", False),
        ("if epoch_idx < 2:\n            self.model.apply(fix)", True),
        ("if epoch_idx < 2:\n            fix(self.model)", True),
        ("if epoch_idx < 2:\n            self.model.apply(nets.fix)", True),
        ("if epoch_idx < 2:\n            self.model.freeze()", True),
        ("if epoch_idx < 2:\n            look(self.model)", None),
    ],
)
def test_functions_of_the_project_leave_a_mode_behind(tmp_path, begins, lasts):
    fix = "def fix(m):\n    if isinstance(m, torch.nn.BatchNorm1d):\n        m.eval()\n\n\n"
    look = "def look(m):\n    m.eval()\n    m(1)\n    m.train()\n\n\n"
    net = "class Net(torch.nn.Module):\n    def freeze(self):\n        self.first.eval()\n"
    (tmp_path / "nets.py").write_text(f"import torch\n\n\n{fix}{look}{net}")
    header = f"import nets\nfrom nets import fix, look\n{HEADER}"
    start = ("        loss = ", f"        {begins}\n        loss = ")
    made = rewritten(tmp_path, trial(start, header=header))
    assert (f"def {EPOCH}(self)" in made) is (lasts is not None)
    assert ("def on_validation_model_train" in made) is bool(lasts)


@pytest.mark.parametrize(("hook", "lasts"), [("training_epoch", True), ("validation", False)])
def test_a_mode_that_a_callback_sets_ends_with_an_epoch_and_a_validation(tmp_path, hook, lasts):
    callback = f"""
class Freezing(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial

    def on_{hook}_start(self{", epoch_idx" if lasts else ""}):
        self.trial.model.eval()


class Trial("""
    header = HEADER.replace("PyTorchTrial,", "PyTorchCallback, PyTorchTrial,")
    made = rewritten(tmp_path, trial(("class Trial(", callback), header=header))
    assert (f"def {EPOCH}(self)" in made) is lasts
    assert ("def on_validation_model_train" in made) is lasts

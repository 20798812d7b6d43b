from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

OPT = "self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))"
RATE = OPT.replace("0.1", "self.rate")
COUNTING = OPT.replace("0.1", "self.counted()")
SHARED = OPT.replace("0.1", "self.shared[0]")
ASKING = OPT.replace("self.model.parameters()", "[p for p in self.all() if p.requires_grad]")


@pytest.mark.parametrize(
    ("lines", "moves"),
    [
        ([OPT, "self.rate = 1"], True),
        (["self.rate = 1", RATE], True),
        (["self.rate = 1", RATE, "self.rate = 2"], False),
        (["self.rate = 1", RATE, "self.rate *= 2"], False),
        (["self.rate = 1", RATE, "self.slower()"], False),
        ([OPT, "self.model.head = torch.nn.Linear(1, 1)"], False),
        ([OPT, "self.model = context.wrap_model(self.model)"], True),
        ([ASKING, "self.rate = 1"], True),
        ([ASKING, "self.model.bias.requires_grad = False"], False),
        # What the method sets is asked for, or set again, by what follows.
        (["self.n = 0", COUNTING, "self.rate = 1"], True),
        (["self.n = 0", COUNTING, "if self.n:\n            self.rate = 1"], False),
        (
            ["self.n = 0", COUNTING, "match self.n:\n            case _:\n                pass"],
            False,
        ),
        (["self.n = 0", COUNTING, "self.n = 3"], False),
        # An attribute of a class has two names.
        ([SHARED, "self.rate = 1"], True),
        ([SHARED, "Trial.shared[0] = 1"], False),
        ([SHARED.replace("self.sh", "Trial.sh"), "self.shared[0] = 1"], False),
        ([SHARED.replace("self.sh", "Trial.sh"), "Trial.shared = [1]"], False),
        ([SHARED, "torch.nn.Linear.rate = 1"], True),
    ],
)
def test_an_optimizer_stays_before_what_changes_what_it_is_made_of(lines, moves, tmp_path):
    slower = "    def slower(self):\n        self.rate = 0.01\n\n"
    slower += "    shared = [0.1]\n\n    def counted(self):\n        self.n += 1\n"
    slower += "        return self.n\n\n"
    slower += "    def all(self):\n        return self.model.parameters()\n\n    def evaluate_batch"
    changes = [(OPT, "\n        ".join(lines)), ("    def evaluate_batch", slower)]
    made = rewritten(tmp_path, trial(*changes))
    assert ("SGD" in method(made, "configure_optimizers")) is moves
    assert ("SGD" in method(made, "__init__")) is not moves


BY = "LRScheduler.StepMode.STEP_EVERY_EPOCH"
WRAP = "self.opt = context.wrap_optimizer(opt)"
CHOICE = """\
name = context.get_hparam("kind")
if name == "sgd":
    opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
else:
    raise ValueError(name)
"""
LISTED = """\
made = [{"params": self.model.parameters()}]
if context.get_hparam("second"):
    made.append({"params": self.other})
opt = torch.optim.SGD(made, lr=0.1)
"""


@pytest.mark.parametrize(
    ("lines", "moves"),
    [
        pytest.param(f"{CHOICE}{WRAP}", "    else:\n        raise ValueError(name)\n", id="if"),
        pytest.param(f"{CHOICE}{WRAP}\nself.name = name", "self.name == ", id="if, kept"),
        pytest.param(f"{CHOICE}{WRAP}\nprint(name)", "self.hparams.kind == ", id="if, asked"),
        pytest.param(f"{CHOICE}print(opt)\n{WRAP}", "", id="needed"),
        pytest.param(
            f"{CHOICE}if context.get_hparam('lars'):\n    opt = Lars(opt)\n{WRAP}",
            "",
            id="what is around it is not known",
        ),
        pytest.param(f"{LISTED}{WRAP}", "    made.append(", id="list"),
        pytest.param(
            f"{LISTED.replace('[{', 'self.groups([{').replace('}]', '}])')}{WRAP}", "", id="not new"
        ),
        pytest.param(
            f"given = self.all()\ngiven['lr'] = 1\nopt = torch.optim.SGD(**given)\n{WRAP}",
            "",
            id="set",
        ),
        pytest.param(f"{LISTED}{WRAP}\nself.made = made", "SGD(self.made", id="kept"),
        pytest.param(
            f"opt = torch.optim.SGD(self.model.parameters(), lr=torch.rand(1))\n{WRAP}",
            "",
            id="random",
        ),
        pytest.param(
            f"rate = 1 / context.get_hparam('samples')\n{OPT.replace('0.1', 'rate')}",
            "rate",
            id="name",
        ),
        pytest.param(
            f"cfg = make()\nself.cfg = cfg\n{OPT.replace('0.1', 'cfg.lr')}",
            "=self.cfg.lr",
            id="cfg",
        ),
        pytest.param(
            f"cfg = make()\nself.cfg = cfg\n{OPT.replace('0.1', 'cfg.lr')}\ncfg.lr = 1", "", id="2"
        ),
        pytest.param(
            f"cfg = make()\nself.cfg = cfg\n{OPT.replace('0.1', 'cfg.lr')}\nself.cfg.update(a=1)",
            "",
            id="3",
        ),
        pytest.param(
            f"cfg = make()\n{OPT.replace('0.1', 'cfg.lr')}\ncfg = make()\nself.cfg = cfg",
            "",
            id="4",
        ),
        pytest.param(f"{OPT}\nself.opt.param_groups[0]['lr'] = 1", "[0]['lr'] = 1\n", id="change"),
        pytest.param(
            f"{OPT}\nfor group in self.opt.param_groups:\n    group['lr'] = 1", "in opt.", id="loop"
        ),
        pytest.param(
            f"{OPT}\nself.s = torch.optim.lr_scheduler.StepLR(self.opt, 1)", "self.s =", id="s"
        ),
        pytest.param(f"{OPT}\nself.s = Wrapper(self.opt)", "", id="what may be a module"),
        pytest.param(f"{OPT}\nself.s = StepLR(self.opt, 1)\nprint(self.s)", "", id="s, needed"),
    ],
)
def test_what_moves_with_an_optimizer(lines, moves, tmp_path):
    made = rewritten(tmp_path, trial((OPT, lines.replace("\n", f"\n{' ' * 8}"))))
    assert ("opt" not in method(made, "__init__")) is bool(moves)
    assert moves in method(made, "configure_optimizers")
    assert "MIGRATE: " not in made.replace("MIGRATE: Lightning calls step(closure", "")


LIMITED = f"""{OPT}
        if context.get_hparam("decays"):
            size = 2
            decay = torch.optim.lr_scheduler.StepLR(self.opt, size)
            self.decay = context.wrap_lr_scheduler(decay, {BY})"""


def test_a_scheduler_moves_with_what_is_above_it_below_a_condition(tmp_path):
    made = method(rewritten(tmp_path, trial((OPT, LIMITED))), "configure_optimizers")
    assert made.startswith(
        "def configure_optimizers(self):\n"
        "    opt = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"
        "    if self.hparams.decays:\n"
        "        size = 2\n"
        "        decay = torch.optim.lr_scheduler.StepLR(opt, size)\n"
    )
    assert made.endswith("        }\n    return opt")


def test_a_scheduler_moves_that_asks_for_sizes_where_its_optimizer_stays(tmp_path):
    lines = f"""\
{OPT}
        by = torch.optim.lr_scheduler.StepLR(self.opt, context.get_per_slot_batch_size())
        by.last_step = 0
        self.by = context.wrap_lr_scheduler(by, {BY})
"""
    asks = (
        "evaluate_batch(self, batch):\n",
        "evaluate_batch(self, batch):\n        print(self.opt)\n",
    )
    made = rewritten(tmp_path, trial((OPT, lines), asks))
    assert "self.opt = torch.optim.SGD" in method(made, "__init__")
    assert "world_size: int" not in made
    assert "    by.last_step = 0\n" in method(made, "configure_optimizers")
    rate = (asks[0], asks[1].replace("self.opt", "self.opt.param_groups[0]['lr']"))
    assert "world_size: int" in rewritten(tmp_path, trial((OPT, lines), rate))


HELPERS = """\
class Loss(torch.nn.Module):
    def __init__(self, scale, own=None):
        super().__init__()
        self.scale = scale


class Holder:
    def __init__(self, held):
        self.held = held

    def poke(self):
        self.held.head = torch.nn.Linear(1, 1)


class Entering:
    def __init__(self, trial):
        self.trial = trial

    def __enter__(self):
        self.trial.rate = 2

    def __exit__(self, *error):
        pass


KNOWN = {}
RATES = [0.1]


def keep(model):
    KNOWN["model"] = model


def poke():
    KNOWN["model"].head = torch.nn.Linear(1, 1)


def bump():
    RATES[0] *= 2


def freeze(model):
    for p in model.parameters():
        p.requires_grad = False


def count(model):
    return sum(p.numel() for p in model.parameters())


def remembered(rate, known=[]):
    known.append(rate)
    return known[0]


"""


def made_of(lines, tmp_path, methods="") -> bool:
    """Whether the optimizer of these statements is made in configure_optimizers."""
    text = lines.replace("\n", f"\n{' ' * 8}")
    changes = [(OPT, f"self.rate = 1\n        {text}"), ("class Trial", f"{HELPERS}class Trial")]
    changes.append(("    def build_training", f"{methods}    def build_training"))
    tmp_path.mkdir(exist_ok=True)
    made = rewritten(tmp_path, trial(*changes))
    assert "MIGRATE" not in made
    return "SGD" in method(made, "configure_optimizers")


@pytest.mark.parametrize(
    "line",
    [
        "self.loss = torch.nn.CrossEntropyLoss()",
        'self.loss = Loss(context.get_hparam("scale"))',
        'print(f"{self.rate}", len([*self.model.parameters()]))',
        'self.steps = context.get_hparam("steps")',
        "self.size = count(self.model)",
        "self.model.to('cpu')",
        "self.model.load_state_dict(torch.load('weights'))",
        "self.data = torch.utils.data.TensorDataset(torch.ones(4, 2))",
        "torch.backends.cudnn.benchmark = True",
        "self.noise = torch.rand(2)",
        "self.names = []\nself.names.append('loss')",
        "self.holder = Holder(self.model)",
        "if self.rate:\n    self.late = 1",
        "bump()",
    ],
)
def test_an_optimizer_moves_behind_what_is_known_to_be_harmless(line, tmp_path):
    assert made_of(f"{RATE}\n{line}", tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "setattr(self, 'rate', 2)",
        "vars(self)['rate'] = 2",
        "self.__dict__.update(rate=2)",
        "for name in ['rate']:\n    setattr(self, name, 2)",
        "me = self\nme.rate = 2",
        "change = self.slower\nchange()",
        "print(f'{self.slower()}')",
        "with Entering(self):\n    pass",
        "exec('self.rate = 2')",
        "unknown(self.model)",
        "unknown(self)",
        "freeze(self.model)",
        "nets = [self.model]\nnets[0].head = torch.nn.Linear(1, 1)",
        "holder = Holder(self.model)\nholder.poke()",
        "keep(self.model)\npoke()",
        "torch.nn.utils.weight_norm(self.model)",
        "self.seen = 'opt' in self.__dict__",
    ],
)
def test_an_optimizer_stays_before_what_may_change_what_it_is_made_of(line, tmp_path):
    slower = "    def slower(self):\n        self.rate = 0.01\n\n"
    assert not made_of(f"{RATE}\n{line}", tmp_path, slower)


@pytest.mark.parametrize(
    ("rate", "line"),
    [
        ("RATES[0]", "bump()"),
        ("remembered(0.1)", "self.first = remembered(0.2)"),
        ("random.random()", "pass"),
        ("unknown()", "pass"),
        ("max(r for r in self.stream)", "self.first = [*self.stream]"),
        ("self.rate", "return"),
    ],
)
def test_an_optimizer_stays_that_may_be_another_one_later(rate, line, tmp_path):
    first = "self.stream = iter([1, 2])\n"
    assert not made_of(f"{first}{RATE.replace('self.rate', rate)}\n{line}", tmp_path)


def test_what_callbacks_change_when_they_are_made_is_asked_for_before(tmp_path):
    changing = "    def build_callbacks(self):\n        self.rate = 2\n        return {}\n\n"
    assert not made_of(RATE, tmp_path, changing)
    assert made_of(RATE, tmp_path / "other", changing.replace("self.rate", "self.other"))


def test_a_function_that_moves_does_not_ask_for_what_training_changes(tmp_path):
    lines = f"""\
by = 2
{OPT}
made = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda step: step / by)
self.by = by
self.schedule = context.wrap_lr_scheduler(made, {BY})"""
    assert made_of(lines, tmp_path)
    raising = "    def raise_it(self):\n        self.by += 1\n\n"
    assert not made_of(lines, tmp_path / "other", raising)


def test_a_property_and_its_setter_both_stay(tmp_path):
    both = """\
    @property
    def first(self):
        return self.rate

    @first.setter
    def first(self, value):
        self.rate = value

"""
    changes = [(OPT, f"self.rate = 1\n        {OPT.replace('0.1', 'self.first')}")]
    made = rewritten(
        tmp_path, trial(*changes, ("    def build_training", f"{both}    def build_training"))
    )
    assert both in made

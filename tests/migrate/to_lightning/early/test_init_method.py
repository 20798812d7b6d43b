from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from det_compat.shared.importing import load_file
from tests.migrate.rewriting import method, rewritten, trial

UNUSED_SAID = '# several devices need pl.Trainer(strategy="ddp_find_unused_parameters_true")\n'
IN_A_DICT = (
    'self.nets = {}\n        for name in ("g", "d"):\n'
    "            self.nets[name] = context.wrap_model(torch.nn.Linear(2, 1))"
)
MIXIN = """\
class Counting:
    def __init__(self, start):
        self.count = start


class Trial(Counting, PyTorchTrial)"""


def head(made: str, name: str) -> str:
    """The text of a class up to its second method."""
    start = made[made.index(f"class {name}") :]
    return "\n".join([*start.split("\n\n")[0].splitlines()])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "super().__init__(3)",
            """\
class Trial(Counting, pl.LightningModule):
    def __init__(self, *, global_batch_size: int):
        pl.LightningModule.__init__(self)
        self.save_hyperparameters()
        super().__init__(3)
""",
            id="by super",
        ),
        pytest.param(
            "Counting.__init__(self, 3)",
            """\
class Trial(Counting, pl.LightningModule):
    def __init__(self, *, global_batch_size: int):
        pl.LightningModule.__init__(self)
        self.save_hyperparameters(dict(global_batch_size=global_batch_size))
        Counting.__init__(self, 3)
""",
            id="by name, where Lightning finds no arguments",
        ),
    ],
)
def test_a_mixin_in_front_is_initialized_as_it_was(before: str, after: str, tmp_path: Path) -> None:
    changes = ("class Trial(PyTorchTrial)", MIXIN), ("self.context = context", before)
    made = rewritten(tmp_path, trial(*changes))
    assert head(made, "Trial").startswith(after)
    # The mixin is a plain class for whoever else uses it.
    assert head(made, "Counting") == MIXIN.partition("\n\n")[0]
    assert "MIGRATE" not in made


@pytest.mark.parametrize("before", ["super().__init__(3)", "Counting.__init__(self, 3)"])
def test_what_a_script_may_not_give_is_no_hyperparameter_behind_a_mixin(before, tmp_path):
    (tmp_path / "const.yaml").write_text(
        "entrypoint: model_def:Trial\n"
        "searcher: {name: single, metric: loss, max_length: {batches: 1}}\n"
        "hyperparameters: {global_batch_size: 4, width: 3}\n"
    )
    asking = "\n        print(context.get_hparams().get('width', 1))"
    changes = ("class Trial(PyTorchTrial)", MIXIN), ("self.context = context", before + asking)
    script = (
        "\n\ndef main():\n"
        "    with determined.pytorch.init(hparams={'global_batch_size': 4}) as context:\n"
        "        trainer = determined.pytorch.Trainer(Trial(context), context)\n"
        "        trainer.fit(max_length=determined.pytorch.Epoch(1))\n"
    )
    made = rewritten(tmp_path, "import determined.pytorch\n" + trial(*changes) + script)
    assert "MIGRATE" not in made and "width: int | None = None" in made
    (tmp_path / "made.py").write_text(made)
    module = load_file(tmp_path / "made.py")
    assert dict(module.Trial(global_batch_size=2).hparams) == {"global_batch_size": 2}
    assert dict(module.Trial(width=1).hparams) == {"global_batch_size": 4, "width": 1}


def test_a_mixin_is_given_the_context_by_name(tmp_path: Path) -> None:
    changes = (
        ("class Trial(PyTorchTrial)", MIXIN),
        ("self, context)", "self, context, size)"),
        ("self.context = context", "Counting.__init__(self, context)"),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert "        self.save_hyperparameters(dict(size=size, **hparams))\n" in made
    assert "        Counting.__init__(self, self)\n" in made


def test_a_mixin_that_gets_the_context_gets_the_module(tmp_path: Path) -> None:
    before = """\
class Counting:
    def __init__(self, context):
        super().__init__(context)
        self.rate = context.get_hparam("lr")


class Trial(Counting, PyTorchTrial)"""
    after = """\
class Counting:
    def __init__(self, context):
        self.rate = self.hparams.lr"""
    call = ("self.context = context", "super().__init__(context)")
    made = rewritten(tmp_path, trial(("class Trial(PyTorchTrial)", before), call))
    assert head(made, "Counting") == after
    assert "        super().__init__(self)\n" in made


def test_whose_init_an_unknown_mixin_has_is_asked(tmp_path: Path) -> None:
    before = (
        ("(PyTorchTrial)", "(Unknown, PyTorchTrial)"),
        (
            "self.context = context",
            "super().__init__(context)",
        ),
    )
    made = rewritten(tmp_path, trial(*before))
    assert "        # MIGRATE: it is not known which __init__ this calls; see " in made
    assert "        super().__init__(self)\n" in made


def test_a_base_behind_is_not_initialized(tmp_path: Path) -> None:
    mixin = MIXIN.replace("(Counting, PyTorchTrial)", "(PyTorchTrial, Counting)")
    changes = (
        ("class Trial(PyTorchTrial)", mixin),
        (
            "self.context = context",
            "super().__init__(context)",
        ),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert "        super().__init__()\n        self.save_hyperparameters()\n" in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("line", "is_handed_on"),
    [
        ("print(**context.get_hparams())", True),
        ('print(context.get_hparams()["lr"])', False),
        ('print(context.get_hparams().get("lr"))', False),
        ('print("lr" in context.get_hparams())', False),
        ("name = 'lr'\n        print(context.get_hparams()[name])", False),
        ("hparams = context.get_hparams()\n        hparams['lr'] = 1", False),
        ("hparams = AttrDict(context.get_hparams())\n        print(hparams.lr)", False),
        ("print(AttrDict(context.get_hparams()))", True),
        ("print(len(context.get_hparams()))", True),
    ],
)
def test_what_a_cli_adds_is_no_hyperparameter(
    line: str, is_handed_on: bool, tmp_path: Path
) -> None:
    made = rewritten(tmp_path, trial(("self.context = context", line)))
    assert "        self.save_hyperparameters()\n" in made, "a run of LightningCLI must go on"
    assert ('if name not in ("_class_path", "_instantiator")' in made) is is_handed_on
    assert ("self.hyperparameters" in made) is is_handed_on


@pytest.mark.parametrize("given", ["None, ", ""])
def test_one_that_has_a_name_for_each_does_not_save_that(given: str, tmp_path: Path) -> None:
    """Nothing is lost then, and so one has them as they are."""
    (tmp_path / "a.yaml").write_text(
        "entrypoint: model_def:Trial\nhyperparameters: {lr: 1, global_batch_size: 4}\n"
        "searcher: {name: single, metric: error, max_length: {epochs: 1}}\n"
    )
    made = rewritten(
        tmp_path, trial(("self.context = context", f"print({given}context.get_hparams())"))
    )
    assert "# LightningCLI adds these two, which are no hyperparameters\n" in made
    assert '        self.save_hyperparameters(ignore=["_class_path", "_instantiator"])\n' in made
    assert f"        print({given}dict(self.hparams))\n" in made


KEPT = "self.hparams = context.get_hparams()\n        "


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = {'a': context.get_hparams()}", "x = {'a': self.hyperparameters}"),
        ("x = [context.get_hparams()]", "x = [self.hyperparameters]"),
        ("x = [*context.get_hparams()]", "x = [*self.hyperparameters]"),
        ("x = f'{context.get_hparams()}'", "x = f'{self.hyperparameters}'"),
        ("x = context.get_hparams() == {}", "x = self.hyperparameters == {}"),
        ("x = context.get_hparams() | {'a': 1}", "x = self.hyperparameters | {'a': 1}"),
        ("x: dict = context.get_hparams()", "x: dict = self.hyperparameters"),
        ("x = lambda: context.get_hparams()", "x = lambda: self.hyperparameters"),
        (f"{KEPT}print(**self.hparams)", "print(**self.hyperparameters)"),
        (f"{KEPT}print(self.hparams.items())", "print(self.hyperparameters.items())"),
        (f"{KEPT}x = [*self.hparams]", "x = [*self.hyperparameters]"),
        (f"{KEPT}x = self.hparams\n        print(**x)", "x = self.hyperparameters"),
        (f"{KEPT}x = 'lr' in self.hparams, [*self.hparams]", "x = 'lr' in self.hparams, ["),
        (f"{KEPT}x = self.hparams['lr'], [*self.hparams]", "x = self.hparams['lr'], ["),
    ],
)
def test_nor_is_it_one_wherever_all_of_them_are(before: str, after: str, tmp_path: Path) -> None:
    made = rewritten(tmp_path, trial(("self.context = context", before)))
    assert f"        {after}" in made
    assert made.count("self.hparams.items()") == 1, "that of the property"


def test_those_that_have_attributes_keep_them(tmp_path: Path) -> None:
    before = (
        "self.hparams = AttrDict(context.get_hparams())\n"
        "        x = self.hparams\n        print(x.lr, self.hparams, **self.hparams)"
    )
    attr_dict = "class AttrDict(dict):\n    pass\n\n\nclass T"
    made = rewritten(tmp_path, trial(("self.context = context", before), ("class T", attr_dict)))
    after = (
        "        x = AttrDict(self.hyperparameters)\n"
        "        print(x.lr, AttrDict(self.hyperparameters), **self.hyperparameters)\n"
    )
    assert after in made and "class AttrDict" in made


CHAIN = """\
class First:
    def __init__(self, context, *args, **kwargs):
        super().__init__(context, *args, **kwargs)
        self.rate = context.get_hparam("rate")


class Second:
    def __init__(self, context, *args, **kwargs):
        super().__init__(context, *args, **kwargs)
        self.size = context.get_hparam("size")


"""
CALLS_NEXT = "        super().__init__(self, *args, **kwargs)\n"
FIRST_SAYS, BASE_SAYS = "another __init__ is behind this one in some", "a mixin's __init__, which"


@pytest.mark.parametrize(
    ("bases", "more", "said"),
    [
        ("First, Second, PyTorchTrial", "", ""),
        (
            "First, PyTorchTrial",
            "class Other(First, Second, PyTorchTrial):\n    pass\n",
            FIRST_SAYS,
        ),
        (
            "Kept, First, Base",
            "class Kept:\n    def __init__(self, *args):\n        self.at = args\n"
            "        super().__init__(*args)\n\n\n"
            "class Base(PyTorchTrial):\n    def __init__(self, context):\n        pass\n",
            BASE_SAYS,
        ),
    ],
)
def test_mixins_call_the_init_of_the_next_one(bases, more, said, tmp_path):
    changes = (
        ("class Trial(PyTorchTrial)", f"{CHAIN}{more}\n\nclass Trial({bases})"),
        ("    def __init__(self, context):\n        self.c", "    START\n        self.c"),
        ("START", "def __init__(self, context, *args, **kwargs):\n        SUPER"),
        ("SUPER", "super().__init__(context, *args, **kwargs)"),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert made.count("# MIGRATE") == (1 if said else 0) and said in made
    if not said:
        assert CALLS_NEXT in head(made, "First") and CALLS_NEXT not in head(made, "Second")
        assert "        super().__init__(self, *args)\n" in head(made, "Trial")
        # Whatever is handed on by stars has the context in it, too.
        starred = trial(*changes).replace("super().__init__(context, *", "super().__init__(*")
        made = rewritten(tmp_path, starred)
        assert "super()" in head(made, "First") and "super()" not in head(made, "Second")


BASE = """\
class Base(PyTorchTrial):
    def __init__(self, context):
        self.rate = context.get_hparam("rate")


"""


def test_hyperparameters_pass_a_mixin_that_hands_the_rest_on(tmp_path: Path) -> None:
    before = """\
class Smooth:
    def __init__(self, smoothing=0.0, **kwargs):
        super().__init__(**kwargs)
        self.smoothing = smoothing"""
    changes = (
        ("class Trial(PyTorchTrial)", f"{before}\n\n\n{BASE}class Trial(Smooth, Base)"),
        ("self.context = context", "super().__init__(smoothing=0.1, context=context)"),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert "MIGRATE" not in made
    assert head(made, "Smooth") == before
    assert "        self.save_hyperparameters(hparams)\n" in head(made, "Base")
    assert "        super().__init__(smoothing=0.1, **hparams)\n" in head(made, "Trial")
    # A hyperparameter of the name of its argument would not go on.
    made = rewritten(tmp_path, trial(*changes).replace('"rate"', '"smoothing"'))
    assert f"        # MIGRATE: {BASE_SAYS}" in made


def test_a_base_is_initialized_before_mixins_that_take_its_context(tmp_path: Path) -> None:
    mixin = """\
class Rated:
    def __init__(self, context):
        super().__init__(context)
        self.half = context.get_hparam("rate") / 2


"""
    changes = (
        ("class Trial(PyTorchTrial)", f"{mixin}{BASE}class Trial(Rated, Base)"),
        ("self.context = context", "super().__init__(context)"),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert "MIGRATE" not in made and "super" not in head(made, "Rated")
    lines = "        Base.__init__(self, **hparams)\n        super().__init__(self)\n"
    assert lines in made
    # One without an __init__ of its own gets one, and what derives from it.
    heirs = "\n\nclass Heir(Rated, Base):\n    pass\n\n\nclass Next(Heir):\n    pass\n"
    name = (
        "searcher: {name: single, metric: x, max_length: {batches: 8}}\nentrypoint: model_def:Heir"
    )
    (tmp_path / "c.yaml").write_text(
        f"{name}\nhyperparameters: {{global_batch_size: 4, rate: 1}}\n"
    )
    made = rewritten(tmp_path, trial(*changes) + heirs)
    init = f"    def __init__(self, **hparams: Any):\n{lines}"
    assert f"class Heir(Rated, Base):\n{init}\n\nclass Next(Heir):\n    pass\n" in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("base", "is_marked"), [("Named", True), ("Trial", False), ("Other", False)]
)
def test_a_mixin_that_others_need_as_it_was_is_marked(base, is_marked, tmp_path):
    """What is behind it is the module in a trial, and something else in a class that is none."""
    named = f"class Named:\n    pass\n\n\nclass Both(Second, {base}):\n    pass\n\n\n"
    other = "" if base == "Trial" else "class Other(Second, PyTorchTrial):\n    pass\n\n\n"
    changes = (
        ("class Trial(PyTorchTrial)", f"{CHAIN}class Trial(Second, PyTorchTrial)"),
        ("self.context = context", "super().__init__(context)"),
    )
    source = f"{trial(*changes)}\n\n{other}{named}"
    made = rewritten(tmp_path, source)
    assert ("# MIGRATE: classes that are no trials need this call" in made) is is_marked


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ('self.n = context.get_hparam("n")', 'self.n = hparams["n"]'),
        ("self.n = context.get_hparams()", "self.n = hparams"),
        ('self.n = context.get_hparams().get("n", 3)', 'self.n = hparams.get("n", 3)'),
    ],
)
def test_what_is_asked_before_the_init_of_the_base(line, after, tmp_path: Path) -> None:
    heir = f"""

class Heir(Trial):
    def __init__(self, context):
        {line}
        super().__init__(context)
        self.last = context.get_hparam("last")
"""
    made = rewritten(tmp_path, trial() + heir).partition("class Heir")[2]
    assert f"        {after}\n        super().__init__(**hparams)\n" in made
    assert "self.last = self.hparams.last\n" in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("given", "args"),
    [
        ('clip=context.get_hparam("rate")', 'clip=hparams["rate"], **hparams'),
        # Both would give the base the same argument.
        ('context.get_hparam("clip")', 'hparams["clip"], **{REST}'),
        ('clip=context.get_hparams().get("clip", 1)', 'clip=hparams.get("clip", 1), **{REST}'),
    ],
)
def test_what_a_base_is_given_comes_before_it(given, args, tmp_path: Path) -> None:
    heir = f"""\


class Heir(Trial):
    def __init__(self, context):
        super().__init__(context, {given})
"""
    base = trial(("(self, context)", "(self, context, clip=None)")) + heir
    made = rewritten(tmp_path, base).partition("class Heir")[2]
    rest = 'name: value for name, value in hparams.items() if name != "clip"'
    wanted = f"super().__init__({args.replace('REST', rest)})"
    assert "".join(made.split()).replace(",)", ")").endswith("".join(wanted.split()))


def test_heirs_in_files_that_name_nothing_of_determineds_are_heirs(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(
        "from model_def import Trial as Base\n\n\nclass Small(Base):\n    width = 2\n"
    )
    (tmp_path / "smaller.py").write_text(
        "import small\n\n\nclass Smaller(small.Small):\n    width = 1\n"
    )
    made = rewritten(tmp_path, trial(("lr=0.1", 'lr=context.get_hparam("lambda")')))
    # Their configs may say anything.
    assert "def __init__(self, **hparams: Any):" in made
    assert 'self.hparams["lambda"]' in made


HEIR = """

class Heir(Trial):
    def __init__(self, context):
        super().__init__(context, lr=1)
"""


@pytest.mark.parametrize("heir", ["", HEIR])
def test_what_determined_gave_none_of_is_empty(heir: str, tmp_path: Path) -> None:
    changes = (("self, context)", "self, context, *, size=4, **more)"), ("lr=0.1)", "**more)"))
    hparams = (
        "4)\n\n    def train",
        "dict(self.context.get_hparams(), size=4)[1])\n\n    def train",
    )
    made = rewritten(tmp_path, trial(*changes, hparams) + heir)
    assert "        more = {}\n" in made
    assert "        self.opt = torch.optim.SGD(self.model.parameters(), **more)\n" in made
    assert ("# MIGRATE: **more had what other classes gave" in made) is bool(heir)


def test_a_base_without_init_that_an_heir_calls_gets_one(tmp_path: Path) -> None:
    base = (
        "class Base(PyTorchTrial):\n    def evaluate_batch(self, batch):\n        return {}\n\n\n"
    )
    heir = ("class Trial(PyTorchTrial):", f"{base}class Trial(Base):")
    call = ("self.context = context", "super().__init__(context)\n        self.context = context")
    made = rewritten(tmp_path, trial(heir, call))
    assert method(made.partition("class Trial(")[0], "__init__") == (
        "def __init__(self, **hparams: Any):\n"
        "    super().__init__()\n"
        "    self.save_hyperparameters()\n"
        "    self.automatic_optimization = False"
    )
    assert "        super().__init__(**hparams)\n" in made


@pytest.mark.parametrize(
    ("models", "passes", "is_said"), [(2, 2, True), (1, 2, False), (2, 1, False)]
)
def test_what_several_devices_need_is_said(models, passes, is_said, tmp_path):
    """Of models that share gradients as one, each backward pass has to reach all else."""
    init, step = "        self.opt =", "        self.context.backward(loss)\n"
    more = "        self.other = context.wrap_model(torch.nn.Linear(2, 1))\n"
    source = trial((init, more * (models - 1) + init), (step, step * passes))
    assert (UNUSED_SAID in rewritten(tmp_path, source)) is is_said


def test_what_several_devices_need_is_said_of_models_in_a_dict(tmp_path):
    step = "        self.context.backward(loss)\n"
    source = trial(
        ("self.model = context.wrap_model(torch.nn.Linear(2, 1))", IN_A_DICT),
        ("self.model.parameters()", 'self.nets["g"].parameters()'),
        ("loss = self.model(batch)", 'loss = self.nets["g"](batch)'),
        ('"error": self.model(batch)', '"error": self.nets["g"](batch)'),
        (step, step * 2),
    )
    assert UNUSED_SAID in rewritten(tmp_path, source)


@pytest.mark.parametrize(
    ("given", "used", "saved"),
    [
        ("net_cls", "net_cls(2, 1)", 'ignore=["net_cls"]'),
        ("net: torch.nn.Module", "net", 'ignore=["net"]'),
        ("net_cls: Type[torch.nn.Module], n: int = 1", "net_cls(2, n)", 'ignore=["net_cls"]'),
        ("n: int", "torch.nn.Linear(2, n)", ""),
    ],
)
def test_classes_and_models_are_no_hyperparameters(given, used, saved, tmp_path):
    """A checkpoint with one of them could not be loaded with ``weights_only``."""
    source = trial(("self, context", f"self, context, {given}"), ("torch.nn.Linear(2, 1)", used))
    assert f"self.save_hyperparameters({saved})\n" in rewritten(tmp_path, source)


def test_a_hyperparameter_that_becomes_a_class_is_one(tmp_path):
    finds = "net_cls = getattr(torch.nn, context.get_hparam('net_cls'))\n        self.model ="
    source = trial(("self.model =", finds), ("torch.nn.Linear(2, 1)", "net_cls(2, 1)"))
    assert "self.save_hyperparameters()\n" in rewritten(tmp_path, source)


def test_a_hyperparameter_hides_no_builtin_that_init_uses(tmp_path):
    (tmp_path / "const.yaml").write_text(
        "entrypoint: model_def:Trial\n"
        "searcher: {name: single, metric: x, max_length: {epochs: 1}}\n"
        "hyperparameters: {global_batch_size: 4, type: sgd, len: 3, input: 2}\n"
    )
    kept = (
        "self.kept = type(self), len([1]), context.get_hparam('type'), context.get_hparam('input')"
    )
    made = rewritten(tmp_path, trial(("self.context = context", kept)))
    assert "input: int = 2" in made
    found: dict[str, Any] = {}
    exec(made, found)
    module = found["Trial"](type="sgd", len=3)
    assert module.kept == (found["Trial"], 1, "sgd", 2)


def test_a_model_in_front_that_initializes_modules_leaves_optimization_manual(tmp_path):
    net = """\
class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(2, width)


class Trial(Net, PyTorchTrial)"""
    step = "        self.context.step_optimizer(self.opt)\n"
    source = trial(
        ("class Trial(PyTorchTrial)", net),
        ("self.context = context\n", "self.context = context\n        super().__init__(3)\n"),
        (step, f"{step}        self.context.backward(self.model(batch).sum())\n{step}"),
    )
    made = {}
    exec(compile(rewritten(tmp_path, source), "made", "exec"), made)
    assert not made["Trial"](global_batch_size=4).automatic_optimization


SPREAD = "def __init__(\n        self,\n        context,\n    ):"


@pytest.mark.parametrize(
    ("rate", "made"),
    [
        ("0.1", "def __init__(self):\n"),
        (
            'context.get_hparam("lr")',
            "def __init__(\n        self,\n        *,\n        lr: Any,\n    ):\n",
        ),
    ],
)
def test_parameters_stand_on_lines_of_their_own_where_they_did(rate, made, tmp_path):
    source = trial(
        ("def __init__(self, context):", SPREAD),
        ("lr=0.1", f"lr={rate}"),
        ("self.context.get_per_slot_batch_size()", "4"),
    )
    assert made in rewritten(tmp_path, source)


def test_the_init_that_a_base_gets_is_called_by_heirs_that_need_none(tmp_path: Path) -> None:
    """LightningCLI finds the class of a module only where Lightning finds the arguments itself."""
    whole = trial().split("class Trial(PyTorchTrial):\n", 1)
    init, rest = whole[1].split("    def build_training_data_loader", 1)
    base = f"class Base(PyTorchTrial):\n    def build_training_data_loader{rest}"
    made = rewritten(tmp_path, f"{whole[0]}{base}\n\nclass Trial(Base):\n{init}")
    saves = "        super().__init__()\n        self.save_hyperparameters()\n"
    assert saves in head(made, "Base") and "MIGRATE" not in made
    assert "        super().__init__(**hparams)\n" in head(made, "Trial")
    assert made.count("save_hyperparameters") == 1


@pytest.mark.parametrize(
    ("given", "handed", "rest"),
    [
        ("context", "context", "**hparams"),
        ("context, *args, **kwargs", "context, *args, **kwargs", "*args, **kwargs"),
        ("context: PyTorchTrialContext, **rest", "context, **rest", "**rest"),
    ],
)
def test_a_mixin_that_begins_with_its_own_hands_hyperparameters_on(given, handed, rest, tmp_path):
    """What it has set is there when the trial behind it is made, and no module can be before it."""
    mixins = f"""\
class Timed:
    def __init__(self, {given}):
        self.context = context
        self.part = self.context.get_hparam("rate") / 2
        super().__init__({handed})
        self.rest = context.get_hparam("rate") / 3


class Counted:
    def __init__(self, context):
        super().__init__(context)
        self.count = 0


"""
    base = f"{BASE}class Trial(PyTorchTrial)"
    heirs = "\n\nclass Heir(Counted, Timed, Trial):\n    pass\n\n\nclass Own(Timed, Trial):\n"
    heirs += (
        "    def __init__(self, context):\n        super().__init__(context)\n        self.x = 1\n"
    )
    source = trial(("class Trial(PyTorchTrial)", f"{mixins}{base}")) + heirs
    made = rewritten(tmp_path, source)
    assert "MIGRATE" not in made
    name = rest.rpartition("*")[2]
    assert head(made, "Timed").splitlines()[1:] == [
        f"    def __init__(self, {rest}):",
        f'        self.part = {name}["rate"] / 2',
        f"        super().__init__({rest})",
        "        self.rest = self.hparams.rate / 3",
    ]
    assert "    def __init__(self, **hparams):\n        super().__init__(**hparams)" in head(
        made, "Counted"
    )
    assert "        super().__init__(**hparams)\n        self.x = 1\n" in made
    assert "class Heir(Counted, Timed, Trial):\n    pass\n" in made


def test_a_mixin_that_is_also_before_no_trial_is_marked(tmp_path):
    mixin = """\
class Timed:
    def __init__(self, context):
        self.x = 1
        super().__init__(context)


"""
    heirs = "\n\nclass Heir(Timed, Trial):\n    def __init__(self, context):\n"
    heirs += "        super().__init__(context)\n\n\nclass Plain(Timed, dict):\n    pass\n"
    made = rewritten(tmp_path, trial(("class Trial(", f"{mixin}class Trial(")) + heirs)
    assert "# MIGRATE: classes that are no trials need this call" in made


@pytest.mark.parametrize(
    "asks", ["self.size = context.get_per_slot_batch_size()", "prepare(context)"]
)
def test_a_mixin_that_needs_a_module_before_there_is_one_is_marked(asks, tmp_path):
    mixin = f"""\
class Timed:
    def __init__(self, context):
        {asks}
        super().__init__(context)


"""
    heir = "\n\nclass Heir(Timed, Trial):\n    def __init__(self, context):\n"
    heir += "        super().__init__(context)\n"
    made = rewritten(tmp_path, trial(("class Trial(", f"{mixin}class Trial(")) + heir)
    assert "# MIGRATE: a mixin's __init__, which takes no hyperparameters, comes first here" in made


IN_A_DICT_GIVEN = """\
import torch
from determined import pytorch


class Base(pytorch.PyTorchTrial):
    def __init__(self, context, hparams):
        self.context = context
        self.hparams = hparams
        self.model = context.wrap_model(torch.nn.Linear(4, 2))
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), hparams["lr"]))

    def build_training_data_loader(self):
        return pytorch.DataLoader([], batch_size=self.hparams["batch_size"])

    def build_validation_data_loader(self):
        return pytorch.DataLoader([], batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch[0]).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"val": self.model(batch[0]).sum()}


class Heir(Base):
    def __init__(self, context, hparams, out):
        super().__init__(context, hparams)
        self.out = out


def main():
    hparams = {"lr": 0.1, "batch_size": 4}
    with pytorch.init(hparams=hparams) as context:
        trainer = pytorch.Trainer(Heir(context, hparams, "here"), context)
        trainer.fit(max_length=pytorch.Batch(4))
"""


@pytest.mark.parametrize(
    ("changes", "passed", "made_by"),
    [
        ((), "super().__init__(hparams)", 'Heir(hparams, "here")'),
        (
            (
                (
                    "(context, hparams)\n        self.out",
                    "(context, hparams=hparams)\n        self.out",
                ),
            ),
            "super().__init__(hparams=hparams)",
            'Heir(hparams, "here")',
        ),
        (
            (("super().__init__(context", "Base.__init__(self, context"),),
            "Base.__init__(self, hparams)",
            'Heir(hparams, "here")',
        ),
        (
            (
                (
                    "context, hparams, out):\n        super().__init__(context, hparams)",
                    "context, out):\n        super().__init__(context, context.get_hparams())",
                ),
                ('(context, hparams, "here")', '(context, "here")'),
            ),
            "super().__init__(hparams)",
            'Heir("here", **hparams)',
        ),
        (
            (
                ("context, hparams):\n", "context, hparams=None):\n"),
                (
                    "context, hparams, out):\n        super().__init__(context, hparams)",
                    "context, out):\n        super().__init__(context)",
                ),
                ('(context, hparams, "here")', '(context, "here")'),
            ),
            "super().__init__(hparams=hparams)",
            'Heir("here", **hparams)',
        ),
        (
            (("class Heir(Base)", "class Mid(Base):\n    pass\n\n\nclass Heir(Mid)"),),
            "super().__init__(hparams)",
            'Heir(hparams, "here")',
        ),
    ],
    ids=["by place", "by name", "by its name", "asked", "by default", "between"],
)
def test_an_heir_hands_a_dict_of_hyperparameters_on(changes, passed, made_by, tmp_path):
    source = IN_A_DICT_GIVEN
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    made = rewritten(tmp_path, source)
    assert "MIGRATE" not in made and made_by in made
    assert f"        {passed}\n" in made
    (tmp_path / "made.py").write_text(made)
    module = load_file(tmp_path / "made.py")
    hparams = {"lr": 0.1, "batch_size": 4}
    heir = eval(made_by, {"Heir": module.Heir, "hparams": hparams})
    assert heir.out == "here" and dict(heir.hparams) == hparams

"""Each check, with the files before and after side by side, and the comments that it leaves."""

from __future__ import annotations

import itertools
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from det_compat.migrate.migration import migrate
from det_compat.migrate.results import FileResult
from det_compat.migrate.review.review import reviewed
from tests.migrate.rewriting import trial

HEAD = "import pytorch_lightning as pl\n"


def comments(folder: Path, before: str, after: str, **others: str) -> list[str]:
    """What is said of ``a.py``, and of files that stay as they are, each by the line below it."""
    texts = {"a.py": (before, after), **{f"{n}.py": (text, text) for n, text in others.items()}}
    results = [
        FileResult(folder / name, *((HEAD + textwrap.dedent(text)).encode() for text in pair))
        for name, pair in texts.items()
    ]
    made, _ = reviewed(results, is_lightning=True)
    lines = [line.strip() for file in made for line in file.after.decode().splitlines()]
    return [
        f"{line.removeprefix('# MIGRATE: ').partition(';')[0]}: {below}"
        for line, below in itertools.pairwise(lines)
        if line.startswith("# MIGRATE: ")
    ]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        pytest.param(
            """
            class B:
                pass
            """,
            """
            class A(B):
                pass
            class B:
                pass
            @named
            def f(x=later):
                return below()
            def named(function): ...
            def below(): ...
            later = 1
            """,
            ["B is defined below: class A(B):", "named is defined below: @named"],
            id="what is needed at once",
        ),
        pytest.param(
            """
            def f(mode):
                return step(mode)
            """,
            """
            def f():
                return (
                    step(mode)
                )
            """,
            ["nothing defines mode here: return ("],
            id="a parameter that has gone",
        ),
        pytest.param(
            """
            p.add_argument("-r", "--to-resume")
            p.add_argument("--begin", dest="start")
            args.to_resume, args.start, args.end = info
            fit(args.to_resume, args.start, args.end)
            """,
            """
            p.add_argument("-r", "--to-resume")
            p.add_argument("--begin", dest="start")
            fit(args.to_resume, args.start, args.end)
            """,
            ["nothing sets or defines end any more: fit(args.to_resume, args.start, args.end)"],
            id="argparse sets options",
        ),
        pytest.param("x = unknown\n", "y = unknown\n", [], id="it was wrong before"),
        pytest.param(
            "x = 1\n", "from tools import *\ny = x\n", [], id="a star may have imported it"
        ),
        pytest.param(
            """
            class T(PyTorchTrial):
                def __init__(self, context):
                    self.context = context

                def train_batch(self, batch):
                    self.context.backward(batch)
            """,
            """
            class T(pl.LightningModule):
                def training_step(self, batch, batch_idx):
                    self.context.backward(batch)
            """,
            ["nothing sets context: self.context.backward(batch)"],
            id="an attribute that nobody sets any more",
        ),
        pytest.param(
            """
            class Settings:
                @staticmethod
                def of(context):
                    return context.get_hparam("rate")
            """,
            """
            class Settings:
                @staticmethod
                def of(context):
                    return context.hparams.rate
            """,
            [],
            id="what a static method is given is no object of its class",
        ),
        pytest.param(
            """
            class T(pytorch.PyTorchTrial):
                def train_batch(self, batch, model):
                    return self.context.get_hparam("rate")
            """,
            """
            class T(pytorch.PyTorchTrial):
                def train_batch(self, batch, model):
                    return (self.context.get_hparam("rate"))
            """,
            [],
            id="a context where a trial has stayed as it was",
        ),
        pytest.param(
            """
            from determined.experimental import estimator
            def rate():
                return estimator.init().get_hparam("rate")
            """,
            """
            from determined.experimental import estimator
            def rate():
                return (estimator.init().get_hparam("rate"))
            """,
            [
                "determined.experimental is imported here, and not rewritten: "
                "from determined.experimental import estimator"
            ],
            id="a context of another framework",
        ),
        pytest.param(
            """
            def rate():
                return known["context"].get_hparam("rate")
            """,
            """
            def rate():
                return (known["context"].get_hparam("rate"))
            """,
            [
                "get_hparam is a method of Determined's context: "
                'return (known["context"].get_hparam("rate"))'
            ],
            id="a context that was not known to be one",
        ),
        pytest.param(
            """
            class Own:
                def get_hparam(self, name): ...
                def rate(self): return self.get_hparam("rate")
            """,
            """
            class Own:
                def get_hparam(self, name): ...
                def rate(self): return (self.get_hparam("rate"))
            """,
            [],
            id="a method of that name",
        ),
        pytest.param(
            "class T(Unknown):\n    def f(self): return self.context\n",
            "class T(Unknown):\n    def f(self): return self.context or 1\n",
            [],
            id="a base that is not read may set it",
        ),
        pytest.param(
            """
            class T(PyTorchTrial):
                def __init__(self, context):
                    self.batches = len(self.loader())
                    self.later = self.loader
            """,
            """
            class T(pl.LightningModule):
                def __init__(self):
                    self.batches = len(self.loader())

                def loader(self):
                    return self.size()

                def size(self):
                    return self.trainer.world_size
            """,
            ["loader needs a Trainer, and there is none yet: self.batches = len(self.loader())"],
            id="a Trainer that is not there yet",
        ),
        pytest.param(
            "class C(PyTorchCallback): ...",
            """
            class C(pl.Callback):
                def __init__(self, trial):
                    self.total = len(trial.val_dataloader())
            """,
            [
                "val_dataloader needs a Trainer, and there is none yet: "
                "self.total = len(trial.val_dataloader())"
            ],
            id="loaders that a callback asks for before there is a Trainer",
        ),
        pytest.param(
            "def test(): ...",
            """
            class T(pl.LightningModule):
                def train_dataloader(self):
                    return [self.trainer.world_size]

                def val_dataloader(self):
                    return [1]

            def test():
                T().val_dataloader()
                T().train_dataloader()

            def main(trainer):
                module = T()
                trainer.fit(module)
                module.train_dataloader()
            """,
            [
                "train_dataloader needs a Trainer, and there is none yet: set that of the module to"
                " pl.Trainer(devices=1): T().train_dataloader()"
            ],
            id="loaders that a test asks for without a Trainer",
        ),
        pytest.param(
            "class C(PyTorchCallback):\n    def on_validation_end(self, metrics): ...",
            """
            class C(pl.Callback):
                def on_validation_end(self, trainer, pl_module): ...

            class Loop:
                def run(self, callbacks, metrics, trainer):
                    for each in callbacks:
                        each.on_validation_end(metrics)
                        each.on_validation_end(trainer, None)
                        each.on_validation_end(*metrics)
            """,
            [
                "on_validation_end of a callback takes trainer and pl_module first now: "
                "each.on_validation_end(metrics)"
            ],
            id="a hook that a loop of the project's own calls",
        ),
        pytest.param(
            "def test(): ...",
            """
            class T(pl.LightningModule):
                def train_batch(self, batch, batch_idx):
                    self.stepped(batch)

                def stepped(self, batch):
                    self.manual_backward(batch)

                def evaluate_batch(self, batch):
                    return {"loss": batch}

            class Mixin:
                def evaluate_batch(self, batch):
                    return self.train_batch(batch, 0)

            def test(trial):
                trial.train_batch(1, 0)
                trial.evaluate_batch(1)

            def main(trainer, module):
                trainer.fit(module)
                module.train_batch(1, 0)
            """,
            [
                "train_batch needs a Trainer, and there is none yet: only fit() calls it: "
                "trial.train_batch(1, 0)"
            ],
            id="a step that a test takes without a Trainer",
        ),
        pytest.param(
            "class T(PyTorchTrial):\n    def __init__(self):\n        self.logger = 1",
            """
            class T(pl.LightningModule): ...

            def draw(trial):
                trial.trial_logger.add()
            """,
            ["nothing sets trial_logger: trial.trial_logger.add()"],
            id="a new name that nothing has",
        ),
        pytest.param(
            """
            class C(PyTorchCallback):
                def on_checkpoint_write_end(self, folder): ...
            """,
            """
            class C(pl.Callback):
                def on_checkpoint_write_end(self, folder): ...
            """,
            [
                "Lightning does not call on_checkpoint_write_end: "
                "def on_checkpoint_write_end(self, folder): ..."
            ],
            id="a hook that Lightning does not have",
        ),
        pytest.param(
            """
            class T(PyTorchTrial):
                def train_batch(self, batch): ...
            """,
            """
            class T(pl.LightningModule):
                def train_batch(self, batch): ...
                def training_step(self, batch, batch_idx): self.train_batch(batch)
            """,
            [],
            id="a method that the module's own hook calls",
        ),
    ],
)
def test_what_was_right_before_is_looked_at(
    before: str, after: str, found: list[str], tmp_path: Path
) -> None:
    assert comments(tmp_path, before, after) == found


@pytest.mark.parametrize(
    ("before", "after", "other", "found"),
    [
        pytest.param(
            "from determined.pytorch import DataLoader\n",
            "x = 1\n",
            "from a import DataLoader\n",
            ["a.py has no DataLoader any more: from a import DataLoader"],
            id="an import that another file relied on",
        ),
        pytest.param(
            "class T:\n    def setup(self): ...\n",
            "class T:\n    def trial_setup(self): ...\n",
            "def f(my_trial, other):\n    other.setup()\n    my_trial.setup()\n",
            ["setup of a trial is trial_setup now: my_trial.setup()"],
            id="a method that has another name now",
        ),
        pytest.param(
            "class T:\n    def __init__(self, c): self.context = c\n",
            "class T:\n    pass\n",
            "def f(model):\n    return model.context.distributed\n",
            [
                "nothing sets or defines context any more: return model.context.distributed",
            ],
            id="an attribute that has gone",
        ),
        pytest.param(
            "class T:\n    def __init__(self, c): self.context = c\n",
            "class T:\n    pass\n",
            "def f(model):\n    return getattr(model, 'context', None)\n",
            ["a trial has no context any more: return getattr(model, 'context', None)"],
            id="an attribute that is asked for by its name",
        ),
        pytest.param(
            "class T:\n    def __init__(self, c): self.context = c\n",
            "class T:\n    pass\n",
            "class C:\n    def __init__(self, trial, context):\n        self.context = context\n"
            "        x = getattr(trial, 'context')\n        y = trial.context.device\n"
            "        z = self.context, getattr(self, 'context')\n",
            [
                "a trial has no context any more: x = getattr(trial, 'context')",
                "nothing sets or defines context any more: y = trial.context.device",
            ],
            id="an attribute that something else has, too",
        ),
        pytest.param(
            "class T: ...\n",
            "class T(pl.LightningModule): ...\n",
            "def load(path):\n    return torch.load(path)['models_state_dict'][0]\n\n\n"
            "def save(net, path):\n    torch.save({'models_state_dict': [net]}, path)\n",
            [
                "new checkpoints have no models_state_dict: their state_dict has the weights, named"
                " by attributes of the module: return torch.load(path)['models_state_dict'][0]"
            ],
            id="what only checkpoints of Determined have",
        ),
        pytest.param(
            "class T: ...\n",
            "class T(pl.LightningModule): ...\n",
            "old = torch.load('/runs/1/state_dict.pth')\nnet.load(old['models_state_dict'][0])\n"
            "net.load(torch.load('state_dict.pth')['models_state_dict'][0])\n",
            [],
            id="a checkpoint that is there stays what it is",
        ),
    ],
)
def test_other_files_are_looked_at(
    before: str, after: str, other: str, found: list[str], tmp_path: Path
) -> None:
    assert comments(tmp_path, before, after, b=other) == found


def test_each_config_of_a_class_is_tried(tmp_path: Path) -> None:
    config = "entrypoint: a:T\nsearcher: {name: single, metric: x, max_length: {batches: 1}}\n"
    (tmp_path / "const.yaml").write_text(f"{config}hyperparameters: {{a: 1, b: 2}}\n")
    (tmp_path / "other.yaml").write_text(f"{config}hyperparameters: {{a: 1, c: 2}}\n")
    # A script says by itself what it gives to its trial.
    script = config.replace("a:T", "python3 a.py")
    (tmp_path / "script.yaml").write_text(f"{script}hyperparameters: {{a: 1}}\n")
    after = HEAD + "class T(pl.LightningModule):\n    def __init__(self, *, a, b, d=1): ...\n"
    result = FileResult(tmp_path / "a.py", b"", after.encode(), trials=("T",))
    (made,), _ = reviewed([result], is_lightning=True)
    assert [line.strip().partition(";")[0] for line in made.after.decode().splitlines()[2:-1]] == [
        "# MIGRATE: other.yaml has c, which __init__ does not take",
        "# MIGRATE: other.yaml has no b, which __init__ needs",
    ]


def test_nothing_is_said_of_configs_where_a_trial_stays_what_it_was(tmp_path: Path) -> None:
    (tmp_path / "const.yaml").write_text(
        "entrypoint: a:T\nsearcher: {name: single, metric: x, max_length: {batches: 1}}\n"
        "hyperparameters: {a: 1}\n"
    )
    before = b"from determined.pytorch import PyTorchTrial\nclass B(PyTorchTrial):\n"
    before += b"    def __init__(self, context): ...\nclass T(B): ...\n"
    result = FileResult(tmp_path / "a.py", before, b"import os\n" + before, trials=("T",))
    (made,), _ = reviewed([result], is_lightning=True)
    assert b"__init__ does not take" not in made.after and b"__init__ needs" not in made.after


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        ("T(FakeContext())", False),
        ("a.T(context=None)", False),
        ("T(lr=1)", False),
        ("T(lr=1, size=2)", True),
        ("T(**given)", True),
        ("T(*given)", False),
        ("other.U(FakeContext())", True),
        ("import torch.nn as nn; nn.T(4, 2)", True),
        ("from a import T as U; import a; a.T(4, 2)", False),
    ],
)
def test_a_context_of_a_test_is_not_what_a_module_takes(call, fits, tmp_path):
    after = HEAD + "class T(pl.LightningModule):\n    def __init__(self, *, lr, size): ...\n"
    text = f"{call}\n".encode()
    module = FileResult(tmp_path / "a.py", b"", after.encode(), trials=("T",))
    test = FileResult(tmp_path / "b.py", text, text)
    (_, made), _ = reviewed([module, test], is_lightning=True)
    found = made.after.decode().partition(";")[0]
    if fits:
        assert made.after == text
    else:
        assert found == "# MIGRATE: T is a LightningModule, which takes lr, size and no context"


@pytest.mark.parametrize(
    ("bases", "call", "takes"),
    [
        ("Mixin, pl.LightningModule", "super().__init__()", "context"),
        ("Mixin, pl.LightningModule", "super().__init__(1)", ""),
        ("Plain, Mixin, pl.LightningModule", "super().__init__(lr=1)", "context"),
        ("pl.LightningModule, Mixin", "super().__init__()", ""),
        ("Unread, Mixin", "super().__init__()", ""),
        ("Mixin, pl.LightningModule", "pl.LightningModule.__init__(self)", ""),
    ],
)
def test_a_base_that_is_next_takes_what_it_is_given(bases, call, takes, tmp_path):
    after = (
        "import pytorch_lightning as pl\nfrom other import Unread\n\n\n"
        "class Plain:\n    pass\n\n\n"
        "class Mixin:\n    def __init__(self, context):\n        self.context = context\n\n\n"
        f"class T({bases}):\n    def __init__(self):\n        {call}\n"
    )
    result = FileResult(tmp_path / "a.py", b"", after.encode(), trials=("T",))
    (made,), _ = reviewed([result], is_lightning=True)
    said = "# MIGRATE: this calls the __init__ of Mixin, which takes context"
    assert (said in made.after.decode()) is bool(takes)


STAND_IN = "this stands for a context of Determined, which no migrated class takes"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "def make(c):\n    c.get_hparams.return_value = {}\n    c.wrap_model.side_effect = a",
            1,
        ),
        ("class Fake:\n    def wrap_model(self, x): ...\n    def get_hparam(self, x): ...", 1),
        ("class Other:\n    def wrap_model(self, x): ...", 0),
        ("def make(cls):\n    c.forward.return_value = {}", 0),
    ],
)
def test_what_a_test_has_for_a_context_is_named(text: str, found: int, tmp_path: Path) -> None:
    """Its class comes into a trial by an argument, or a fixture."""
    after = f"{HEAD}class T(pl.LightningModule): ...\n".encode()
    module = FileResult(tmp_path / "a.py", b"", after, trials=("T",))
    for start, said in (("from a import T", found), ("from b import T as U, U as V", 0)):
        source = f"{start.replace('T as U, ', '')}\n{text}\n".encode()
        test = FileResult(tmp_path / "test_a.py", source, source)
        (_, made), _ = reviewed([module, test], is_lightning=True)
        assert made.after.decode().count(f"# MIGRATE: {STAND_IN}") == said


def test_a_trial_whose_base_is_in_another_file_is_looked_at(tmp_path: Path) -> None:
    """Its own file stays as it is, and its config has what the base does not do."""
    base = trial(("def build_training", "def is_step_due(self): ...\n\n    def build_training"))
    (tmp_path / "base.py").write_text(base)
    name = base.split("class ")[1].split("(")[0]
    heir = f"from base import {name}\n\n\nclass Heir({name}):\n    pass\n"
    (tmp_path / "heir.py").write_text(heir)
    (tmp_path / "heir.yaml").write_text(
        "entrypoint: heir:Heir\nsearcher: {name: single, metric: x, max_length: {batches: 2}}\n"
        "optimizations: {aggregation_frequency: 2}\nhyperparameters: {global_batch_size: 4}\n"
    )
    made = {
        each.path.name: each.after.decode() for each in migrate([str(tmp_path)], "lightning").files
    }
    asked = "# MIGRATE: heir.yaml asks for steps with the mean of the gradients of 2 batches"
    assert asked in made["heir.py"]


ASKING = """\
from model import T


def test_loaders(trial, others):
    if others:
        assert len(trial.val_dataloader())
    elif trial.train_dataloader():
        assert trial.train_dataloader()
    assert [each.train_dataloader() for each in others]


def test_both(trial):
    batches = len(
        trial.train_dataloader(),
    )
    assert batches == len(trial.val_dataloader())


def helping(trial):
    return trial.train_dataloader()


def test_helped(trial):
    assert helping(trial)


class TestTrial:
    def test(self):
        self.trial.trainer = Trainer()
        assert self.trial.train_dataloader()
        assert self.other.trial.train_dataloader() is not self.trial.train_dataloader
"""


def test_modules_that_are_asked_for_loaders_get_a_trainer(tmp_path: Path) -> None:
    module = """
        class T(pl.LightningModule):
            def train_dataloader(self):
                return [self.trainer.world_size]

            def val_dataloader(self):
                return self.train_dataloader()
    """
    module = f"{HEAD}{textwrap.dedent(module)}"
    results = [
        FileResult(tmp_path / "model.py", b"", module.encode(), trials=("T",)),
        FileResult(tmp_path / "test_model.py", ASKING.encode(), ASKING.encode()),
    ]
    (_, made), _ = reviewed(results, is_lightning=True)
    given = "trial.trainer = pl.Trainer(devices=1)\n"
    expected = ASKING.replace("from model", f"{HEAD}from model")
    for line in ("if others", "batches = len("):
        expected = expected.replace(f"    {line}", f"    {given}    {line}", 1)
    expected = expected.replace("assert self.other", f"self.other.{given}        assert self.other")
    mark = "# MIGRATE: train_dataloader needs a Trainer, and there is none yet: set"
    # What a helper is given may be trained just then.
    assert made.after.decode().count(mark) == 2
    lines = made.after.decode().splitlines(keepends=True)
    assert "".join(line for line in lines if mark not in line) == expected
    _, again = reviewed([results[0], replace(made, before=made.after)], is_lightning=True)[0]
    assert again.after == made.after


UNNEEDED = """\
from determined import pytorch
from model import T


def test():
    module = T()
    assert module.train_dataloader()
"""


def test_a_trainer_stands_where_it_is_needed_below_imports_that_go(tmp_path: Path) -> None:
    module = f"{HEAD}class T(pl.LightningModule):\n    def train_dataloader(self):\n"
    module = f"{module}        return [self.trainer.world_size]\n".encode()
    of_module = FileResult(tmp_path / "model.py", b"", module, trials=("T",))
    for old, new, is_given in (
        ("", "", True),
        ("from model", "import polars as pl\nfrom model", False),
    ):
        text = UNNEEDED.replace(old, new).encode()
        test = FileResult(tmp_path / "test_model.py", text, text)
        (_, made), _ = reviewed([of_module, test], is_lightning=True)
        given = (
            "    module = T()\n    module.trainer = pl.Trainer(devices=1)\n    assert module.train"
        )
        assert (given in made.after.decode()) is is_given
        assert b"determined" not in made.after
        assert (b"# MIGRATE: train_dataloader" in made.after) is not is_given


SAMPLED = """
class C(pl.Callback):
    def load_state_dict(self, state):
        {}

class T(pl.LightningModule):
    def __init__(self):
        self.sampler = {}

    def train_dataloader(self):
        self.sampler = dict()
"""


@pytest.mark.parametrize(
    ("line", "first", "is_early"),
    [
        ("self.trial.sampler.fraction = state", "None", True),
        ("self.trial.sampler.fraction = state", "dict()", False),
        ("self.sampler = state", "None", False),
        ("self.trial.ema = state", "None", False),
    ],
)
def test_a_callback_has_its_state_before_there_are_loaders(line, first, is_early, tmp_path):
    found = comments(tmp_path, "", SAMPLED.format(line, first))
    message = "Lightning calls this before it makes the loaders, which set sampler"
    assert found == ([f"{message}: {line}"] if is_early else [])


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            "pass",
            "# MIGRATE: const.yaml asks for steps with the sum of the gradients of 6 batches, and "
            "this steps after each; see ",
        ),
        ("def __init__(self, *, accumulate_grad_batches: int = 6): pass", "class T("),
    ],
)
def test_a_config_that_a_module_does_not_follow_is_said(
    body: str, found: str, tmp_path: Path
) -> None:
    (tmp_path / "const.yaml").write_text(
        "entrypoint: a:T\nsearcher: {name: single, metric: x, max_length: {batches: 1}}\n"
        "optimizations: {aggregation_frequency: 6, average_aggregated_gradients: false}\n"
    )
    after = f"{HEAD}class T(pl.LightningModule):\n    {body}\n"
    result = FileResult(tmp_path / "a.py", b"", after.encode(), trials=("T",))
    (made,), _ = reviewed([result], is_lightning=True)
    assert made.after.decode().splitlines()[1].startswith(found)


_HANDS_ON = ["from determined.pytorch import *\n", "from determined.pytorch import PyTorchTrial\n"]


@pytest.mark.parametrize("text", _HANDS_ON)
@pytest.mark.parametrize("asking", ["from common import *", "from common import PyTorchTrial"])
def test_what_a_file_hands_on_and_nobody_needs_any_more_goes(tmp_path, text, asking):
    (tmp_path / "common.py").write_text(f"import torch\n{text}\n\ndef helper():\n    pass\n")
    header = f"import torch\n{asking}\nfrom determined.pytorch import DataLoader\n\n\n"
    (tmp_path / "model_def.py").write_text(trial(header=header))
    found = {file.path.name: file for file in migrate([str(tmp_path)], "lightning").files}
    assert not any(file.marks or b"determined" in file.after for file in found.values())


@pytest.mark.parametrize("slots", [1, 2])
def test_a_config_that_has_several_devices_exchange_less_is_said(
    slots: int, tmp_path: Path
) -> None:
    (tmp_path / "const.yaml").write_text(
        "entrypoint: model_def:Trial\n"
        "searcher: {name: single, metric: x, max_length: {batches: 1}}\n"
        f"optimizations: {{gradient_compression: true}}\nresources: {{slots_per_trial: {slots}}}\n"
    )
    (tmp_path / "model_def.py").write_text(trial())
    (found,) = migrate([str(tmp_path)], "lightning").files
    assert (b"DDPStrategy(ddp_comm_hook=fp16_compress_hook)" in found.after) is (slots > 1)


def test_an_import_that_is_left_is_marked_where_nothing_says_why(tmp_path):
    (tmp_path / "odd.py").write_text(
        "try:\n    import determined as det\nexcept ImportError:\n    det = None\n"
    )
    (tmp_path / "model_def.py").write_text(f"import odd\n{trial()}")
    found = {file.path.name: file for file in migrate([str(tmp_path)], "lightning").files}
    assert b"    # MIGRATE: determined is imported here, and not rewritten" in found["odd.py"].after


_COPY = """
class PyTorchTrialController:
    def run(self):
        self.trial.moved(self.batch)
        self.trial.state_dict()
        self.trial.used()
"""


@pytest.mark.parametrize(
    ("signature", "is_marked"),
    [
        ("moved(self, batch)", True),
        # Lightning calls this, too.
        ("state_dict(self)", False),
        ("used(self)", False),
        # No copy calls it, so it was called by nobody before.
        ("helper(self, batch)", False),
        ("handed(self, batch, context)", True),
        ("used(self, batch, context)", False),
    ],
)
def test_what_only_a_copy_of_determined_calls_is_marked(signature, is_marked, tmp_path):
    """A project may patch Determined, so that it calls more of a trial."""
    name = signature.partition("(")[0]
    method = f"    def {signature}: return 1\n\n    def evaluate_batch"
    (tmp_path / "model_def.py").write_text(
        f"import use\n{trial(('    def evaluate_batch', method))}"
    )
    (tmp_path / "use.py").write_text("def use(trial):\n    trial.used()\n")
    folder = tmp_path / "patch" / "determined" / "pytorch"
    folder.mkdir(parents=True)
    (folder / "_pytorch_trial.py").write_text(_COPY)
    (folder / "__init__.py").write_text("from determined.pytorch._pytorch_trial import *\n")
    found = {file.path.name: file for file in migrate([str(tmp_path)], "lightning").files}
    said = f"# MIGRATE: Lightning does not call {name}".encode()
    assert (said in found["model_def.py"].after) is is_marked


@pytest.mark.parametrize("name", ["__getattr__", "__call__"])
@pytest.mark.parametrize("calls", [True, False])
def test_what_hides_a_method_that_modules_need_is_marked(tmp_path, name, calls):
    body = f"super().{name}(x)" if calls else "self.__dict__[x]"
    change = f"    def {name}(self, x):\n        return {body}\n\n    def evaluate_batch"
    (tmp_path / "model_def.py").write_text(trial(("    def evaluate_batch", change)))
    (found,) = migrate([str(tmp_path)], "lightning").files
    assert (f"# MIGRATE: a module needs its own {name}".encode() in found.after) is not calls


_MIXIN = """\
class Base:
    def __init__(self, device):
        self.device = device
        self.begin()

    def begin(self):
        self.setup()

    def setup(self):
        pass
"""
_HEIR = """\
from base import Base


class Other(Base{}):
    def setup(self):
        super().setup()
        print(self.device)


def run():
    Other("cpu").setup()
"""


@pytest.mark.parametrize("base", ["", ", Elsewhere"])
def test_a_plain_heir_of_a_mixin_gets_the_names_that_it_has_now(tmp_path, base):
    """What is in no file may call the old names, or have them."""
    (tmp_path / "base.py").write_text(_MIXIN)
    header = "from elsewhere import Elsewhere\n" if base else ""
    (tmp_path / "other.py").write_text(header + _HEIR.format(base))
    source = trial(
        ("class Trial(PyTorchTrial)", "class Trial(Base, PyTorchTrial)"),
        (
            "self.context = context",
            "Base.__init__(self, context.device)\n        self.context = context",
        ),
    )
    (tmp_path / "model_def.py").write_text(f"from base import Base\n{source}")
    found = {f.path.name: f.after.decode() for f in migrate([str(tmp_path)], "lightning").files}
    assert "def trial_setup(self)" in found["base.py"]
    said = "# MIGRATE: Base calls this trial_setup now, since a LightningModule has another setup"
    assert (f"    {said}" in found["other.py"]) is bool(base)
    assert "Base calls this" not in found["model_def.py"]
    if not base:
        changed = _HEIR.format("").replace("setup(", "trial_setup(")
        assert found["other.py"] == changed.replace("self.device", "self.trial_device")

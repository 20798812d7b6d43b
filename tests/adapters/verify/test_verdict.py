from __future__ import annotations

import math
import sys
from collections.abc import MutableMapping
from pathlib import Path

import numpy
import pytest
import torch

from det_compat.adapters.verify import verdict
from det_compat.adapters.verify.comparison import difference, metrics_difference
from det_compat.adapters.verify.recording import module_arguments, numbers_in
from det_compat.adapters.verify.verdict import Pair, Verdict, verify_all
from det_compat.cli import main
from det_compat.migrate.migration import migrate
from tests.preloaded import executable

EXAMPLES = Path(__file__).parents[3] / "examples"
DIGITS = {
    "global_batch_size": 256,
    "learning_rate": 0.003,
    "lr_step_epochs": 1,
    "n_filters": 2,
    "dropout": 0.25,
}
WINE = {
    "global_batch_size": 31,
    "hidden_size": 4,
    "dropout": 0.2,
    "learning_rate": 0.1,
    "max_gradient_norm": 1.0,
    "total_batches": 80,
}
CHANGES = {
    "same": ("", ""),
    "weights": ("lr=self.hparams.learning_rate", "lr=1.001 * self.hparams.learning_rate"),
    "start": ("nn.Conv2d(1, n_filters", "nn.Dropout(0.1), nn.Conv2d(1, n_filters"),
    "loader": ("            self.train_data,\n", "            self.validation_data,\n"),
    "metric": ("return loss\n", "self.log('x', 1.0)\n        return loss\n"),
    "training": ('log("loss", loss)', 'log("loss", 2 * loss)'),
    "validation": ("argmax(dim=1) == labels", "argmin(dim=1) == labels"),
    "import": ("import torch\n", "import torch\nimport det_compat\n"),
    "error": ("images, labels = batch\n        loss", "images, labels, x = batch\n        loss"),
}


STREAM = """\
import torch
from determined.pytorch import PyTorchTrial


class Numbers:
    def __len__(self):
        return 4

    def __iter__(self):
        generator = torch.Generator().manual_seed(1)
        while True:
            yield torch.rand(2, 3, generator=generator)


class Stream(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        context.experimental.disable_dataset_reproducibility_checks()
        self.model = context.wrap_model(torch.nn.Linear(3, 1))
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))

    def build_training_data_loader(self):
        return Numbers()

    def build_validation_data_loader(self):
        return torch.utils.data.DataLoader(torch.ones(4, 3), batch_size=2)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch).square().sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"error": self.model(batch).sum().item()}
"""


DRAWING = """\
import torch
from determined.pytorch import DataLoader


class Drawn:
    def __len__(self):
        return 10

    def __iter__(self):
        return iter([[number, 0] for number in torch.randperm(10).tolist()])


"""
SHUFFLED = "return torch.utils.data.DataLoader(torch.eye(3), shuffle=True)"
LOADER = "return DataLoader(torch.arange(30.0).reshape(10, 3), batch_sampler=Drawn())"


#: A validation that goes through its loader by itself, and draws numbers.
BY_CHANCE = (
    'evaluate_batch(self, batch):\n        return {"error": self.model(batch).sum().item()}',
    "evaluate_full_dataset(self, data_loader):\n"
    "        found = [(self.model(b) * torch.rand(1)).sum().item() for b in data_loader]\n"
    '        return {"error": sum(found), "batches": len(found)}',
)
#: A model that Lightning does not find, as in a list.
HIDDEN = "object.__setattr__(self, 'model', torch.nn.Linear(3, 1))"
#: Steps of an optimizer that is not Lightning's wrapper, which counts them.
UNCOUNTED = (
    "        return loss\n",
    "        self.manual_backward(loss)\n"
    "        self.opt.step()\n        self.opt.zero_grad()\n\n"
    "    automatic_optimization = False\n",
)


def migrated(example: str, folder: Path) -> str:
    (result,) = [
        file
        for file in migrate([str(EXAMPLES / example)], "lightning").files
        if file.path.name == "model_def.py"
    ]
    return result.after.decode()


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory) -> dict[str, Verdict]:
    folder = tmp_path_factory.mktemp("migrated")
    digits, pairs = migrated("digits", folder), {}
    for name, (old, new) in CHANGES.items():
        assert old in digits
        path = folder / f"{name}_digits.py"
        path.write_text(digits.replace(old, new, 1) if old else digits)
        original = EXAMPLES / "digits" / "model_def.py"
        pairs[name] = Pair((original, "DigitsTrial"), (path, "DigitsTrial"), DIGITS)
    path = folder / "wine.py"
    path.write_text(migrated("determined-0.12", folder))
    original = EXAMPLES / "determined-0.12" / "model_def.py"
    pairs["0.12"] = Pair((original, "WineTrial"), (path, "WineTrial"), WINE)
    config = {"searcher": {"max_length": {"epochs": 1}}}
    pairs["a schedule of one epoch"] = Pair(
        (original, "WineTrial"), (path, "WineTrial"), {**WINE, "total_batches": 4}, config
    )
    path = folder / "seeded.py"
    text = (EXAMPLES / "digits" / "model_def.py").read_text()
    reads = "        self.context = context\n"
    path.write_text(text.replace(reads, f"{reads}        assert context.get_trial_seed() == 0\n"))
    pairs["no seed"] = Pair((path, "DigitsTrial"), pairs["same"].new, DIGITS, {"name": "x"})
    again = DRAWING.replace("return iter", "yield from ").replace("randperm(10)", "randperm(3)")
    for name, text, loader in (
        ("an order drawn at once", DRAWING, LOADER),
        ("an order drawn again", again, LOADER),
        ("a shuffled loader", "", SHUFFLED),
    ):
        path, new = (folder / f"{each}_{len(pairs)}.py" for each in ("drawing", "drawn"))
        path.write_text(f"{text}{STREAM}".replace("return Numbers()", loader))
        (result,) = migrate([str(path)], "lightning").files
        new.write_bytes(result.after)
        pairs[name] = Pair((path, "Stream"), (new, "Stream"), {"global_batch_size": 2})
    path, new = folder / "chance.py", folder / "by_chance.py"
    path.write_text(f"{DRAWING}{STREAM}".replace("return Numbers()", LOADER).replace(*BY_CHANCE))
    (result,) = migrate([str(path)], "lightning").files
    assert b"batch_size=None" in result.after
    new.write_bytes(result.after)
    pairs["chance"] = Pair((path, "Stream"), (new, "Stream"), {"global_batch_size": 2})
    path = folder / "stream.py"
    path.write_text(STREAM)
    going, again = folder / "going.py", folder / "again.py"
    (result,) = migrate([str(path)], "lightning").files
    going.write_bytes(result.after)
    again.write_text(result.after.decode().replace("return Continued(", "return ("))
    for name, new in {"a stream": going, "a stream that begins again": again}.items():
        pairs[name] = Pair((path, "Stream"), (new, "Stream"), {"global_batch_size": 2})
    path = folder / "listed.py"
    path.write_text(result.after.decode().replace("self.model = torch.nn.Linear(3, 1)", HIDDEN))
    pairs["a hidden model"] = Pair(
        pairs["a stream"].old, (path, "Stream"), {"global_batch_size": 2}
    )
    path = folder / "uncounted.py"
    path.write_text(going.read_text().replace(*UNCOUNTED))
    pairs["uncounted"] = Pair(pairs["a stream"].old, (path, "Stream"), {"global_batch_size": 2})
    pairs["no hparams"] = Pair(pairs["same"].old, pairs["same"].new)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", executable())
        return dict(zip(pairs, verify_all([*pairs.values()], batches=8), strict=True))


@pytest.mark.parametrize(
    "name",
    [
        *("same", "metric", "0.12", "no seed", "a stream"),
        *("an order drawn at once", "an order drawn again", "chance", "a shuffled loader"),
    ],
)
def test_identical(verdicts, name):
    assert str(verdicts[name]) == "identical: 8 batches, every tensor bit for bit"
    assert verdicts[name].is_identical


def test_no_longer_than_the_config(verdicts):
    found = str(verdicts["a schedule of one epoch"])
    assert found == "identical: 4 batches, every tensor bit for bit"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("weights", "different: model.0.weight diverges after batch 0"),
        ("start", "different: model.0.weight diverges before the first batch"),
        ("loader", "different: batch 0 of the loader is another one at [0]"),
        ("a stream that begins again", "different: batch 4 of the loader is another one"),
        ("a hidden model", "different: model is no submodule: no checkpoint of the module has it"),
        ("uncounted", "different: Lightning counts no step: "),
        ("training", "different: batch 0: loss is "),
        ("validation", "different: validation 0: accuracy is "),
        (
            "import",
            "different: the migrated module failed: ImportError: migrated code imports det_",
        ),
        ("error", "different: the migrated module failed: ValueError: not enough values"),
        ("no hparams", "cannot compare: the original failed: "),
    ],
)
def test_not_identical(verdicts, name, message):
    assert message in str(verdicts[name])
    assert not verdicts[name].is_identical


def test_the_numbers_in_metrics():
    metrics = {
        "loss": torch.ones(()),
        "lr": [0.5, numpy.float32(0.25)],
        "confusion": numpy.array([[1, 0], [2, 3]]),
        "one": torch.ones(1, dtype=torch.bfloat16),
        "text": "epoch 1",
        "texts": numpy.array(["a"]),
        "none": None,
        "batches": 3,
    }
    assert numbers_in(metrics) == {
        "loss": 1,
        **{"lr_0": 0.5, "lr_1": 0.25},
        **{"confusion_0": 1, "confusion_1": 0, "confusion_2": 2, "confusion_3": 3},
        "one": 1,
    }


class Store(MutableMapping):
    """A mapping like the storage of a graph: what it says of its keys is equal to nothing else."""

    def __init__(self, **values):
        self.values_by_name = values

    def __getitem__(self, name):
        return self.values_by_name[name]

    def __setitem__(self, name, value):
        self.values_by_name[name] = value

    def __delitem__(self, name):
        del self.values_by_name[name]

    def __iter__(self):
        return iter(self.values_by_name)

    def __len__(self):
        return len(self.values_by_name)

    def keys(self):
        return iter(self.values_by_name)


def test_batches_that_are_mappings_of_their_own_are_compared():
    assert difference(Store(x=torch.ones(2)), Store(x=torch.ones(2))) is None
    assert difference(Store(x=torch.ones(2)), Store(x=torch.zeros(2))) == "['x']"
    assert difference(Store(x=torch.ones(2)), Store(y=torch.ones(2))) == ""


def test_metrics_are_compared_by_name():
    assert metrics_difference({"loss": 0.5, "lr": 1.0}, {"loss": 0.5, "lr_0": 1.0, "x": 3}) == ""
    assert metrics_difference({"loss": math.nan}, {"loss": math.nan}) == ""
    assert metrics_difference({"loss": 0.5}, {"x": 0.5}) == "the metric loss is not logged"
    assert metrics_difference({"loss": 0.5}, {"loss": 0.6}) == "loss is 0.6, and was 0.5"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x.py", "y.py:M"], "expected FILE.py:Class, got 'x.py'"),
        (["x.py:T", "y.py:M"], "there is no file x.py"),
        ([f"{__file__}:T", f"{__file__}:T", "--hparams", "[1]"], "must be a mapping"),
        ([f"{__file__}:T", f"{__file__}:T", "--batches", "0"], "it must be 1 or more"),
        ([f"{__file__}:T", f"{__file__}:T", "--config", "x.yaml"], "x.yaml"),
    ],
)
def test_wrong_command_lines(capsys, arguments, message):
    assert main(["verify", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_command(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable())
    new = tmp_path / "new_digits.py"
    new.write_text(migrated("digits", tmp_path))
    folder = EXAMPLES / "digits"
    command = ["verify", f"{folder / 'model_def.py'}:DigitsTrial", f"{new}:DigitsTrial"]
    options = ["--config", str(folder / "const.yaml"), "--batches", "1"]
    assert main([*command, *options]) == 0
    assert capfd.readouterr().out == "identical: 1 batches, every tensor bit for bit\n"


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("import lightning as L\n", "lightning"),
        ("from pytorch_lightning import LightningModule\n", "pytorch_lightning"),
        ("import lightning_utilities\nfrom base import Module\n", None),
    ],
)
def test_lightning_is_that_of_the_module(tmp_path, monkeypatch, source, package):
    path = tmp_path / "model.py"
    path.write_text(source)
    asked = []
    monkeypatch.setattr(verdict, "verify_all", lambda _, **given: asked.append(given) or [None])
    verdict.verify(Pair((path, "Trial"), (path, "Module")))
    assert [given["package"] for given in asked] == [package]


def test_its_exit_status(monkeypatch, capsys):
    found = Verdict(batches=3, difference="model.weight diverges after batch 2")
    monkeypatch.setattr("det_compat.adapters.verify.verdict.verify", lambda *_, **__: found)
    assert main(["verify", f"{__file__}:A", f"{__file__}:B"]) == 1
    assert capsys.readouterr().out == "different: model.weight diverges after batch 2\n"


@pytest.mark.parametrize(
    ("rest", "is_given"), [("", True), (", lr=1", False), (", **kwargs", False)]
)
def test_a_module_of_nothing_but_a_dict_of_hyperparameters_is_given_it(rest, is_given):
    made: dict[str, type] = {}
    exec(f"class Module:\n    def __init__(self, hparams=None{rest}): ...\n", made)
    given = module_arguments(made["Module"], {"hparams": {"lr": 2}})
    assert given == ({"hparams": {"lr": 2}} if is_given else {"lr": 2})


@pytest.mark.parametrize(
    ("init", "is_given"),
    [
        ("self, config", True),
        ("self, config, size=1", True),
        ("self, config, data", False),
        ("self, *, config", False),
        ("self, config, **kwargs", False),
    ],
)
def test_what_a_module_needs_alone_is_its_hyperparameters(init, is_given):
    made: dict[str, type] = {}
    exec(f"class Module:\n    def __init__({init}): ...\n", made)
    given = module_arguments(made["Module"], {"hparams": {"lr": 2}})
    assert (given.get("config") == {"lr": 2}) is is_given


@pytest.mark.parametrize(
    ("init", "is_given"),
    [("self, size=1", False), ("self, *, size=1", True), ("self, size=1, **hparams", False)],
)
def test_what_a_trial_had_its_default_for_is_no_hyperparameter(init, is_given):
    made: dict[str, type] = {}
    exec(f"class Module:\n    def __init__({init}): ...\n", made)
    given = module_arguments(made["Module"], {"hparams": {"size": 2}}, ["size"])
    assert ("size" in given) is is_given
    assert module_arguments(made["Module"], {"hparams": {"size": 2}})["size"] == 2

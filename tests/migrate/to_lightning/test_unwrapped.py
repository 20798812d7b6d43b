from __future__ import annotations

import pytest

from tests.migrate.rewriting import HEADER, rewritten, trial

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


def text(names):
    found = names or lib.names()
    return "|".join(found) if found else f"{found}"


def said() -> str:
    return Perceptual().read()


def words():
    known = Vocabulary(net=Perceptual())
    return known, "", 1


def pair():
    net = Perceptual()
    return net, text([])


def grown():
    nets = []
    nets.append(Perceptual())
    return nets


def loaded(name):
    return {"a": Perceptual()}.get(name)
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
        # Lightning puts a model that another object keeps into no mode.
        ("losses.Vocabulary(net=losses.make_loss())", False, False),
        ("{}\n        self.body['a'] = losses.make_loss()", False, False),
        ("torch.nn.ModuleDict()\n        self.body['a'] = losses.make_loss()", True, False),
        # What a function returns counts, and not what else it makes.
        ("losses.text(losses.make_loss())", False, False),
        ("losses.said()", False, False),
        ("losses.words()", False, False),
        ("losses.pair()", True, False),
        ("losses.grown()", True, False),
        ("losses.loaded('a')", True, False),
        # A context returns what it moves.
        ("context.to_device(losses.Perceptual())", True, False),
        ("context.to_device(torch.nn.ReLU())", False, False),
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
    assert ("def on_validation_model_eval" in made) == stays


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
        ("resnet18().weight.shape[1]", False),
        ("torch.nn.MSELoss()\n        self.x = self.x.to('cpu')", False),
        ("resnet18()\n        self.x = self.x.cuda()", True),
        ("torch.nn.MSELoss()\n        self.x = self.x.cuda() if lib.far else lib.net()", True),
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
    ("use", "stays"),
    [
        ("lib.judge(self.x)", True),
        ("torch.utils.data.Subset(self.x, [])", False),
        ("context.wrap_optimizer(self.x)\n        lib.judge(self.x)", False),
    ],
)
def test_what_loaders_get_or_steps_is_no_model(tmp_path, use, stays):
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


@pytest.mark.parametrize("made", ["self.context.wrap_model(NET)", "NET"])
def test_a_model_that_heirs_alone_make_is_judged_there(tmp_path, made):
    (tmp_path / "base.py").write_text(
        trial(("self.model = context.wrap_model(torch.nn.Linear(2, 1))", "self.build()"))
    )
    net = "torch.nn.BatchNorm1d(2)"
    source = (
        "import torch\nfrom base import Trial\n\n\nclass Heir(Trial):\n    def build(self):\n"
        "        self.rest = self.context.wrap_model(torch.nn.Linear(2, 1))\n"
        f"        self.model = {made.replace('NET', net)}\n"
    )
    heir = rewritten(tmp_path, source, name="heir.py")
    base = rewritten(tmp_path, (tmp_path / "base.py").read_text(), name="base.py")
    assert ("def on_validation_model_eval" in heir) == (made == "NET")
    assert "MIGRATE" not in base + heir
    assert "on_validation_model_eval" not in base


@pytest.mark.parametrize(
    ("loader", "made", "stays"),
    [
        ("DataLoader(self.rows, batch_size=4, drop_last=True)", "lib.Rows()", False),
        ("torch.utils.data.DataLoader(dataset=self.rows, batch_size=4)", "lib.Rows()", False),
        ("DataLoader(lib.of(self.rows), batch_size=4)", "lib.Rows()", True),
        ("DataLoader([], batch_size=4)", "networkx.read_gml('a')", False),
        ("DataLoader([], batch_size=4)", "torch.add(np.load('a'), 1)", False),
    ],
)
def test_what_a_loader_goes_through_is_no_model(tmp_path, loader, made, stays):
    source = trial(
        ("DataLoader([], batch_size=4)", loader),
        ("        self.opt =", f"        self.rows = {made}\n        self.opt ="),
        ("self.model(batch).sum()}", "self.model(batch).sum() * self.rows.scale}"),
        header="import lib\nimport networkx\nimport numpy as np\n" + HEADER,
    )
    assert ("def on_validation_model_eval" in rewritten(tmp_path, source)) == stays


@pytest.mark.parametrize(
    ("made", "stays"), [("torchmetrics.Accuracy('binary')", False), ("lib.Accuracy()", True)]
)
def test_what_a_metric_is_updated_with_is_no_part_of_it(tmp_path, made, stays):
    """Its modes are those of no layer, though the file has some."""
    source = trial(
        ("        self.opt =", f"        self.score = {made}\n        self.opt ="),
        ("        return {", "        self.score.update(self.out(batch))\n        return {"),
        header="import lib\nimport torchmetrics\n" + HEADER,
    )
    source += "\n    def out(self, batch):\n        return torch.nn.Dropout()(self.model(batch))\n"
    assert ("def on_validation_model_eval" in rewritten(tmp_path, source)) == stays


@pytest.mark.parametrize(
    ("wrapped", "stays"), [("torch.nn.Sequential(self.x)", False), ("one(self.x)", True)]
)
def test_a_layer_of_what_is_wrapped_has_the_mode_of_that(tmp_path, wrapped, stays):
    made = f"self.x = torch.hub.load('a', 'b')\n        self.model = context.wrap_model({wrapped})"
    source = trial(("self.model = context.wrap_model(torch.nn.Linear(2, 1))", made))
    assert ("on_validation_model_eval" in rewritten(tmp_path, source)) == stays


@pytest.mark.parametrize(("asked", "stays"), [("os.listdir", False), ("lib.listdir", True)])
def test_what_calls_no_model_is_handed_none(tmp_path, asked, stays):
    source = trial(
        (
            "        self.opt =",
            f"        self.rows = lib.Rows()\n        {asked}(self.rows)\n        self.opt =",
        ),
        header="import os\nimport lib\n" + HEADER,
    )
    assert ("def on_validation_model_eval" in rewritten(tmp_path, source)) == stays

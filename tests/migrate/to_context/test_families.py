from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from det_compat.cli import main
from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import method, rewritten
from tests.preloaded import executable

BASE = """\
import torch
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrial


class Base(PyTorchTrial):
    def __init__(self, context):
        self.context = context

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def create_lr_scheduler(self, optimizer):
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        return LRScheduler(scheduler, step_mode=LRScheduler.StepMode.STEP_EVERY_EPOCH)

    def build_training_data_loader(self):
        return DataLoader([], batch_size=4)

    def build_validation_data_loader(self):
        return DataLoader([], batch_size=4)

    def train_batch(self, batch, model, epoch_idx, batch_idx):
        return {"loss": model(batch).sum()}

    def evaluate_batch(self, batch, model):
        return {"error": model(batch).sum()}
"""
HEIR = """\
import torch
from base import Base


class Trial(Base):
    def build_model(self):
        return torch.nn.Linear(2, 1)
"""


INIT = """\
    def __init__(self, context):
        super().__init__(context)
        self.n = 2

"""


def of_family(tmp_path, heir: str, base: str = BASE, to: str = "context") -> tuple[str, str]:
    """What becomes of a base in a file of its own, and of its heir."""
    (tmp_path / "model_def.py").write_text(heir)
    made = rewritten(tmp_path, base, to, "base.py")
    (tmp_path / "base.py").write_text(base)
    return made, rewritten(tmp_path, heir, to)


def test_the_last_init_wraps_and_each_class_has_its_own_methods_rewritten(tmp_path):
    base, heir = of_family(tmp_path, HEIR)
    assert method(base, "__init__") == "def __init__(self, context):\n    self.context = context"
    assert method(base, "train_batch") == (
        "def train_batch(self, batch, epoch_idx, batch_idx):\n"
        "    loss = self.model(batch).sum()\n"
        "    self.context.backward(loss)\n"
        "    self.context.step_optimizer(self.opt)\n"
        '    return {"loss": loss}'
    )
    assert method(base, "create_lr_scheduler").endswith(
        "return self.context.wrap_lr_scheduler(\n"
        "        scheduler, step_mode=LRScheduler.StepMode.STEP_EVERY_EPOCH\n    )"
    )
    assert method(heir, "__init__") == (
        "def __init__(self, context):\n"
        "    super().__init__(context)\n"
        "\n"
        "    self.model = context.wrap_model(self.build_model())\n"
        "    self.opt = context.wrap_optimizer(self.optimizer(self.model))\n"
        "    self.lr_scheduler = self.create_lr_scheduler(self.opt)"
    )


def test_a_family_becomes_modules(tmp_path):
    for made in of_family(tmp_path, HEIR, to="lightning"):
        assert "determined" not in made
        assert "MIGRATE" not in made


def test_the_scheduler_of_a_base_is_that_of_the_module(tmp_path):
    train = BASE.index("    def train_batch"), BASE.index("    def evaluate_batch")
    heir = f"{HEIR}\n{BASE[slice(*train)].rstrip()}\n"
    _, heir = of_family(tmp_path, heir, BASE[: train[0]] + BASE[train[1] :], to="lightning")
    assert method(heir, "configure_optimizers").endswith("return [self.opt], [self.lr_scheduler]")
    step = "    if self.trainer.is_last_batch:\n        self.lr_scheduler.step()"
    assert method(heir, "training_step").endswith(step)
    assert "MIGRATE" not in heir


def test_an_heir_with_an_init_wraps_at_its_end(tmp_path):
    _, heir = of_family(tmp_path, HEIR.replace("    def build", f"{INIT}    def build"))
    lines = method(heir, "__init__").splitlines()
    assert lines[1:5] == [
        "    super().__init__(context)",
        "    self.n = 2",
        "",
        "    self.model = context.wrap_model(self.build_model())",
    ]


def test_a_base_that_is_a_trial_itself_wraps_for_its_heirs(tmp_path):
    base, heir = of_family(tmp_path, HEIR, f"{BASE}\n{HEIR[HEIR.index('    def build') :]}")
    assert "context.wrap_model(self.build_model())" in method(base, "__init__")
    assert "__init__" not in heir


INIT_OF_BASE = "    def __init__(self, context):\n        self.context = context\n\n"
WHOLE = f"{BASE}\n{HEIR[HEIR.index('    def build') :]}"


def own_init(*lines: str, builds: str = "1") -> str:
    """An heir of a whole trial that sets something behind its base's ``__init__``."""
    text = "".join(f"        {line}\n" for line in lines)
    init = f"    def __init__(self, context):\n        super().__init__(context)\n{text}"
    build = f"    def build_model(self):\n        return torch.nn.Linear(2, {builds})\n"
    return f"{HEIR[: HEIR.index('    def build')]}{init}\n{build}"


@pytest.mark.parametrize(
    ("heir", "order"),
    [
        (own_init("self.weight = self.context.get_hparam('weight')"), "base first"),
        (own_init("self.loss = torch.nn.BCELoss()"), "base first"),
        (own_init("self.n = self.size", builds="self.hp['n']"), "base first"),
        (own_init("self.n = self.size", builds="getattr(self, 'n')"), ""),
        (own_init("self.n = self.context.get_hparam('n')", builds="self.n"), "base last"),
        (
            own_init("n = self.context.get_hparam('n')", "self.n = n * 2", builds="self.n"),
            "base last",
        ),
        (own_init("self.noise = torch.rand(2)"), "base last"),
        (own_init("self.n = self.size", builds="self.n"), ""),
        (own_init("self.n = size_of(self)", builds="self.n"), ""),
        (own_init("self.context = wrapped(context)", builds="self.context.n"), ""),
        (own_init("self.sizes.append(3)", builds="self.sizes[0]"), ""),
    ],
)
def test_an_heir_of_a_whole_trial_sets_what_its_model_needs_before_it_is_built(
    heir, order, tmp_path
):
    base, made = of_family(tmp_path, heir, WHOLE)
    lines = method(made, "__init__").splitlines()
    assert lines.index("    super().__init__(context)") == (
        len(lines) - 1 if order == "base last" else 1
    )
    assert "self.context." not in method(made, "__init__") or order == "base first"
    assert ("the model of Trial was built after its own __init__" in base + made) is (not order)
    assert ("context.wrap_model(self.build_model())" in base) is bool(order)


OFTEN = """
    def create_lr_scheduler(self, optimizer):
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        return LRScheduler(scheduler, LRScheduler.StepMode.STEP_EVERY_BATCH)
"""


@pytest.mark.parametrize("start", ["    name = 'heir'\n", HEIR[HEIR.index("    def build") :]])
def test_an_heir_may_step_its_lr_scheduler_otherwise(start, tmp_path):
    whole = WHOLE if "name" in start else BASE
    heir = f"{HEIR[: HEIR.index('    def build')]}{start}{OFTEN}".replace(
        "import torch\n", "import torch\nfrom determined.pytorch import LRScheduler\n"
    )
    base, made = of_family(tmp_path, heir, whole)
    assert "MIGRATE" not in base + made
    assert "    step_mode = LRScheduler.StepMode.STEP_EVERY_EPOCH\n" in base
    assert "    step_mode = LRScheduler.StepMode.STEP_EVERY_BATCH\n" in made
    wrapper = base if "name" in start else made
    assert "create_lr_scheduler(self.opt), step_mode=self.step_mode" in " ".join(wrapper.split())
    base, made = of_family(tmp_path, heir, whole, to="lightning")
    assert "MIGRATE" not in base + made
    assert '    step_mode = "STEP_EVERY_BATCH"\n' in made


UNSCHEDULED = "".join(
    WHOLE.partition("    def create_lr_scheduler")[i]
    if i == 0
    else "    def build_training" + WHOLE.partition("    def build_training")[2]
    for i in (0, 2)
)
ADDED = """
    def create_lr_scheduler(self, optimizer):
        return LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 2), step_every_batch=True)
"""


@pytest.mark.parametrize("has_init", [True, False])
@pytest.mark.parametrize(
    ("own", "lines"),
    [
        ("    name = 'heir'\n", ["super().__init__(context)"]),
        (INIT.rstrip() + "\n", ["super().__init__(context)", "self.n = 2"]),
        (INIT.replace("2", "self.context.get_hparam('n')").rstrip() + "\n", None),
    ],
)
def test_an_heir_may_add_an_lr_scheduler(has_init, own, lines, tmp_path):
    base = UNSCHEDULED if has_init else UNSCHEDULED.replace(INIT_OF_BASE, "")
    heir = f"{HEIR[: HEIR.index('    def build')]}{own}{ADDED}".replace(
        "import torch\n", "import torch\nfrom determined.pytorch import LRScheduler\n"
    )
    made_base, made = of_family(tmp_path, heir, base)
    assert "context.wrap_model(self.build_model())" in made_base
    init = [line.strip() for line in method(made, "__init__").splitlines()[1:] if line.strip()]
    init = [line for line in init if line != "self.context = context"]
    assert init[-1] == "self.lr_scheduler = self.create_lr_scheduler(self.opt)"
    assert lines is None or init[:-1] == lines
    assert "MIGRATE" not in made_base + made


def test_what_an_heir_sets_is_there_when_a_method_of_its_base_builds(tmp_path):
    abstract = '    def net(self):\n        """Ours."""\n        raise NotImplementedError\n\n'
    build = "    def build_model(self):\n        return self.net()\n\n"
    net = INIT + HEIR[HEIR.index("    def build") :].replace("build_model", "net")
    heir = HEIR[: HEIR.index("    def build")] + net
    base, heir = of_family(
        tmp_path, heir, BASE.replace("    def optim", f"{abstract}{build}    def optim")
    )
    assert "wrap_model" not in base
    assert method(heir, "__init__").splitlines()[2:5] == [
        "    self.n = 2",
        "",
        "    self.model = context.wrap_model(self.build_model())",
    ]
    assert "MIGRATE" not in base + heir


def test_what_is_left_out_of_a_base_is_not_handed_to_it(tmp_path):
    more = (
        "\n    def evaluate_batch(self, batch, model):\n"
        "        return super().evaluate_batch(batch, model)\n"
    )
    _, heir = of_family(tmp_path, HEIR + more)
    assert method(heir, "evaluate_batch") == (
        "def evaluate_batch(self, batch):\n    return super().evaluate_batch(batch)"
    )


CALLBACKS = """
    def build_callbacks(self):
        return {"clip": determined.pytorch.ClipGradsL2Norm(1.0)}
"""
TRAIN = """
    def train_batch(self, batch, model, epoch_idx, batch_idx):
        return super().train_batch(batch, model, epoch_idx, batch_idx)
"""
SCHEDULER = """
    def create_lr_scheduler(self, optimizer):
        return super().create_lr_scheduler(optimizer)
"""
OTHER = """

class Other(Base):
    pass
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (SCHEDULER, "Trial calls create_lr_scheduler of its base"),
        (OTHER, "Other, which has the same base, is no such trial"),
    ],
)
def test_families_that_stay(tmp_path, more, said):
    base, heir = of_family(tmp_path, HEIR + more)
    assert f"# MIGRATE: {said}" in base
    assert "def train_batch(self, batch, model" in base
    assert "wrap_model" not in heir


def test_a_class_stays_with_one_of_its_family_and_so_does_what_asks_it(tmp_path):
    base = BASE.replace("return LRScheduler(scheduler, ", "return make(LRScheduler, scheduler, ")
    asking = "from determined.pytorch import DataLoader\n\n\ndef note(trial):\n"
    asking += "    print(trial.hparams)\n    return DataLoader([], batch_size=4)\n"
    (tmp_path / "notes.py").write_text(asking)
    heir = HEIR + INIT.replace("self.n = 2", "self.hparams = context.get_hparams()")
    heir = heir.replace("import torch\n", "import torch\nimport notes\n", 1)
    for to in ("context", "lightning"):
        kept, own = of_family(tmp_path, heir, base, to)
        assert "# MIGRATE: its LR scheduler is made in a way that is not known" in kept
        assert "# MIGRATE: Base, which it goes with, stays as it was" in own
        assert "def train_batch(self, batch, model" in kept
        lines = own.splitlines(keepends=True)
        assert "".join(each for each in lines if "# MIGRATE" not in each) == heir
        migration = migrate([tmp_path], to)
        assert not any(file.trials for file in migration.files)
        notes = next(file for file in migration.files if file.path.name == "notes.py")
        lines = notes.after.decode().splitlines(keepends=True)
        assert "".join(each for each in lines if "# MIGRATE" not in each) == asking


def test_heirs_may_add_to_the_train_batch_of_their_base(tmp_path):
    base, heir = of_family(tmp_path, HEIR + TRAIN)
    assert method(base, "metrics_of_batch") == (
        "def metrics_of_batch(self, batch, epoch_idx, batch_idx):\n"
        '    return {"loss": self.model(batch).sum()}'
    )
    assert method(base, "train_batch").splitlines()[1:] == [
        "    metrics = self.metrics_of_batch(batch, epoch_idx, batch_idx)",
        '    loss = metrics["loss"] if isinstance(metrics, dict) else metrics',
        "    self.context.backward(loss)",
        "    self.context.step_optimizer(self.opt)",
        "    return metrics",
    ]
    assert method(heir, "metrics_of_batch") == (
        "def metrics_of_batch(self, batch, epoch_idx, batch_idx):\n"
        "    return super().metrics_of_batch(batch, epoch_idx, batch_idx)"
    )
    assert "train_batch" not in heir
    assert "MIGRATE" not in base + heir


def test_an_heir_that_clips_by_what_is_not_known_is_marked(tmp_path):
    _, heir = of_family(tmp_path, HEIR + CALLBACKS)
    assert "# MIGRATE: it clips gradients in another class than it trains in" in heir


@pytest.mark.parametrize(
    "build",
    [
        'cbs = super().build_callbacks()\n        cbs["clip"] = ClipGradsL2Value(0.01)\n'
        "        return cbs\n",
        'return {"a": ClipGradsL2Value(1.0), "b": ClipGradsL2Value(0.01)}\n',
        'return {"clip": ClipGradsL2Value(0.01)} if self.hparams else {}\n',
    ],
)
def test_an_heir_that_clips_as_no_method_says_does_so_by_its_callbacks(build, tmp_path):
    more = f"\n    def build_callbacks(self):\n        {build}"
    source = HEIR.replace(
        "import torch\n", "import torch\nfrom determined.pytorch import ClipGradsL2Value\n", 1
    )
    _, heir = of_family(tmp_path, source + more)
    assert heir.count("# MIGRATE: Determined has not called what clips here since 0.12.13") == 1
    base, heir = of_family(tmp_path, source + more, to="lightning")
    assert "MIGRATE" not in base + heir
    assert "class ClipGradsL2Value(pl.Callback):" in heir and "clip_grad" not in base
    (tmp_path / "const.yaml").write_text(
        "searcher: {name: single, metric: error, max_steps: 1}\n"
        "hyperparameters: {clip_grad_val: 0.5}\n"
    )
    _, heir = of_family(tmp_path, source + more, to="lightning")
    assert "# MIGRATE: it clips gradients in another class than it trains in" in heir


CLIPPING = """\
import torch
from base import Base
from determined.pytorch import ClipGradsL2Value


class Trial(Base):
    def build_model(self):
        return torch.nn.Linear(2, 1)

    def build_callbacks(self):
        return {"clip": ClipGradsL2Value(0.01)}


class Free(Trial):
    def build_callbacks(self):
        return {}


class Decaying(Trial):
    def create_lr_scheduler(self, optimizer):
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
        return LRScheduler(scheduler, step_mode=LRScheduler.StepMode.STEP_EVERY_EPOCH)
"""


def test_an_heir_clips_what_its_base_trains(tmp_path):
    lines = BASE.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if "def create_lr_scheduler" in line)
    plain = "".join(lines[:at] + lines[at + 4 :]).replace("DataLoader([]", "DataLoader(DATA")
    plain = plain.replace("class Base", "DATA = torch.ones(8, 2)\n\n\nclass Base")
    heir = CLIPPING.replace("ClipGradsL2Value\n", "ClipGradsL2Value, LRScheduler\n")
    base, made = of_family(tmp_path, heir, plain, to="lightning")
    assert "MIGRATE" not in base + made
    assert "        # heirs clip gradients\n        pass\n" in base
    library = ModuleType("base")
    exec(base, library.__dict__)
    modules: dict[str, Any] = {"Base": library.__dict__["Base"]}
    exec(made.replace("from base import Base\n", ""), modules)
    moved = {}
    for name in ("Trial", "Free", "Decaying"):
        module = modules[name]()
        before = module.model.weight.detach().clone()
        pl.Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        ).fit(module)
        moved[name] = float((module.model.weight.detach() - before).abs().max())
    # Four steps with a rate of 0.1, of gradients that are 0.01 or 4; two of them with a hundredth.
    assert moved["Trial"] == pytest.approx(0.004, rel=1e-3)
    assert moved["Free"] == pytest.approx(1.6, rel=1e-3)
    assert moved["Decaying"] == pytest.approx(0.0022, rel=1e-3)


STANDARD = """\
import pedl
import torch
from pedl.frameworks.pytorch import PyTorchTrial
from pedl.frameworks.pytorch.data import DataLoader
from torch import nn


def make_data_loaders(experiment_config, hparams):
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(1))
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    return DataLoader(data, batch_size=4), DataLoader(data, batch_size=4)


class Mean:
    def training_metrics(self, predictions, labels, loss):
        return {"mean": predictions.mean()}


class Base(PyTorchTrial):
    def build_model(self, hparams):
        return nn.Linear(3, 1)

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def losses(self, predictions, labels):
        return nn.functional.mse_loss(predictions, labels)

    def validation_metrics(self, predictions, labels, loss):
        return {"mae": (predictions - labels).abs().mean()}


"""
OF_TRAINING = """\
class Trial(Base):
    def training_metrics(self, predictions, labels, loss):
        return {"bias": (predictions - labels).mean()}
"""
OF_MIXIN = "class Trial(Mean, Base):\n    pass\n"
OF_LOSSES = """\
class Trial(Base):
    def losses(self, predictions, labels):
        return {"loss": nn.functional.l1_loss(predictions, labels), "n": len(labels)}

    def validation_metrics(self, predictions, labels, losses):
        return {"mae": losses["loss"], "rows": len(labels)}
"""
CONFIG = """\
entrypoint: model_def:Trial
searcher: {name: single, metric: mae, max_length: {batches: 5}}
hyperparameters: {batch_size: 4}
"""


@pytest.mark.parametrize("heir", [OF_TRAINING, OF_MIXIN, OF_LOSSES])
def test_an_heir_trains_with_metrics_and_losses_that_its_base_has_not(
    tmp_path, capsys, monkeypatch, heir
):
    monkeypatch.setattr(sys, "executable", executable())
    (tmp_path / "model_def.py").write_text(STANDARD + heir)
    (tmp_path / "const.yaml").write_text(CONFIG)
    command = ["migrate", str(tmp_path), "--to", "lightning", "--verify", "--batches", "5"]
    assert main(command) == 0
    assert "verified: 5 batches" in capsys.readouterr().out.splitlines()[-1]


def test_an_heir_trains_with_the_clipping_of_its_base(tmp_path):
    base = """\
import torch
from determined.pytorch import ClipGradsL2Value, DataLoader, PyTorchTrial


class Base(PyTorchTrial):
    def build_model(self):
        return torch.nn.Linear(2, 1)

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def build_callbacks(self):
        return {"clip": ClipGradsL2Value(0.01)}

    def build_training_data_loader(self):
        return DataLoader([], batch_size=4)

    build_validation_data_loader = build_training_data_loader

    def evaluate_batch(self, batch, model):
        return {"error": model(batch).sum()}
"""
    heir = """\
from base import Base


class Trial(Base):
    def train_batch(self, batch, model, epoch_idx, batch_idx):
        return model(batch).sum()
"""
    text, made = of_family(tmp_path, heir, base, to="lightning")
    assert "torch.nn.utils.clip_grad_value_(params, 0.01)" in text
    assert "self.clip_grads(params)" in made and "def clip_grads(" not in made


@pytest.mark.parametrize("line", ["return None", "pass"])
def test_an_heir_may_have_no_scheduler(tmp_path, line):
    """Its base makes none then, and another heir goes by that of the base."""
    (tmp_path / "base.py").write_text(BASE)
    (tmp_path / "other.py").write_text(HEIR.replace("Trial(", "Other("))
    none = f"\n    def create_lr_scheduler(self, optimizer):\n        {line}\n"
    made = rewritten(tmp_path, HEIR + none)
    assert "MIGRATE" not in made and "scheduler" not in made


@pytest.mark.parametrize("kept", ["", "        self.context = context\n"])
@pytest.mark.parametrize("init", ["self", "self, most=3"])
def test_a_mixin_with_an_init_of_its_own_has_nothing_of_trials(init, kept, tmp_path):
    mixin = f"class Seen:\n    def __init__({init}):\n        self.seen = 0\n\n\n"
    own = f"    def __init__(self, context):\n        super().__init__()\n{kept}"
    heir = HEIR.replace("class Trial(Base)", f"{mixin}class Trial(Seen, PyTorchTrial)")
    heir = heir.replace("    def build_model", f"{own}\n    def build_model")
    rest = BASE[BASE.index("    def optimizer") :]
    header = BASE[: BASE.index("class Base")]
    source = f"{header}{heir.partition('from base import Base')[2]}\n{rest}"
    made = rewritten(tmp_path, source)
    assert mixin in made
    assert "MIGRATE" not in made
    namespace = {}
    exec(made, namespace)
    module = namespace["Trial"]()
    assert module.seen == 0
    assert isinstance(module.model, torch.nn.Linear)


def test_an_heir_calls_the_init_of_a_mixin_of_its_base(tmp_path):
    mixin = "class Seen:\n    def __init__(self):\n        self.seen = 0\n\n\nclass Base(Seen, "
    base = BASE.replace("class Base(", mixin)
    init = "    def __init__(self, context):\n        self.context = context\n\n"
    base = base.replace(init, "")
    own = init.replace("        self.c", "        super().__init__()\n        self.c")
    heir = HEIR.partition("from base import Base")[2].replace(
        "    def build", f"{own}    def build"
    )
    (tmp_path / "context").mkdir()
    older = rewritten(tmp_path / "context", base + heir, "context")
    assert "        super().__init__()\n        self.context = context\n" in older
    assert older.count("def __init__(self, context)") == 1
    (tmp_path / "lightning").mkdir()
    made = rewritten(tmp_path / "lightning", base + heir)
    assert "MIGRATE" not in made
    namespace = {}
    exec(made, namespace)
    module = namespace["Trial"](lr=0.1)
    assert module.seen == 0
    assert dict(module.hparams) == {"lr": 0.1}
    assert isinstance(module.model, torch.nn.Linear)

"""What ``map``, generators and lists wrap for several names, or for one list."""

from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import HEADER, method, rewritten, trial

MODEL = "        self.model = context.wrap_model(torch.nn.Linear(2, 1))\n"
OPTIMIZER = (
    "        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))\n"
)
STEP = """\
        loss = self.model(batch).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
"""
DATA = ("DataLoader([]", "DataLoader(torch.ones(8, 2)")
NETS = "\n\ndef nets():\n    return [torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)]\n\n\nclass Trial"
PAIR = [
    ("self.model(batch)", "self.b(self.a(batch))"),
    (
        STEP,
        STEP.replace("self.opt)", "self.opt_a)\n        self.context.step_optimizer(self.opt_b)"),
    ),
]
LISTED = [
    ("self.model(batch)", "self.nets[1](self.nets[0](batch))"),
    (
        STEP,
        STEP.replace(
            "self.context.step_optimizer(self.opt)",
            "for opt in self.opts:\n            self.context.step_optimizer(opt)",
        ),
    ),
]
SGD = "torch.optim.SGD(m.parameters(), lr=0.1)"


def made(folder, models: str, optimizers: str, changes: list[tuple[str, str]]) -> str:
    lines = f"        {models}\n        {optimizers}\n"
    changes = [(MODEL + OPTIMIZER, lines), DATA, ("\n\nclass Trial", NETS), *reversed(changes)]
    source = rewritten(folder, trial(*changes))
    assert "MIGRATE" not in source
    return source


def trained(source: str) -> tuple[pl.LightningModule, list[torch.Tensor]]:
    names: dict[str, Any] = {}
    exec(compile(source, "made", "exec"), names)
    module = names["Trial"](global_batch_size=4)
    before = [each.detach().clone() for each in module.parameters()]
    pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(module)
    return module, before


@pytest.mark.parametrize(
    ("models", "optimizers"),
    [
        (
            "self.a, self.b = map(context.wrap_model, nets())",
            "self.opt_a, self.opt_b = map(context.wrap_optimizer, ("
            "torch.optim.SGD(self.a.parameters(), lr=0.1), torch.optim.Adam(self.b.parameters())))",
        ),
        (
            "self.a, self.b = (context.wrap_model(m) for m in nets())",
            f"self.opt_a, self.opt_b = [context.wrap_optimizer({SGD}) for m in (self.a, self.b)]",
        ),
        (
            "self.a, self.b = [context.wrap_model(m) for m in nets()]",
            f"self.opt_a, self.opt_b = map(lambda m: context.wrap_optimizer({SGD}), "
            "[self.a, self.b])",
        ),
    ],
)
def test_each_of_several_names_is_wrapped_by_itself(tmp_path, models, optimizers):
    source = made(tmp_path, models, optimizers, PAIR)
    assert "self.a, self.b = nets()\n" in source
    hook = method(source, "configure_optimizers")
    assert "opt_a = torch.optim.SGD(self.a.parameters(), lr=0.1)\n" in hook
    assert "return [opt_a, opt_b]" in hook
    module, before = trained(source)
    assert len(before) == 4
    assert not any(map(torch.equal, before, module.parameters()))


@pytest.mark.parametrize(
    "all_of", ["[{0}]", "({0})", "tuple({0})", "map(self.adam, (self.a, self.b))"]
)
def test_what_a_method_wraps_is_made_for_each_name(all_of, tmp_path):
    maker = f"    def adam(self, m):\n        return self.context.wrap_optimizer({SGD})\n\n"
    loader = "    def build_training_data_loader"
    source = made(
        tmp_path,
        "self.a, self.b = [context.wrap_model(m) for m in nets()]",
        f"self.opt_a, self.opt_b = {all_of.format('self.adam(m) for m in (self.a, self.b)')}",
        [*PAIR, (loader, maker + loader)],
    )
    assert method(source, "adam") == f"def adam(self, m):\n    return {SGD}"
    hook = method(source, "configure_optimizers")
    assert "opt_a = self.adam(self.a)\n    opt_b = self.adam(self.b)\n" in hook
    module, before = trained(source)
    assert not any(map(torch.equal, before, module.parameters()))


@pytest.mark.parametrize(
    ("models", "optimizers"),
    [
        (
            "self.nets = list(map(context.wrap_model, nets()))",
            f"self.opts = list(map(context.wrap_optimizer, [{SGD} for m in self.nets]))",
        ),
        (
            "self.nets = [*map(context.wrap_model, nets())]",
            f"self.opts = [*(context.wrap_optimizer({SGD}) for m in self.nets)]",
        ),
        (
            "self.nets = tuple(context.wrap_model(m) for m in nets())",
            f"self.opts = tuple(map(lambda m: context.wrap_optimizer({SGD}), self.nets))",
        ),
    ],
)
def test_a_list_of_all(tmp_path, models, optimizers):
    source = made(tmp_path, models, optimizers, LISTED)
    assert "self.nets = torch.nn.ModuleList(nets())\n" in source
    assert f"self.opts = [{SGD} for m in self.nets]\n" in source
    module, before = trained(source)
    assert len(before) == 4
    assert not any(map(torch.equal, before, module.parameters()))


def test_optimizers_that_are_there_are_made_a_list_of(tmp_path):
    found = f"made = {{n: {SGD} for n, m in enumerate(self.nets)}}\n        self.opts = "
    source = made(
        tmp_path,
        "self.nets = [context.wrap_model(m) for m in nets()]",
        f"{found}[context.wrap_optimizer(o) for o in made.values()]",
        LISTED,
    )
    assert "= list(made.values())\n" in source
    trained(source)


def test_a_tuple_that_others_are_added_to_stays_one(tmp_path):
    more = "self.nets = tuple(map(context.wrap_model, nets())); self.all = self.nets + (1,)"
    opts = f"self.opts = [context.wrap_optimizer({SGD}) for m in self.nets]"
    source = made(tmp_path, more, opts, LISTED)
    assert "self.nets = tuple(map(" in source


PLATEAU = """\
class Plateau(PyTorchCallback):
    def __init__(self, given):
        self.plateau = {made}

    def on_validation_end(self, metrics):
        self.plateau.step(metrics["error"])


class Trial"""
SCHEDULER = """\
        self.made = torch.optim.lr_scheduler.ReduceLROnPlateau(self.opt)
        context.wrap_lr_scheduler(self.made, LRScheduler.StepMode.MANUAL_STEP)
"""


@pytest.mark.parametrize(
    ("made", "scheduler"),
    [
        ("torch.optim.lr_scheduler.ReduceLROnPlateau(given.optimizers[0])", ""),
        ("torch.optim.lr_scheduler.ReduceLROnPlateau(given.get_optimizer())", ""),
        ("given.get_lr_scheduler()", SCHEDULER),
        ("given.lr_schedulers[0]", SCHEDULER),
    ],
)
def test_what_a_callback_asks_the_context_for_is_there_when_it_is_made(made, scheduler, tmp_path):
    """Lightning makes callbacks before it asks for optimizers."""
    plateau = PLATEAU.format(made=made)
    returned = '{"p": Plateau(self.context)}'
    callbacks = f"    def build_callbacks(self):\n        return {returned}\n\n    def train_batch"
    source = rewritten(
        tmp_path,
        trial(
            (OPTIMIZER, OPTIMIZER + scheduler),
            DATA,
            ("    def train_batch", callbacks),
            ("class Trial", plateau),
            ("import DataLoader", "import PyTorchCallback, DataLoader"),
        ),
    )
    assert "MIGRATE" not in source
    trained(source)


def test_of_several_optimizers_none_is_the_one(tmp_path):
    source = trial(
        (OPTIMIZER, OPTIMIZER + OPTIMIZER.replace("self.opt", "self.other")),
        ("loss = self.model(batch).sum()", "loss = self.context.get_optimizer()"),
    )
    assert "the context's get_optimizer has no counterpart" in rewritten(tmp_path, source)


def test_a_base_that_wraps_nothing_has_what_its_heirs_wrap(tmp_path):
    made = "torch.optim.lr_scheduler.ReduceLROnPlateau(given.get_optimizer())"
    plateau = PLATEAU.format(made=made).removesuffix("class Trial")
    base = (
        "class Rows:\n    def rows(self):\n        return self.context.get_hparam('rows')\n\n\n"
        "class Base(Rows, PyTorchTrial):\n    def build_callbacks(self):\n"
        "        return {'p': Plateau(self.context)}\n"
    )
    header = HEADER.replace("import DataLoader", "import PyTorchCallback, DataLoader")
    (tmp_path / "base.py").write_text(f"{header}{plateau}{base}")
    heir = trial(("Trial(PyTorchTrial)", "Trial(Base)"), header=f"{HEADER}from base import Base\n")
    (tmp_path / "model_def.py").write_text(heir)
    after = {
        file.path.name: file.after.decode() for file in migrate([str(tmp_path)], "lightning").files
    }
    assert "ReduceLROnPlateau(given.opt)" in after["base.py"]
    assert "self.opt = torch.optim.SGD" in method(after["model_def.py"], "__init__")
    assert not any("MIGRATE" in text for text in after.values())


@pytest.mark.parametrize(
    ("kept", "listed"),
    [
        ("[self.adam(m) for m in self.nets]", "[*self.opts]"),
        ("{i: self.adam(m) for i, m in enumerate(self.nets)}", "[*self.opts.values()]"),
        ("[self.adam(self.nets[0]), self.adam(self.nets[1])]", "[*self.opts]"),
        (
            "{0: self.adam(self.nets[0]), 1: self.adam(self.nets[1])}",
            "[self.opts[0], self.opts[1]]",
        ),
    ],
)
def test_what_a_method_wraps_may_be_kept_together(kept, listed, tmp_path):
    maker = f"    def adam(self, m):\n        return self.context.wrap_optimizer({SGD})\n\n"
    loader = "    def build_training_data_loader"
    steps = "for i in (0, 1):\n            self.context.step_optimizer(self.opts[i])"
    source = made(
        tmp_path,
        "self.nets = [context.wrap_model(m) for m in nets()]",
        f"self.opts = {kept}",
        [
            ("self.model(batch)", "self.nets[1](self.nets[0](batch))"),
            (STEP, STEP.replace("self.context.step_optimizer(self.opt)", steps)),
            (loader, maker + loader),
        ],
    )
    assert f"return {listed}" in method(source, "configure_optimizers")
    module, before = trained(source)
    assert not any(map(torch.equal, before, module.parameters()))

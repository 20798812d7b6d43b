from __future__ import annotations

import libcst as cst
import pytest
import pytorch_lightning as pl
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.optimization.gradients import with_gradients
from det_compat.migrate.tree import syntax
from tests.migrate.rewriting import HEADER, method, rewritten, trial


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            """
def on_validation_start(self):
    with torch.enable_grad():
        self.train()
""",
            """
def on_validation_start(self):
    with torch.inference_mode(False), torch.enable_grad():
        self.train()
""",
        ),
        (
            """
def on_validation_start(self):
    features = self.encoder(self.data)
    with torch.enable_grad():
        self.fit(features)
""",
            """
@torch.inference_mode(False)
@torch.no_grad()
def on_validation_start(self):
    features = self.encoder(self.data)
    with torch.enable_grad():
        self.fit(features)
""",
        ),
        (
            """
def evaluate_batch(self, batch):
    with torch.no_grad(), torch.enable_grad():
        self.adapt(batch)
""",
            """
def evaluate_batch(self, batch):
    with torch.no_grad(), torch.inference_mode(False), torch.enable_grad():
        self.adapt(batch)
""",
        ),
    ],
)
def test_gradients_in_a_validation(before: str, after: str) -> None:
    method = ensure_type(syntax.statement(before.lstrip()), cst.FunctionDef)
    assert syntax.code(with_gradients(method)) == after.lstrip()


@pytest.mark.parametrize("evaluated", ["evaluate_batch(self, batch)", "evaluate_batch(self, x)"])
def test_a_module_that_trains_in_a_validation_leaves_inference_mode(evaluated, tmp_path):
    source = trial(
        ("def evaluate_batch(self, batch):", f"def {evaluated}:\n        self.adapt()"),
        (
            "    def evaluate",
            "    def adapt(self):\n        with torch.enable_grad():\n"
            "            self.model(1)\n\n    def evaluate",
        ),
    )
    made = rewritten(tmp_path, source)
    assert "self.trainer.validate_loop.inference_mode = False" in method(made, "setup")
    assert "torch.inference_mode(False)" not in made


LOADING = """\
def on_load_checkpoint(self, checkpoint):
    if checkpoint.get("scaler"):
        self.scaler.load_state_dict(checkpoint["scaler"])"""
SAVING = 'checkpoint["scaler"] = self.scaler.state_dict()'
MAYBE = 'if getattr(self, "scaler", None) is not None'
IF_THERE = f"{MAYBE}:\n        {SAVING}"


@pytest.mark.parametrize(
    ("lines", "saving"),
    [
        ("self.scaler = context.wrap_scaler(make())", SAVING),
        ("scaler = context.wrap_scaler(make())\n        self.scaler = scaler", IF_THERE),
        ("self.scaler = make()\n        context.wrap_scaler(self.scaler)", SAVING),
        ("if make:\n            self.scaler = context.wrap_scaler(make())", IF_THERE),
        ("self.scaler = context.wrap_scaler(make()) if make else None", IF_THERE),
        (
            "if make:\n            self.begin()\n\n    def begin(self):\n"
            "        self.scaler = self.context.wrap_scaler(make())",
            IF_THERE,
        ),
        ("scaler = make()\n        context.wrap_scaler(scaler)", None),
    ],
)
def test_a_scaler_is_in_checkpoints(lines, saving, tmp_path):
    """As in those of Determined, where one that does not step is of no account."""
    begin = "        self.context = context\n"
    change = (begin, f"{begin}        {lines}\n")
    made = rewritten(tmp_path, trial(change, ("(self.opt)", "(self.opt, scaler=self.scaler)")))
    if saving is None:
        assert "def on_save_checkpoint" not in made
        return
    assert method(made, "on_save_checkpoint").endswith(f"\n    {saving}")
    loading = LOADING.replace("if ", f"{MAYBE} and ", 1) if saving == IF_THERE else LOADING
    assert method(made, "on_load_checkpoint") == loading


@pytest.mark.parametrize("scaler", ["None", "Scaler()"])
def test_a_module_loads_a_checkpoint_that_has_another_scaler(scaler, tmp_path):
    """That of a GPU where there is none, and that of a CPU, which has nothing in it."""
    begin = "        self.context = context\n"
    change = (
        begin,
        f"{begin}        self.scaler = context.wrap_scaler(make()) if make else None\n",
    )
    made = rewritten(tmp_path, trial(change, ("(self.opt)", "(self.opt, scaler=self.scaler)")))
    text = method(made, "on_load_checkpoint")
    loads = "class Scaler:\n    def load_state_dict(self, state): assert state\n"
    run = f"class Module: scaler = {scaler}\nfor state in ({{}}, {{'scale': 2.0}}):\n"
    exec(f"{loads}{text}\n{run}    on_load_checkpoint(Module, {{'scaler': state}})", {})


RECURRENT = """\
class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.GRUCell(2, 3)
        self.head = torch.nn.Linear(3, 1)
        self.state = torch.zeros(4, 3)

    def forward(self, batch):
        self.state = self.cell(batch, self.state.detach())
        return self.head(self.state)


"""
CELL = "self.model = context.wrap_model(torch.nn.Linear(2, 1))"


@pytest.mark.parametrize(
    "source",
    [
        trial(("torch.nn.Linear(2, 1)", "Recurrent()"), header=HEADER + RECURRENT),
        trial(
            (CELL, f"{CELL.replace('Linear(2, 1)', 'GRUCell(2, 3)')}\n        self.h = None"),
            ("loss = self.model(batch).sum()", "loss = self.stepped(batch)"),
            ('{"error": self.model(batch).sum()}', '{"error": self.stepped(batch)}'),
            (
                "    def evaluate_batch",
                "    def stepped(self, batch):\n        self.h = self.model(batch, self.h)\n"
                "        loss, self.h = self.h.sum(), self.h.detach()\n        return loss\n\n"
                "    def evaluate_batch",
            ),
        ),
    ],
    ids=["of a model", "of the trial"],
)
def test_training_goes_on_with_the_state_that_a_validation_kept(source: str, tmp_path) -> None:
    source = source.replace("DataLoader([],", "DataLoader([torch.ones(2)] * 4,")
    made = {}
    exec(compile(rewritten(tmp_path, source), "made", "exec"), made)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        default_root_dir=tmp_path,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = made["Trial"](global_batch_size=4)
    trainer.validate(module, verbose=False)
    trainer.fit(module)
    assert trainer.global_step == 1


@pytest.mark.parametrize(
    "line",
    [
        "self.seen = self.seen + len(batch)",
        "self.last = self.model(batch)",
        "self.best = max(self.best, 1)",
    ],
)
def test_what_does_not_go_on_needs_no_hook(line: str, tmp_path) -> None:
    found = f"{line}\n        return {{"
    made = rewritten(tmp_path, trial(('return {"error"', f'{found}"error"')))
    assert "def setup" not in made

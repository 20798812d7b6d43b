"""A trial that keeps the device of the machine gets that of the module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.migrate.rewriting import rewritten, trial

ASKED = 'torch.device("cuda:0" if torch.cuda.is_available() else "cpu")'
WRAPPED = "self.model = context.wrap_model(torch.nn.Linear(2, 1))"
STEP = ("loss = self.model(batch).sum()", "loss = self.model(batch.to(self.device)).sum()")


def keeping(*more: tuple[str, str], asked: str = ASKED) -> str:
    kept = f"self.context = context\n        self.device = {asked}"
    return trial(("self.context = context", kept), STEP, *more)


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_the_devices_of_machines(tmp_path: Path, name: str, quote: str):
    asked = ASKED.replace("cuda:0", name).replace('"', quote)
    made = rewritten(tmp_path, keeping(asked=asked))
    assert "self.model(batch.to(self.device)).sum()" in made
    assert "is_available" not in made and "MIGRATE" not in made and "trial_device" not in made


def test_the_device_of_the_process(tmp_path: Path):
    """It had a number by then, which Lightning gives it after ``__init__``."""
    made = rewritten(tmp_path, keeping(asked='torch.device("cuda")'))
    assert "batch.to(self.device)" in made and 'torch.device("cuda")' not in made


@pytest.mark.parametrize(
    "line", ["self.model.to(self.device)", "self.loss = torch.nn.MSELoss().to(self.device)"]
)
def test_models_are_left_to_lightning(tmp_path: Path, line: str):
    made = rewritten(tmp_path, keeping((WRAPPED, f"{WRAPPED}\n        {line}")))
    assert made.count("self.device") == 1 and "MIGRATE" not in made


def test_a_model_that_a_method_builds(tmp_path: Path):
    build = """\
    def build(self):
        model = torch.nn.Linear(2, 1)
        model.to(self.device)
        return self.context.wrap_model(model)

    def train_batch"""
    made = rewritten(
        tmp_path, keeping((WRAPPED, "self.model = self.build()"), ("    def train_batch", build))
    )
    assert made.count("self.device") == 1 and "MIGRATE" not in made


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        ('torch.device("cuda:1")', ()),
        ('torch.device("mps" if torch.backends.mps.is_available() else "cpu")', ()),
        (ASKED, ((WRAPPED, f"{WRAPPED}\n        self.helper = Helper(self.device)"),)),
        (ASKED, (('return {"loss"', 'self.device = torch.device(1)\n        return {"loss"'),)),
    ],
)
def test_another_device_stays_its_own(tmp_path: Path, asked: str, more: tuple[tuple[str, str]]):
    made = rewritten(tmp_path, keeping(*more, asked=asked))
    assert f"self.trial_device = {asked}" in made
    assert "self.model(batch.to(self.trial_device)).sum()" in made

"""The map of the code names what is there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat import pytorch, to_lightning
from tests.adapters.trials import Linear, rows, trainer

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
NAMED = re.compile(r"`((?:det_compat|adapters|tests|docs|examples|benchmarks)/[\w./-]+)`")


DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("*.md"))


@pytest.mark.parametrize(
    "document",
    [*DOCUMENTS, *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))],
)
def test_files_that_are_named_are_there(document: str) -> None:
    names = set(NAMED.findall((ROOT / document).read_text()))
    assert sorted(name for name in names if not (ROOT / name).exists()) == []


def test_the_map_names_files() -> None:
    assert len(NAMED.findall(ARCHITECTURE)) > 50


def test_every_room_is_on_the_map() -> None:
    rooms = {
        path.parent.relative_to(ROOT).as_posix()
        for pattern in ("det_compat/*/__init__.py", "adapters/*/__init__.py")
        for path in ROOT.glob(pattern)
    } - {"det_compat/adapters"}
    assert sorted(room for room in rooms if f"`{room}`" not in ARCHITECTURE) == []


class Traced(Linear):
    """A trial with a scheduler, whose fifth batch is traced up to where the sixth is trained."""

    def finish(self) -> None:
        steps = torch.optim.lr_scheduler.StepLR(self.optimizer, 3)
        mode = pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH
        self.context.wrap_lr_scheduler(steps, mode)
        self.passed: set[str] = set()

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(rows(64), batch_size=4, shuffle=True)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        sys.setprofile(self._note if batch_idx == 5 else None)
        return super().train_batch(batch, epoch_idx, batch_idx)

    def _note(self, frame: Any, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT) and ".venv" not in path.parts:
            self.passed.add(str(path.resolve().relative_to(ROOT)))


def _by_lightning() -> Traced:
    module = to_lightning(Traced)()
    trainer().fit(module)
    traced: Traced = module.trial
    return traced


def _by_determineds_trainer() -> Traced:
    with pytorch.init(hparams={}) as context:
        traced = Traced(context)
        pytorch.Trainer(traced, context).fit(max_length=pytorch.Batch(16))
    return traced


@pytest.mark.parametrize("train", [_by_lightning, _by_determineds_trainer])
def test_a_batch_goes_the_way_on_the_map_and_passes_ten_files(train: Any) -> None:
    [way] = re.findall(r"## The way of a batch(.*?)\nA validation", ARCHITECTURE, re.DOTALL)
    passed = {path for path in train().passed if not path.startswith("tests/")}
    assert sorted(passed) == sorted(set(NAMED.findall(way)))
    assert len(passed) <= 10

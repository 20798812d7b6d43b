from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from det_compat.adapters.verify.recording import Recording
from det_compat.adapters.verify.repeated import leave_out_unrepeated_metrics, unrepeated
from det_compat.adapters.verify.verdict import Pair, Verdict, verify_all
from det_compat.migrate.migration import migrate
from tests.preloaded import executable

HPARAMS = {"global_batch_size": 2}
TRIAL = """\
import os
import time

import torch
from determined.pytorch import DataLoader, PyTorchTrial


class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(1, 1))
        {start}
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))

    def build_training_data_loader(self):
        return DataLoader(torch.arange(8.0).reshape(8, 1), batch_size=2)

    def build_validation_data_loader(self):
        return DataLoader(torch.ones(2, 1), batch_size=2)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch).square().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {{"loss": loss, "words": hash("word") % 1000{metric}}}

    def evaluate_batch(self, batch):
        return {{"val_loss": self.model(batch).mean()}}
"""
TRIALS = {
    # Of a machine that has been up for long, a second would be within what metrics may differ by.
    "seconds": ("pass", ', "seconds": time.perf_counter() % 1'),
    "files": ("open(os.path.join(os.path.dirname(__file__), 'cache'), 'x').close()", ""),
    "noise": ("torch.nn.init.constant_(self.model.weight, os.getpid())", ""),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory) -> dict[str, Verdict]:
    pairs = {}
    for name, (start, metric) in TRIALS.items():
        old: Path = tmp_path_factory.mktemp(name) / "old.py"
        old.write_text(TRIAL.format(start=start, metric=metric))
        new = old.with_name("new.py")
        new.write_bytes(migrate([str(old)], "lightning").files[0].after)
        pairs[name] = Pair((old, "Trial"), (new, "Trial"), HPARAMS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", executable())
        return dict(zip(pairs, verify_all([*pairs.values()], batches=5), strict=True))


def test_metrics_that_the_original_does_not_repeat_are_left_out(verdicts):
    found = verdicts["seconds"]
    assert found.is_identical
    assert str(found) == "identical: 5 batches, every tensor bit for bit; not compared: seconds"


def test_an_original_that_does_not_repeat_its_weights_is_no_different_module(verdicts):
    found = verdicts["noise"]
    assert not found.is_identical
    assert str(found) == (
        "cannot compare: the original trains to other weights when it trains again, "
        "before the first batch"
    )


def test_an_original_that_trains_but_once_shows_no_fault_of_the_module(verdicts):
    # The module finds what the original has left behind, as the original itself does.
    found = str(verdicts["files"])
    assert found.startswith("cannot compare: the original fails where it has trained before: ")
    assert "FileExistsError" in found


def test_where_the_second_training_is_another_one():
    first = Recording(weights=[[{"w": "a"}], [{"w": "b"}]])
    assert unrepeated(first, first) == ""
    second = Recording(weights=[[{"w": "a"}], [{"w": "c"}]])
    assert unrepeated(first, second).endswith("after batch 0")
    assert unrepeated(first, Recording(weights=first.weights[:1])).endswith("after batch 0")


def test_only_the_metrics_that_are_other_ones():
    first = Recording(
        training_metrics=[{"a": 1.0, "b": math.nan}, {"a": 2.0, "b": 1.0}], metrics=[{"c": 3.0}]
    )
    second = Recording(
        training_metrics=[{"a": 1.0, "b": math.nan}, {"a": 2.5, "b": 1.0}], metrics=[{"c": 3.0}]
    )
    assert leave_out_unrepeated_metrics(first, second) == ["a"]
    assert first.training_metrics[1] == {"b": 1.0}
    assert first.metrics == [{"c": 3.0}]

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from det_compat.pytorch import PyTorchTrial
from tests.pytorch.libraries import Library

ABSTRACT = {
    "__init__",
    "build_training_data_loader",
    "build_validation_data_loader",
    "train_batch",
}


class Mixin:
    """Has what a trial needs, and is none."""

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any: ...
    def build_training_data_loader(self) -> Any: ...
    def build_validation_data_loader(self) -> Any: ...


def trial(lib: Library) -> Any:
    class Trial(Mixin, lib.pytorch.PyTorchTrial):
        def __init__(self, trial_context: Any) -> None:
            self.context = trial_context

    return Trial(None)


def test_what_a_trial_must_have(lib: Library) -> None:
    assert lib.pytorch.PyTorchTrial.__abstractmethods__ >= ABSTRACT - {"__init__"}
    assert PyTorchTrial.__abstractmethods__ == frozenset(ABSTRACT)


def test_a_trial_without_it_cannot_be_built(lib: Library) -> None:
    class Trial(lib.pytorch.PyTorchTrial):
        def __init__(self, context: Any) -> None: ...

    with pytest.raises(TypeError, match="build_training_data_loader"):
        Trial(None)


def test_methods_may_come_from_a_mixin_and_init_need_not_be_called(lib: Library) -> None:
    one = trial(lib)
    assert one.build_callbacks() == {}
    assert one.evaluation_reducer() is lib.pytorch.Reducer.AVG
    assert one.get_batch_length([torch.ones(3, 2)]) == 3
    assert one.trial_context_class is lib.pytorch.PyTorchTrialContext


def test_evaluation_is_one_of_two(lib: Library) -> None:
    one = trial(lib)
    if lib.name == "det_compat":
        with pytest.raises(NotImplementedError, match=r"define evaluate_batch\(\) or eval"):
            one.evaluate_batch({}, 0)
        with pytest.raises(NotImplementedError, match=r"define evaluate_batch\(\) or eval"):
            one.evaluate_full_dataset(None)
    assert callable(one.evaluate_batch) and callable(one.evaluate_full_dataset)


def test_signatures_are_determineds() -> None:
    reference = pytest.importorskip("determined.pytorch").PyTorchTrial
    for name in (*ABSTRACT, "evaluate_batch", "evaluate_full_dataset", "get_batch_length"):
        ours, theirs = getattr(PyTorchTrial, name), getattr(reference, name)
        assert list(inspect.signature(ours).parameters) == list(
            inspect.signature(theirs).parameters
        )


def test_a_trial_can_be_built_outside_of_training(lib: Library) -> None:
    context = lib.pytorch.CheckpointLoadContext()
    one = type(trial(lib))(trial_context=context)
    assert one.context is context

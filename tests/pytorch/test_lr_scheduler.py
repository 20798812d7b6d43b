from __future__ import annotations

import enum
import inspect
from typing import Any

import pytest
import torch

from det_compat.pytorch.lr_scheduler import LRScheduler, as_step_mode, step_what_is_due, stepping_of
from tests.pytorch.libraries import Library

StepMode = LRScheduler.StepMode


def theirs() -> Any:
    return pytest.importorskip("determined.pytorch").LRScheduler


def step_lr() -> torch.optim.lr_scheduler.StepLR:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    optimizer.step()
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def test_same_step_modes_signature_and_attributes_as_determined() -> None:
    assert [(m.name, m.value) for m in StepMode] == [(m.name, m.value) for m in theirs().StepMode]
    ours, reference = (inspect.signature(c).parameters for c in (LRScheduler, theirs()))
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [
        (p.name, p.kind, p.default) for p in reference.values()
    ]
    scheduler = step_lr()
    assert vars(LRScheduler(scheduler, StepMode.STEP_EVERY_EPOCH, 2)) == {
        "_scheduler": scheduler,
        "_step_mode": StepMode.STEP_EVERY_EPOCH,
        "_frequency": 2,
    }


def test_forwards_to_the_scheduler() -> None:
    scheduler = step_lr()
    wrapped = LRScheduler(scheduler, StepMode.MANUAL_STEP)
    for _ in range(2):
        scheduler.optimizer.step()
        wrapped.step()
    assert wrapped.get_last_lr() == [0.5]
    other = LRScheduler(step_lr(), StepMode.MANUAL_STEP)
    other.load_state_dict(wrapped.state_dict())
    assert other.get_last_lr() == [0.5]
    assert other.state_dict() == wrapped.state_dict()


def test_step_takes_arguments() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    wrapped = LRScheduler(plateau, StepMode.MANUAL_STEP)
    wrapped.step(1.0)
    wrapped.step(metrics=2.0)
    assert wrapped.get_last_lr() == [0.1]


@pytest.mark.parametrize("name", list(StepMode.__members__))
def test_takes_the_step_modes_of_determined(name: str) -> None:
    wrapped = LRScheduler(step_lr(), theirs().StepMode[name])
    assert wrapped._step_mode is StepMode[name]


class Other(enum.Enum):
    STEP_SOMETIMES = 1


@pytest.mark.parametrize("mode", [1, None, "STEP_EVERY_EPOCH", Other.STEP_SOMETIMES, StepMode])
def test_refuses_what_is_no_step_mode(mode: Any) -> None:
    with pytest.raises(TypeError, match="STEP_EVERY_EPOCH"):
        LRScheduler(step_lr(), mode)
    with pytest.raises(TypeError):
        as_step_mode(mode)


def test_refuses_a_frequency_that_can_never_be_reached() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        LRScheduler(step_lr(), StepMode.STEP_EVERY_BATCH, frequency=0)
    with pytest.raises(TypeError, match="str '2'"):
        LRScheduler(step_lr(), StepMode.STEP_EVERY_BATCH, frequency="2")
    LRScheduler(step_lr(), StepMode.MANUAL_STEP, frequency=0)


# the keywords of early releases


@pytest.mark.parametrize(
    ("keywords", "mode"),
    [
        ({"step_every_batch": True}, StepMode.STEP_EVERY_BATCH),
        ({"step_every_epoch": True}, StepMode.STEP_EVERY_EPOCH),
        ({"step_every_batch": False, "step_every_epoch": True}, StepMode.STEP_EVERY_EPOCH),
        ({"step_every_batch": False, "step_every_epoch": False}, StepMode.MANUAL_STEP),
    ],
)
def test_keywords_of_early_releases(keywords: Any, mode: StepMode) -> None:
    wrapper = LRScheduler(step_lr(), **keywords)
    assert (wrapper._step_mode, wrapper._frequency) == (mode, 1)


@pytest.mark.parametrize(
    ("args", "keywords"),
    [
        ((), {"step_every_batch": True, "step_every_epoch": True}),
        ((StepMode.MANUAL_STEP,), {"step_every_batch": True}),
        ((), {"step_mode": StepMode.MANUAL_STEP, "step_every_epoch": False}),
    ],
)
def test_contradictions(args: Any, keywords: Any) -> None:
    with pytest.raises(TypeError, match=r"LRScheduler got .*step_every_"):
        LRScheduler(step_lr(), *args, **keywords)


def test_one_of_today_needs_a_step_mode() -> None:
    with pytest.raises(TypeError, match="step_mode"):
        LRScheduler(step_lr())


def test_a_subclass_may_pass_them_on() -> None:
    class Own(LRScheduler):
        def __init__(self, scheduler: Any) -> None:
            super().__init__(scheduler, step_every_epoch=True)

    assert Own(step_lr())._step_mode is StepMode.STEP_EVERY_EPOCH


# what a wrapper wraps


def test_the_parts_of_a_wrapper(lib: Library) -> None:
    scheduler = step_lr()
    mode = lib.pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH
    wrapper = lib.pytorch.LRScheduler(scheduler, mode, 3)
    assert stepping_of(wrapper) == (scheduler, mode, 3)


def test_a_scheduler_that_is_not_wrapped() -> None:
    with pytest.raises(TypeError, match=r"expected an LRScheduler\(.*got StepLR"):
        stepping_of(step_lr())


class Counting:
    """A scheduler that counts its steps."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> None:
        self.steps += 1


@pytest.mark.parametrize(
    ("mode", "frequency", "aggregation", "expected"),
    [
        (StepMode.STEP_EVERY_BATCH, 1, 1, [1] * 12),
        (StepMode.STEP_EVERY_BATCH, 3, 1, [0, 0, 1] * 4),
        (StepMode.STEP_EVERY_BATCH, 1, 3, [0, 0, 3] * 4),
        (StepMode.STEP_EVERY_BATCH, 2, 3, [0, 0, 1, 0, 0, 2] * 2),
        (StepMode.STEP_EVERY_OPTIMIZER_STEP, 1, 1, [1] * 12),
        (StepMode.STEP_EVERY_OPTIMIZER_STEP, 1, 3, [0, 0, 1] * 4),
        # frequency counts batches here, as in Determined 0.38.1
        (StepMode.STEP_EVERY_OPTIMIZER_STEP, 2, 3, [0, 0, 0, 0, 0, 1] * 2),
        (StepMode.STEP_EVERY_EPOCH, 1, 1, [0, 0, 0, 1] * 3),
        (StepMode.STEP_EVERY_EPOCH, 2, 1, [0] * 7 + [1] + [0] * 4),
        (StepMode.STEP_EVERY_EPOCH, 1, 2, [0, 0, 0, 1] * 3),
        (StepMode.MANUAL_STEP, 1, 1, [0] * 12),
    ],
)
def test_steps_after_each_batch(
    mode: StepMode, frequency: int, aggregation: int, expected: list[int]
) -> None:
    scheduler, counts = Counting(), []
    wrapper = LRScheduler(scheduler, mode, frequency)
    for batch in range(12):
        before = scheduler.steps
        step_what_is_due([wrapper], batch, 4, aggregation)
        counts.append(scheduler.steps - before)
    assert counts == expected

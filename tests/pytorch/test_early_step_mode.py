from __future__ import annotations

from typing import Any

import pytest
import torch

from det_compat.pytorch import LRScheduler

Modes = LRScheduler.StepMode


def scheduler() -> Any:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    return torch.optim.lr_scheduler.StepLR(optimizer, 1)


@pytest.mark.parametrize(
    ("keywords", "mode"),
    [
        ({"step_every_batch": True}, Modes.STEP_EVERY_BATCH),
        ({"step_every_epoch": True}, Modes.STEP_EVERY_EPOCH),
        ({"step_every_batch": False, "step_every_epoch": True}, Modes.STEP_EVERY_EPOCH),
        ({"step_every_batch": False, "step_every_epoch": False}, Modes.MANUAL_STEP),
    ],
)
def test_keywords_of_early_releases(keywords: Any, mode: Modes) -> None:
    wrapper = LRScheduler(scheduler(), **keywords)
    assert (wrapper._step_mode, wrapper._frequency) == (mode, 1)


@pytest.mark.parametrize(
    ("args", "keywords"),
    [
        ((), {"step_every_batch": True, "step_every_epoch": True}),
        ((Modes.MANUAL_STEP,), {"step_every_batch": True}),
        ((), {"step_mode": Modes.MANUAL_STEP, "step_every_epoch": False}),
    ],
)
def test_contradictions(args: Any, keywords: Any) -> None:
    with pytest.raises(TypeError, match=r"LRScheduler got .*step_every_"):
        LRScheduler(scheduler(), *args, **keywords)


def test_one_of_today_needs_a_step_mode() -> None:
    with pytest.raises(TypeError, match="step_mode"):
        LRScheduler(scheduler())  # type: ignore[call-arg]


def test_a_subclass_may_pass_them_on() -> None:
    class Own(LRScheduler):
        def __init__(self, scheduler: Any) -> None:
            super().__init__(scheduler, step_every_epoch=True)  # type: ignore[call-arg]

    assert Own(scheduler())._step_mode is Modes.STEP_EVERY_EPOCH

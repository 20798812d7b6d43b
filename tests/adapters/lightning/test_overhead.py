from __future__ import annotations

from typing import Any

import torch
from pytorch_lightning.profilers import PassThroughProfiler, SimpleProfiler
from torch import nn

from det_compat import to_lightning
from det_compat.adapters.lightning.overhead import NoProfiler
from tests.adapters.trials import Linear, trainer


def fitted(**flags: Any) -> Any:
    used = trainer(**flags)
    used.fit(to_lightning(Linear)())
    return used


def test_the_default_profiler_is_replaced() -> None:
    profiler = fitted().profiler
    assert type(profiler) is NoProfiler
    assert isinstance(profiler, PassThroughProfiler)


def test_a_profiler_that_was_asked_for_still_profiles() -> None:
    profiler = SimpleProfiler()
    assert fitted(profiler=profiler).profiler is profiler
    assert any("training_step" in name for name in profiler.recorded_durations)


def test_the_profiler_does_not_swallow_exceptions() -> None:
    try:
        with NoProfiler().profile("action"):
            raise KeyError
    except KeyError:
        return
    raise AssertionError


def test_other_attributes_of_a_module_are_set_as_ever() -> None:
    module: Any = to_lightning(Linear)()
    module.layer = nn.Linear(1, 1)
    module.weight = nn.Parameter(torch.ones(1))
    assert {"layer.weight", "weight"} <= {name for name, _ in module.named_parameters()}


def test_few_assignments_go_through_the_slow_way(monkeypatch: Any) -> None:
    names: list[str] = []
    slow = nn.Module.__setattr__

    def counted(self: nn.Module, name: str, value: Any) -> None:
        names.append(name)
        slow(self, name, value)

    monkeypatch.setattr(nn.Module, "__setattr__", counted)
    fitted(max_epochs=3)
    assert "_current_fx_name" not in names

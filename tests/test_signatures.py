"""Every public class, method and function of determined.pytorch 0.38.1 takes the same arguments."""

from __future__ import annotations

import enum
import inspect
from typing import Any

import pytest
from determined import pytorch as determined_pytorch

from det_compat import pytorch
from tests.determined_api import REFUSED, all_names, find, members, resolve

OBJECTS = {name: find(determined_pytorch, name) for name in all_names()}
CLASSES = [
    name
    for name, value in OBJECTS.items()
    if inspect.isclass(value) and name.split(".")[-1] == value.__name__
]
FUNCTIONS = [name for name, value in OBJECTS.items() if inspect.isfunction(value)]
METHODS = [
    f"{cls}.{name}"
    for cls in CLASSES
    for name in ["__init__", *members(OBJECTS[cls])]
    if inspect.isfunction(getattr(OBJECTS[cls], name, None))
]
ENUMS = [name for name in CLASSES if issubclass(OBJECTS[name], enum.Enum)]


def comparable(default: Any) -> Any:
    """Defaults of the two packages' own types become plain values."""
    if isinstance(default, enum.Enum):
        return type(default).__name__, default.name
    if type(default).__name__ in ("Batch", "Epoch"):
        return type(default).__name__, default.value
    return default


def parameters(function: Any) -> list[tuple[str, str, Any]]:
    return [
        (parameter.name, parameter.kind.name, comparable(parameter.default))
        for parameter in inspect.signature(function).parameters.values()
    ]


def test_names_are_found() -> None:
    assert {"Trainer", "LRScheduler.StepMode", "samplers.SkipSampler"} <= set(CLASSES)
    assert {"Trainer.fit", "PyTorchTrialContext.wrap_reducer"} <= set(METHODS)
    assert {"init", "to_device", "load_trial_from_checkpoint_path"} <= set(FUNCTIONS)
    assert set(ENUMS) == {"Reducer", "LRScheduler.StepMode"}


@pytest.mark.parametrize("name", sorted({*METHODS, *FUNCTIONS} - REFUSED))
def test_parameters_are_those_of_determined(name: str) -> None:
    ours = parameters(resolve(pytorch, name))
    assert ours == parameters(resolve(determined_pytorch, name))


@pytest.mark.parametrize("name", ENUMS)
def test_enum_members_are_those_of_determined(name: str) -> None:
    ours, theirs = resolve(pytorch, name), OBJECTS[name]
    assert {m.name: m.value for m in ours} == {m.name: m.value for m in theirs}


@pytest.mark.parametrize("name", CLASSES)
def test_public_bases_are_those_of_determined(name: str) -> None:
    ours, theirs = resolve(pytorch, name), OBJECTS[name]
    public = {OBJECTS[cls] for cls in CLASSES}
    expected = {
        base.__name__
        for base in theirs.__mro__
        if base in public or base.__module__.startswith("torch")
    }
    assert expected <= {base.__name__ for base in ours.__mro__}

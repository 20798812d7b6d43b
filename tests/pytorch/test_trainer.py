from __future__ import annotations

import sys
from typing import Any

import pytest

from det_compat.adapters import trainer as adapter
from det_compat.pytorch import Batch, Epoch, Trainer, TrainUnit, init
from det_compat.pytorch.engine import FitArguments
from tests.pytorch.libraries import Library


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What ``fit`` was asked for, with nothing trained."""
    calls: list[dict[str, Any]] = []

    def fit(trial: Any, context: Any, arguments: FitArguments, on_validated: Any) -> None:
        assert on_validated is None
        given = {**vars(arguments)}
        schedule = given.pop("schedule")
        units = {due.value: unit for due, unit in schedule.units.items()}
        given.update(units, test_mode=schedule.test_mode)
        calls.append({"trial": trial, "context": context, **given})

    monkeypatch.setattr(adapter, "fit", fit)
    return calls


def fit(lib: Library, **kwargs: Any) -> None:
    with lib.init() as context:
        lib.pytorch.Trainer(object(), context).fit(**kwargs)


def test_max_length_is_needed(lib: Library) -> None:
    with pytest.raises(ValueError, match="max_length"):
        fit(lib)


@pytest.mark.parametrize(
    "length",
    [5, "5", lambda pytorch: pytorch.Batch([5]), lambda pytorch: pytorch.TrainUnit(5)],
    ids=["int", "str", "container", "TrainUnit"],
)
def test_max_length_is_a_number_of_batches_or_epochs(lib: Library, length: Any) -> None:
    value = length(lib.pytorch) if callable(length) else length
    with pytest.raises(TypeError, match="max_length must"):
        fit(lib, max_length=value)


def test_errors_say_what_to_write(fitted: list[dict[str, Any]]) -> None:
    with init() as context:
        trainer = Trainer(object(), context)
        with pytest.raises(ValueError, match=r"for example max_length=pytorch.Epoch\(5\)"):
            trainer.fit()
        with pytest.raises(TypeError, match=r"pytorch.Epoch\(int\), got Batch\(\[1, 5\]\)"):
            trainer.fit(max_length=Batch([1, 5]))
        with pytest.raises(TypeError, match="got 100"):
            trainer.fit(max_length=100)
        with pytest.raises(ValueError, match="best, all, none, got 'latest'"):
            trainer.fit(max_length=Batch(1), checkpoint_policy="latest")
    assert fitted == []


def test_defaults(fitted: list[dict[str, Any]]) -> None:
    trial = object()
    with init() as context:
        Trainer(trial, context).fit(max_length=Epoch(2))
    assert fitted == [
        {
            "trial": trial,
            "context": context,
            "max_length": Epoch(2),
            "validation_period": Batch(sys.maxsize),
            "checkpoint_period": Batch(sys.maxsize),
            "reporting_period": Batch(100),
            "checkpoint_policy": "all",
            "latest_checkpoint": None,
            "step_zero_validation": False,
            "test_mode": False,
            "owns_start": False,
        }
    ]


def test_arguments_are_passed_on(fitted: list[dict[str, Any]]) -> None:
    units: dict[str, TrainUnit] = {
        "max_length": Batch(7),
        "validation_period": Batch([1, 5]),
        "checkpoint_period": Epoch(1),
        "reporting_period": Batch(3),
    }
    others = {"latest_checkpoint": "0000", "step_zero_validation": True, "test_mode": True}
    with init() as context:
        Trainer(object(), context).fit(**units, **others)
    assert {name: fitted[0][name] for name in units} == units
    assert {name: fitted[0][name] for name in others} == others


@pytest.mark.parametrize("policy", ["all", "none"])
def test_checkpoint_policy(
    fitted: list[dict[str, Any]],
    policy: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with init() as context:
        caplog.clear()
        Trainer(object(), context).fit(max_length=Batch(1), checkpoint_policy=policy)
    assert fitted[0]["checkpoint_policy"] == policy
    assert caplog.messages == []


def test_best_means_all(fitted: list[dict[str, Any]], caplog: pytest.LogCaptureFixture) -> None:
    with init() as context:
        Trainer(object(), context).fit(max_length=Batch(1))
    assert fitted[0]["checkpoint_policy"] == "all"
    (record,) = (record for record in caplog.records if "checkpoint_policy" in record.message)
    assert (record.name, record.levelname) == ("determined.pytorch", "WARNING")
    assert "'all'" in record.message


def test_profiling_says_what_to_use(
    fitted: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    with init() as context:
        trainer = Trainer(object(), context)
        trainer.configure_profiler(enabled=True)
        trainer.fit(max_length=Batch(1), profiling_enabled=True, checkpoint_policy="all")
    configured, enabled = caplog.records
    assert configured.levelname == "ERROR" and enabled.levelname == "WARNING"
    assert "context.set_profiler" in configured.message
    assert "context.set_profiler" in enabled.message

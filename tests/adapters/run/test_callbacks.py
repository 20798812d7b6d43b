from __future__ import annotations

import functools
import logging
from typing import Any

import pytest

from det_compat.adapters.generations.old_callbacks import OldCallback
from det_compat.adapters.run.callbacks import TrialCallbacks
from det_compat.pytorch import ClipGradsL2Norm, PyTorchCallback
from tests.adapters.trials import Linear, Recorder, built


class Stateful(PyTorchCallback):
    def __init__(self, state: Any = None) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.state = state_dict["state"]


def test_hooks_are_called_in_order_with_their_arguments() -> None:
    calls: list[Any] = []
    callbacks = TrialCallbacks({"b": Recorder(calls, "b."), "a": Recorder(calls, "a.")})
    callbacks.call("on_validation_end", {"loss": 1})
    callbacks.call("on_checkpoint_upload_end", uuid="id")
    assert calls == [
        ("b.on_validation_end", {"loss": 1}),
        ("a.on_validation_end", {"loss": 1}),
        ("b.on_checkpoint_upload_end", "id"),
        ("a.on_checkpoint_upload_end", "id"),
    ]


def test_shutdown_is_once_and_in_reverse() -> None:
    calls: list[Any] = []
    callbacks = TrialCallbacks({"a": Recorder(calls, "a."), "b": Recorder(calls, "b.")})
    callbacks.startup(3, "uuid")
    callbacks.shutdown()
    callbacks.shutdown()
    assert calls == [
        ("a.on_trial_startup", 3, "uuid"),
        ("b.on_trial_startup", 3, "uuid"),
        ("b.on_trial_shutdown",),
        ("a.on_trial_shutdown",),
    ]


def test_who_has_not_started_is_not_shut_down() -> None:
    calls: list[Any] = []
    TrialCallbacks({"a": Recorder(calls, "a.")}).shutdown()
    assert calls == []


def test_epoch_start_with_and_without_its_parameter() -> None:
    class Old(PyTorchCallback):
        def on_training_epoch_start(self) -> None:
            self.called = "without"

    class New(PyTorchCallback):
        def on_training_epoch_start(self, number: int) -> None:
            self.called = number

    old, new = Old(), New()
    TrialCallbacks({"old": old, "new": new}).epoch_start(5)
    assert (old.called, new.called) == ("without", 5)


def test_states_are_kept_by_name() -> None:
    saved = TrialCallbacks({"a": Stateful(1), "b": Stateful(2)}).state_dict()
    assert saved == {"a": {"state": 1}, "b": {"state": 2}}
    a, b = Stateful(), Stateful()
    TrialCallbacks({"b": b, "a": a}).load_state_dict(saved)
    assert (a.state, b.state) == (1, 2)


def test_a_callback_without_a_state_in_the_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    plain, stateful = PyTorchCallback(), Stateful(1)
    with caplog.at_level(logging.WARNING):
        TrialCallbacks({"plain": plain, "new": stateful}).load_state_dict({})
    assert stateful.state == 1
    [record] = caplog.records
    assert "no state for callback 'new'" in record.getMessage()


def test_the_deprecated_hook_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Old(PyTorchCallback):
        def on_checkpoint_end(self, checkpoint_dir: str) -> None: ...

    with caplog.at_level(logging.WARNING):
        TrialCallbacks({"old": Old(), "new": PyTorchCallback()})
    [record] = caplog.records
    assert "'old' defines on_checkpoint_end()" in record.getMessage()


def test_a_hook_that_nothing_calls_is_named(caplog: pytest.LogCaptureFixture) -> None:
    context = built(Linear).context
    clip: Any = ClipGradsL2Norm(1.0)
    with caplog.at_level(logging.WARNING):
        TrialCallbacks({"plain": PyTorchCallback(), "called": OldCallback(clip, context)})
        assert caplog.records == []
        TrialCallbacks({"clip": clip})
    [record] = caplog.records
    assert "'clip' defines on_before_optimizer_step(), which nothing calls" in record.getMessage()
    assert "clip_grads=..." in record.getMessage()


@pytest.mark.parametrize("given", [None, [PyTorchCallback()]])
def test_what_is_no_dict_of_callbacks(given: Any) -> None:
    message = rf"build_callbacks\(\) must return a dict.*got {type(given).__name__}"
    with pytest.raises(TypeError, match=message):
        TrialCallbacks(given)


def test_what_is_no_callback() -> None:
    with pytest.raises(TypeError, match=r"build_callbacks\(\).*got 5 \(int\) for 'five'"):
        TrialCallbacks({"five": 5})


def counted(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Decorated(PyTorchCallback):
    seen: tuple[int, ...] = ()

    @counted
    def on_training_epoch_start(self, epoch_idx: int) -> None:
        self.seen += (epoch_idx,)


class Starred(PyTorchCallback):
    seen: tuple[int, ...] = ()

    def on_training_epoch_start(self, *args: int) -> None:
        self.seen += args


@pytest.mark.parametrize("kind", [Decorated, Starred])
def test_epoch_start_gets_its_index_however_it_is_written(kind: type) -> None:
    callback = kind()
    TrialCallbacks({"c": callback}).epoch_start(3)
    assert callback.seen == (3,)

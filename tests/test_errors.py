from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import pytest

from det_compat import errors

ARGUMENTS: dict[str, tuple[object, ...]] = {
    "InternalException": ("message",),
    "InvalidCheckpointException": (),
    "InvalidConfigurationException": ({"a": 1}, "message"),
    "InvalidDataTypeException": (float, "message"),
    "InvalidExperimentException": ("message",),
    "InvalidModelException": ("message",),
    "StopLoadingImplementation": (),
}


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_takes_what_determined_takes(name: str) -> None:
    for module in (errors, pytest.importorskip("determined").errors):
        error = getattr(module, name)(*ARGUMENTS[name])
        assert "message" in str(error) or not ARGUMENTS[name]


def test_invalid_experiments_are_caught_by_except_exception() -> None:
    for name in ("InvalidDataType", "InvalidConfiguration", "InvalidModel"):
        cls = getattr(errors, f"{name}Exception")
        assert issubclass(cls, errors.InvalidExperimentException)
    assert issubclass(errors.InvalidExperimentException, Exception)


def test_messages_are_determineds() -> None:
    real = pytest.importorskip("determined").errors
    for name, arguments in ARGUMENTS.items():
        assert str(getattr(errors, name)(*arguments)) == str(getattr(real, name)(*arguments)), name
    internal = errors.InternalException("no rank")
    assert str(internal) == internal.message == real.InternalException("no rank").message


def test_every_name_is_there_with_its_base() -> None:
    real = pytest.importorskip("determined").errors
    for name, cls in inspect.getmembers(real, inspect.isclass):
        if cls.__module__ != real.__name__:
            continue
        ours = getattr(errors, name)
        assert issubclass(ours, Exception)
        if cls.__bases__ == (Exception,):
            assert ours.__bases__ == (Exception,), name


def test_what_is_not_there_yet_is_said_plainly() -> None:
    error = errors.NotThereYetError("training has not started")
    assert str(error) == error.message == "training has not started"
    assert isinstance(error, errors.InternalException)


def test_invalid_hp_keeps_its_message() -> None:
    assert errors.InvalidHP("too deep").msg == "too deep"
    assert str(errors.InvalidHP("too deep")) == "too deep"
    reference = pytest.importorskip("determined").InvalidHP
    for given in ((), ("too large",)):
        ours, theirs = errors.InvalidHP(*given), reference(*given)
        assert (ours.msg, str(ours), repr(ours)) == (theirs.msg, str(theirs), repr(theirs))
    assert pickle.loads(pickle.dumps(errors.InvalidHP("too deep"))).msg == "too deep"


@pytest.mark.parametrize("message", [1, None, ValueError("x"), b"x"])
def test_invalid_hp_refuses_a_message_that_is_no_string(message: object) -> None:
    with pytest.raises(TypeError, match=type(message).__name__):
        errors.InvalidHP(message)


def test_needs_the_standard_library_only() -> None:
    code = "import sys, det_compat.errors; print({'torch', 'numpy', 'lightning'} & {*sys.modules})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_an_unsafe_checkpoint_says_what_it_asked_for() -> None:
    error = errors.UnsafeCheckpointError("x.pth", {"os.system", "builtins.eval"})
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert one.path == "x.pth" and one.asked == ["builtins.eval", "os.system"]
        assert "x.pth was not loaded" in str(one) and "builtins.eval, os.system" in str(one)
        assert "trust=True" in str(one) and "--trust" in str(one)
    other = errors.UnsafeCheckpointError("x.pth", reason="it is odd")
    assert "it is odd" in str(other) and isinstance(other, errors.InvalidCheckpointException)

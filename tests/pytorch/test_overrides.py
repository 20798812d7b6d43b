from __future__ import annotations

import functools
import importlib
from typing import Any

import pytest
import torch

from det_compat.pytorch.callback import PyTorchCallback
from det_compat.pytorch.overrides import is_user_code, takes_parameter


@pytest.fixture(params=["det_compat.pytorch.callback", "determined.pytorch"])
def base(request: pytest.FixtureRequest) -> Any:
    pytest.importorskip(request.param.partition(".")[0])
    return importlib.import_module(request.param).PyTorchCallback


def overridden(method: Any) -> bool:
    return is_user_code(method, "PyTorchCallback")


def test_inherited_methods_are_not_overridden(base: Any) -> None:
    class Child(base):
        pass

    assert not overridden(base.on_checkpoint_end)
    assert not overridden(base().on_checkpoint_end)
    assert not overridden(Child().on_checkpoint_end)


def test_methods_of_a_subclass_are_overridden(base: Any) -> None:
    class Child(base):
        def on_checkpoint_end(self, checkpoint_dir: str) -> None:
            pass

    class Grandchild(Child):
        pass

    assert overridden(Child().on_checkpoint_end)
    assert overridden(Grandchild().on_checkpoint_end)
    assert overridden(Grandchild.on_checkpoint_end)
    assert not overridden(Grandchild().on_validation_end)


def test_methods_of_a_mixin_are_overridden(base: Any) -> None:
    class Mixin:
        def on_checkpoint_end(self, checkpoint_dir: str) -> None:
            pass

    class Child(Mixin, base):
        pass

    assert overridden(Child().on_checkpoint_end)


def user_class(name: str, base: Any) -> Any:
    def on_checkpoint_end(self: Any, checkpoint_dir: str) -> None:
        pass

    on_checkpoint_end.__qualname__ = f"{name}.on_checkpoint_end"
    return type(name, (base,), {"on_checkpoint_end": on_checkpoint_end})


def test_a_user_class_of_the_same_name_is_user_code(base: Any) -> None:
    cls = user_class("PyTorchCallback", base)
    assert overridden(cls().on_checkpoint_end)
    assert not overridden(cls().on_validation_end)


def test_the_user_module_may_be_named_like_a_library(base: Any) -> None:
    cls = user_class("PyTorchCallback", base)
    cls.on_checkpoint_end.__module__ = "determined_trials.callbacks"
    assert overridden(cls().on_checkpoint_end)


def test_another_class_of_the_library_counts_as_overriding() -> None:
    assert is_user_code(PyTorchCallback.on_checkpoint_end, "PyTorchTrial")


def test_what_is_not_callable_overrides_nothing() -> None:
    assert not overridden(None)
    assert not overridden("on_checkpoint_end")


def test_callables_without_a_qualified_name_are_user_code() -> None:
    assert overridden(functools.partial(print))
    assert overridden(torch.nn.Linear(1, 1))
    assert overridden(lambda checkpoint_dir: None)


class Methods:
    def plain(self, batch: Any) -> None: ...
    def both(self, batch: Any, batch_idx: int) -> None: ...
    def renamed(self, batch: Any, model: Any) -> None: ...
    def keywords(self, batch: Any, **kwargs: Any) -> None: ...
    def keyword_only(self, batch: Any, *, batch_idx: int) -> None: ...
    def default(self, batch: Any, epoch_idx: int = 0, batch_idx: int = 0) -> None: ...
    def anything(self, *args: Any) -> None: ...

    @torch.no_grad()
    def decorated(self, batch: Any, batch_idx: int) -> None: ...

    @staticmethod
    def static(batch: Any, index: int) -> None: ...


METHODS = [name for name in vars(Methods) if not name.startswith("_")]


@pytest.mark.parametrize("position", [None, 2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_takes_parameter_as_determined_sees_it(method: str, position: int | None) -> None:
    has_param = pytest.importorskip("determined.util").has_param
    fn = getattr(Methods(), method)
    assert takes_parameter(fn, "batch_idx", position) == has_param(fn, "batch_idx", position)


@pytest.mark.parametrize(
    ("method", "expected"),
    [("plain", False), ("both", True), ("renamed", True), ("keywords", False), ("default", True)],
)
def test_takes_parameter(method: str, expected: bool) -> None:
    assert takes_parameter(getattr(Methods(), method), "batch_idx", 2) is expected


def test_takes_parameter_of_what_has_no_signature() -> None:
    assert not takes_parameter(dict.fromkeys, "batch_idx", 9)
    assert not takes_parameter(object(), "batch_idx", 2)

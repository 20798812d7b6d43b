"""What a trial class defines, told from the class itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from det_compat.pytorch.overrides import is_user_code

_LIBRARIES = ("det_compat", "determined")


def full_name(trial_cls: type) -> str:
    """``package.module.MyTrial``."""
    return f"{trial_cls.__module__}.{trial_cls.__qualname__}"


def defines(trial_cls: type, name: str) -> bool:
    """Whether method ``name`` is user code, the class's own or inherited."""
    return is_user_code(getattr(trial_cls, name, None), "PyTorchTrial")


def own_init(trial_cls: type) -> FunctionType | None:
    """The ``__init__`` that user code defines, if it does."""
    init: Any = trial_cls.__init__  # type: ignore[misc]
    return init if inspect.isfunction(init) and defines(trial_cls, "__init__") else None


def init_parameter(trial_cls: type) -> str | None:
    """The name of the first argument that ``__init__`` takes; None if it takes none."""
    init = own_init(trial_cls)
    if init is None:
        return None
    spec = inspect.getfullargspec(init)
    return spec.args[1] if len(spec.args) > 1 else spec.varargs or spec.varkw


def takes_model(train_batch: Any) -> bool:
    """Whether ``train_batch`` takes ``(batch, model, epoch_idx, batch_idx)``.

    A ``model`` with a default is something else: nobody else would pass it.
    """
    spec = inspect.getfullargspec(inspect.unwrap(train_batch))
    required = spec.args[: len(spec.args) - len(spec.defaults or ())]
    return "model" in (*required, *spec.kwonlyargs)


def names_used(trial_cls: type) -> set[str]:
    """Every global and attribute that the methods of the user's classes name."""
    return {name for code in _codes(trial_cls) for name in code.co_names}


def _codes(trial_cls: type) -> Iterator[CodeType]:
    for cls in trial_cls.__mro__:
        if cls is object or cls.__module__.partition(".")[0] in _LIBRARIES:
            continue
        for value in vars(cls).values():
            function = (
                inspect.unwrap(getattr(value, "__func__", value)) if callable(value) else None
            )
            if isinstance(function, FunctionType):
                yield from _with_nested(function.__code__)


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_nested(constant)


def concrete(trial_cls: type) -> type:
    """``trial_cls``, or a subclass of it that can be built, where base methods are abstract.

    A method that its generation did not have raises NotImplementedError when it is called; an
    ``__init__`` that is not there takes the context and keeps it.
    """
    abstract: frozenset[str] = getattr(trial_cls, "__abstractmethods__", frozenset())
    if not abstract:
        return trial_cls
    members = {name: _keep_context if name == "__init__" else _absent(name) for name in abstract}
    names = {key: getattr(trial_cls, key) for key in ("__module__", "__qualname__", "__doc__")}
    return type(trial_cls)(trial_cls.__name__, (trial_cls,), {**names, **members})


def _keep_context(self: Any, context: Any = None) -> None:
    self.context = context


def _absent(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{full_name(type(self))} does not define {name}()")

    # Not user code: nobody defined it.
    method.__module__, method.__qualname__ = __name__, f"PyTorchTrial.{name}"
    return method

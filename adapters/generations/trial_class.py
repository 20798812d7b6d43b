"""What a trial class defines, told from the class itself."""

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from det_compat.catalog.generations import names_in
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
    # mypy warns that a subclass could have an __init__ of other arguments; none is called here.
    init: Any = trial_cls.__init__  # type: ignore[misc]
    return init if inspect.isfunction(init) and defines(trial_cls, "__init__") else None


class ClassFacts:
    """What the rules of the generations ask, told from the class itself: its TrialFacts."""

    def __init__(self, trial_cls: type) -> None:
        self._trial_cls = trial_cls

    def defines(self, name: str) -> bool:
        """Whether a method is user code, the class's own or inherited."""
        return defines(self._trial_cls, name)

    def parameters(self, name: str) -> inspect.FullArgSpec | None:
        """The parameters of a method that user code defines; decorators are looked through."""
        function = getattr(self._trial_cls, name, None)
        if not inspect.isfunction(function) or not self.defines(name):
            return None
        return inspect.getfullargspec(inspect.unwrap(function))

    def names_used(self) -> set[str]:
        """Every global and attribute that the methods of the user's classes name."""
        return {name for code in self._codes() for name in names_in(code)}

    def _codes(self) -> Iterator[CodeType]:
        for cls in self._trial_cls.__mro__:
            if cls is object or cls.__module__.partition(".")[0] in _LIBRARIES:
                continue
            for value in filter(callable, vars(cls).values()):
                function = inspect.unwrap(getattr(value, "__func__", value))
                if isinstance(function, FunctionType):
                    yield function.__code__

    def derives_from_pedl(self) -> bool:
        """Whether a class of ``det_compat.pedl`` is among the bases."""
        return any(cls.__module__.startswith("det_compat.pedl") for cls in self._trial_cls.__mro__)


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

    # The names tell is_user_code() that this is no user code.
    method.__module__, method.__qualname__ = __name__, f"PyTorchTrial.{name}"
    return method

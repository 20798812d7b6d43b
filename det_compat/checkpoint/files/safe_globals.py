"""The safe globals of ``torch.load(weights_only=True)`` for what files of Determined ask for.

torch calls what is allowed with any arguments, and NumPy's own functions are not made for that:
``numpy.ndarray((1,), "O", some_bytes)`` takes bytes for pointers. Here each name gets a substitute
that takes what NumPy writes and no more.
"""

import collections
import contextlib
import pickle
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Literal

import numpy as np
import torch

_BYTE_ORDERS = ("|", "<", ">", "=")
_KINDS = "biufcSU"  # These have no objects, no fields and no units of time.


def _named(module: str, name: str) -> Callable[[Any], Any]:
    """Give a substitute the name that pickles ask for."""

    def rename(substitute: Any) -> Any:
        substitute.__module__ = module
        substitute.__name__ = substitute.__qualname__ = name
        return substitute

    return rename


@_named("numpy", "dtype")
class _DType:
    """A dtype of numbers or strings."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.dtype = np.dtype(str(code))
        # Values without a size cost the file nothing, and memory once NumPy copies them.
        if self.dtype.kind not in _KINDS or self.dtype.subdtype or not self.dtype.itemsize:
            raise pickle.UnpicklingError(f"it has NumPy values of dtype {self.dtype}")

    def __setstate__(self, state: Any) -> None:
        if state[1] in _BYTE_ORDERS:
            self.dtype = self.dtype.newbyteorder(state[1])


@_named("numpy", "ndarray")
class _Array:
    """The state of an array, as ``numpy.ndarray`` is given it."""

    shape: tuple[int, ...] = (0,)
    dtype = np.dtype("u1")
    order: Literal["C", "F"] = "C"
    data = b""

    def __init__(self, *arguments: Any) -> None:
        if arguments:
            raise pickle.UnpicklingError(f"it calls numpy.ndarray{arguments}"[:100])

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, self.data = state
        self.shape, self.dtype = tuple(shape), dtype.dtype
        self.order = "F" if is_fortran else "C"

    def value(self) -> Any:
        return np.ndarray(self.shape, self.dtype, self.data, order=self.order).copy(order="K")


class _Scalar:
    def __init__(self, dtype: _DType, data: bytes) -> None:
        self.dtype, self.data = dtype.dtype, data

    def value(self) -> Any:
        return np.frombuffer(self.data, dtype=self.dtype)[0]


def _functions_of(module: str) -> list[Any]:
    @_named(module, "_reconstruct")
    def reconstruct(*_: Any) -> _Array:
        return _Array()

    @_named(module, "scalar")
    def scalar(dtype: _DType, data: bytes) -> _Scalar:
        return _Scalar(dtype, data)

    return [reconstruct, scalar]


@_named("_codecs", "encode")
def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Protocol 2 writes bytes so; torch 2.6 and later allow it themselves."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it has bytes encoded as {encoding}")
    return text.encode("latin1")


@_named("builtins", "bytes")
def _no_bytes() -> bytes:
    """Protocol 2 writes ``b""`` so."""
    return b""


@_named("torch.optim.lr_scheduler", "OneCycleLR")
class _OneCycleLR:
    """Before torch 2.0 the scheduler's state had its annealing function."""


@_named("builtins", "getattr")
def _getattr(owner: Any, name: str) -> str:
    """The name of OneCycleLR's function; schedulers of today keep their own function."""
    if owner is not _OneCycleLR or name not in ("_annealing_cos", "_annealing_linear"):
        raise pickle.UnpicklingError(f"it asks for the attribute {name!r} of something")
    return name


_SUBSTITUTES = [
    _DType,
    _Array,
    _OneCycleLR,
    _getattr,
    _no_bytes,
    *_functions_of("numpy.core.multiarray"),
    # NumPy 2 has another name for the module.
    *_functions_of("numpy._core.multiarray"),
]


@contextlib.contextmanager
def allowed() -> Iterator[None]:
    """Let ``torch.load(weights_only=True)`` read what Determined stored, beside what is allowed."""
    serialization = torch.serialization
    before = list(serialization.get_safe_globals())
    # torch 2.4 refuses complex numbers, which later ones take.
    ours = [_encode, complex, *_SUBSTITUTES]
    names = {_name(substitute) for substitute in ours}
    serialization.clear_safe_globals()
    serialization.add_safe_globals([*(item for item in before if _name(item) not in names), *ours])
    try:
        yield
    finally:
        serialization.clear_safe_globals()
        serialization.add_safe_globals(before)


def _name(item: Any) -> str:
    return item[1] if isinstance(item, tuple) else f"{item.__module__}.{item.__name__}"


def without_substitutes(value: Any) -> Any:
    """``value`` with NumPy's arrays and scalars where substitutes are; containers are changed.

    Raises:
        pickle.UnpicklingError: a function or class itself is among the values.
    """
    return _replaced(value, {})


def _replaced(value: Any, done: dict[int, Any]) -> Any:
    if id(value) in done:
        return done[id(value)]
    if isinstance(value, (type, FunctionType)) and value in _SUBSTITUTES:
        raise pickle.UnpicklingError(f"it keeps {_name(value)} itself")
    if isinstance(value, (_Array, _Scalar)):
        done[id(value)] = value.value()
    elif type(value) is tuple:
        done[id(value)] = tuple(_replaced(item, done) for item in value)
    elif type(value) in (dict, collections.OrderedDict):
        done[id(value)] = value
        for key in value:
            value[key] = _replaced(value[key], done)
    elif type(value) is list:
        done[id(value)] = value
        value[:] = [_replaced(item, done) for item in value]
    return done.get(id(value), value)

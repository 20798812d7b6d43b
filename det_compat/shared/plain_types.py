"""Values as nothing but types that ``torch.load(weights_only=True)`` takes, and back.

Tensors, numbers, strings, bytes, None and dicts, lists and tuples of them are such types. NumPy
arrays, some containers of the standard library and sets become dicts that say what they were.
torch 2.4 takes bytes and complex numbers only where they are allowed, as det_compat's readers do.
"""

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

_TAG = "det_compat.type"
_ATOMS = (type(None), bool, int, float, complex, str, bytes)
_DICTS = (collections.OrderedDict, collections.Counter)
_FACTORIES: dict[str, type[Any]] = {kind.__name__: kind for kind in (int, float, list, dict, set)}


class NotPlainError(TypeError):
    """A value has no plain form."""

    def __init__(self, value: Any, where: str) -> None:
        cls = type(value)
        self.where = where
        super().__init__(f"{cls.__module__}.{cls.__qualname__} at {where or 'the top'}")


def to_plain(value: Any, where: str = "") -> Any:
    """``value`` in plain types; tensors are kept, not copied.

    Raises:
        NotPlainError: it holds something else; the message says what, and where below ``where``.
    """
    if isinstance(value, torch.Tensor):
        return value.detach()
    if type(value) in _ATOMS:
        return value
    if type(value) in (list, tuple):
        return type(value)(_items(value, where))
    if type(value) in (dict, collections.OrderedDict):
        pairs = [
            (to_plain(key, where), to_plain(item, f"{where}[{key!r}]"))
            for key, item in value.items()
        ]
        return {_TAG: "dict", "items": pairs} if _TAG in value else type(value)(pairs)
    return _tagged(value, where)


def is_plain(value: Any) -> bool:
    """Whether ``to_plain`` takes ``value``."""
    try:
        to_plain(value)
    except NotPlainError:
        return False
    return True


def _items(value: Any, where: str) -> list[Any]:
    # The place of an item is worked out only where it may be needed: lists of numbers are long.
    return [
        item if type(item) in _ATOMS else to_plain(item, f"{where}[{index}]")
        for index, item in enumerate(value)
    ]


def _tagged(value: Any, where: str) -> dict[str, Any]:
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return {
            _TAG: "array" if isinstance(value, np.ndarray) else "scalar",
            "dtype": value.dtype.str,
            "shape": list(value.shape),
            "data": torch.frombuffer(bytearray(value.tobytes() or b"\0"), dtype=torch.uint8),
        }
    if type(value) in (set, frozenset, collections.deque):
        name = type(value).__name__
        found = {_TAG: name, "items": _items(value, where)}
        return {**found, "maxlen": value.maxlen} if name == "deque" else found
    if type(value) is collections.Counter:
        return {_TAG: "Counter", "items": to_plain(dict(value), where)}
    if type(value) is collections.defaultdict:
        for name, factory in _FACTORIES.items():
            if value.default_factory is factory:
                items = to_plain(dict(value), where)
                return {_TAG: "defaultdict", "items": items, "factory": name}
    raise NotPlainError(value, where)


def from_plain(value: Any) -> Any:
    """What ``to_plain`` made ``value`` of."""
    if type(value) in (list, tuple):
        return type(value)(map(from_plain, value))
    if not isinstance(value, dict):
        return value
    kind = value.get(_TAG)
    if kind not in _UNTAGGED:
        items = [(from_plain(key), from_plain(item)) for key, item in value.items()]
        return type(value)(dict(items)) if type(value) in _DICTS else dict(items)
    return _UNTAGGED[kind](value)


def _array(value: dict[str, Any]) -> Any:
    dtype, shape = np.dtype(value["dtype"]), tuple(value["shape"])
    count = int(np.prod(shape))
    flat = np.frombuffer(value["data"].numpy().tobytes(), dtype=dtype, count=count)
    return flat.reshape(shape).copy()


def _contents(value: dict[str, Any]) -> Any:
    return from_plain(value["items"])


_UNTAGGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "array": _array,
    "scalar": lambda value: _array(value)[()],
    "dict": lambda value: dict(_contents(value)),
    "set": lambda value: set(_contents(value)),
    "frozenset": lambda value: frozenset(_contents(value)),
    "deque": lambda value: collections.deque(_contents(value), value["maxlen"]),
    "Counter": lambda value: collections.Counter(_contents(value)),
    "defaultdict": lambda value: collections.defaultdict(
        _FACTORIES[value["factory"]], _contents(value)
    ),
}

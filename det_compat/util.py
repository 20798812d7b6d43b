"""What trials use of ``determined.util``."""

import datetime
import enum
import inspect
import json
import math
import numbers
import random
import time
import uuid
from collections.abc import Callable
from typing import Any, SupportsFloat, SupportsInt, cast

from det_compat.shared.nested import map_nested

__all__ = [
    "download_gcs_blob_with_backoff",
    "get_member_func",
    "has_param",
    "humanize_float",
    "is_overridden",
    "json_encode",
]


def download_gcs_blob_with_backoff(blob: Any, n_retries: int = 32, max_backoff: int = 32) -> bytes:
    """The contents of a ``google.cloud.storage.Blob``, tried ``n_retries`` times.

    The wait between tries doubles from one second up to ``max_backoff`` seconds. The state of
    ``random`` is the same afterwards, as in Determined 0.38.1.

    Raises:
        ImportError: the package google-cloud-storage is not installed.
        TypeError: ``blob`` is no Blob.
        RuntimeError: every try failed; the cause is the last failure.
    """
    if not isinstance(blob, _blob_class()):
        raise TypeError(
            f"download_gcs_blob_with_backoff() takes a google.cloud.storage.Blob, "
            f"got {type(blob).__name__}"
        )
    # The retries of google's library draw from it as well.
    state = random.getstate()
    try:
        return _download(blob, n_retries, max_backoff)
    finally:
        random.setstate(state)


def _blob_class() -> Any:
    try:
        from google.cloud import storage  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise ImportError(
            "download_gcs_blob_with_backoff() needs the package google-cloud-storage: "
            "pip install google-cloud-storage"
        ) from error
    return storage.Blob


def _download(blob: Any, n_retries: int, max_backoff: int) -> bytes:
    failure: Exception | None = None
    for attempt in range(n_retries):
        if attempt:
            time.sleep(min(2 ** (attempt - 1) + random.random(), max_backoff))
        try:
            return bytes(blob.download_as_bytes())
        except Exception as error:
            failure = error
    raise RuntimeError(
        f"could not download {blob.name!r}: {n_retries} tries failed, the last one with {failure!r}"
    ) from failure


def is_overridden(full_method: Any, parent_class: type) -> bool:
    """Whether a method comes from another class than ``parent_class``, by the classes' names."""
    if not callable(full_method):
        return False
    owner, _, _ = getattr(full_method, "__qualname__", "").partition(".")
    return bool(owner != parent_class.__name__)


def has_param(fn: Callable[..., Any], name: str, pos: int | None = None) -> bool:
    """Whether ``fn`` has a positional parameter ``name``, or one at the index ``pos``."""
    args = inspect.getfullargspec(fn).args
    return name in args or (pos is not None and pos < len(args))


def get_member_func(obj: Any, func_name: str) -> Any:
    """The callable attribute ``func_name`` of ``obj``, None if there is none."""
    member = getattr(obj, func_name, None)
    return member if callable(member) else None


def humanize_float(n: float) -> float:
    """``n`` rounded to four significant digits, its integer part kept whole."""
    if n == 0 or not math.isfinite(n):
        return n
    digits = math.ceil(math.log10(abs(n)))
    return round(n, max(4 - digits, 0))


def json_encode(obj: Any, indent: int | str | None = None, sort_keys: bool = False) -> str:
    """JSON of ``obj``, which may hold what metrics hold.

    NaN and infinities become strings; NumPy arrays and tuples lists; dates ISO strings; enums
    their names; UUIDs and bytes strings; other objects what their ``__json__()`` returns.

    Raises:
        TypeError: ``obj`` holds something else.
    """
    return json.dumps(map_nested(obj, _jsonable), indent=indent, sort_keys=sort_keys)


def _jsonable(obj: Any, _: str) -> Any:
    if obj is None or isinstance(obj, (str, bool)):
        return obj
    return _json_number(obj) if isinstance(obj, numbers.Number) else _json_object(obj)


def _json_number(number: numbers.Number) -> int | float | str:
    if isinstance(number, numbers.Integral):
        return int(cast(SupportsInt, number))
    value = float(cast(SupportsFloat, number))
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"


def _json_object(obj: Any) -> Any:
    import numpy as np

    if isinstance(obj, bytes):
        return obj.decode("utf-8")
    if isinstance(obj, np.ndarray):
        return map_nested(obj.tolist(), _jsonable)
    if isinstance(obj, datetime.datetime):
        return obj.isoformat()
    if isinstance(obj, enum.Enum):
        return obj.name
    if isinstance(obj, uuid.UUID):
        return str(obj)
    if hasattr(obj, "__json__"):
        return obj.__json__()
    raise TypeError(f"cannot write {obj!r} of type {type(obj).__name__} as JSON")

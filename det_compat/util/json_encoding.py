"""JSON of what metrics hold."""

import datetime
import enum
import json
import math
import numbers
import uuid
from typing import Any, SupportsFloat, SupportsInt, cast

from det_compat.shared.nested import map_nested


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

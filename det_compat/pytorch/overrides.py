"""What user code defines and which arguments it takes."""

import inspect
from collections.abc import Callable
from typing import Any

_LIBRARIES = ("det_compat", "determined")


def is_user_code(method: Any, base_name: str) -> bool:
    """Whether ``method`` is user code, not one of class ``base_name`` in det_compat or determined.

    The class is told by name and module, so that trials and callbacks of either library work and
    methods may come from any class. What is not callable overrides nothing, as in Determined.
    """
    if not callable(method):
        return False
    owner = (getattr(method, "__qualname__", None) or "").partition(".")[0]
    library = (getattr(method, "__module__", None) or "").partition(".")[0]
    return owner != base_name or library not in _LIBRARIES


def takes_parameter(fn: Callable[..., Any], name: str, position: int | None = None) -> bool:
    """Whether ``fn`` has a positional parameter ``name``, or any at ``position``.

    Positions count from 0 and include ``self``. ``*args``, ``**kwargs`` and keyword-only parameters
    do not count, nor is a decorator's wrapper looked through, as in Determined 0.38.1.
    """
    try:
        args = inspect.getfullargspec(fn).args
    except TypeError:
        return False
    return name in args or (position is not None and position < len(args))

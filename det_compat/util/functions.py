"""What functions and methods take, and whether they are a user's."""

import inspect
from collections.abc import Callable
from typing import Any


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

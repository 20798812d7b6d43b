"""What stands for a name that det_compat does not have, until it is used.

Code may import it, annotate with it, derive from it, catch it and keep it; whatever else it does
with it raises NotSupportedError, or AttributeError where an attribute is asked for, and says what
to do instead.
"""

import abc
import enum
import functools
from collections.abc import Callable
from typing import Any, Union

from det_compat.catalog.names import refusal_text
from det_compat.catalog.releases import Kind, Released, released
from det_compat.errors import NotSupportedError

_REFUSAL = "__det_compat_refusal__"


def refusal_of(cls: type) -> str | None:
    """What is said of a class that derives from one that det_compat does not have; else None."""
    found: str | None = getattr(cls, _REFUSAL, None)
    return found


def placeholder(name: str, found: Released) -> Any:
    """The object that stands for ``name``, which is no module: always the same one."""
    if found.kind is Kind.ERROR:
        return _error(found.origin, found.detail)
    if found.kind is Kind.CONSTANT:
        return found.detail
    return _stand_in(name, found.kind, tuple(found.detail or ()))


@functools.cache
def _error(origin: str, base: str) -> type[BaseException]:
    """An exception that nothing here raises, so that ``except`` can name it."""
    import builtins

    parent = getattr(builtins, base, None)
    if parent is None:
        above = released(base)
        has_own = above is not None and above.kind is Kind.ERROR
        parent = _error(base, above.detail) if above and has_own else Exception
    module, _, name = origin.rpartition(".")
    return type(name, (parent,), {"__module__": module})


@functools.cache
def _stand_in(name: str, kind: Kind, members: tuple[str, ...]) -> Any:
    if kind is Kind.FUNCTION:
        return _function(name)
    if kind in (Kind.CLASS, Kind.ENUM):
        return _class(name, members)
    return _Value(name)


def _function(full_name: str) -> Callable[..., Any]:
    text = refusal_text(full_name)

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise NotSupportedError(text)

    module, _, name = full_name.rpartition(".")
    refused.__module__, refused.__name__, refused.__qualname__ = module, name, name
    refused.__doc__ = text
    return refused


class _RefusedType(abc.ABCMeta):
    """The type of classes that cannot be built, and of those that users derive from them."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotSupportedError(refusal_of(cls))

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in cls.__det_compat_members__:
            return _Value(f"{cls.__module__}.{cls.__qualname__}.{name}")
        raise AttributeError(refusal_of(cls), name=name, obj=cls)

    def __iter__(cls) -> Any:
        raise NotSupportedError(refusal_of(cls))

    __det_compat_members__: tuple[str, ...] = ()


def _class(full_name: str, members: tuple[str, ...]) -> type:
    module, _, name = full_name.rpartition(".")
    text = refusal_text(full_name)
    own = {"__module__": module, "__doc__": text, _REFUSAL: text, "__det_compat_members__": members}
    return _RefusedType(name, (), own)


class _Value:
    """A constant, an object or a member of an enumeration."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name}, which det_compat does not have>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(refusal_text(self._name), name=name, obj=self)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        # `Optional[it]` compares it with what typing has.
        if isinstance(other, (str, bytes, int, float, enum.Enum)):
            self._refuse()
        return self is other

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007 (The other form would call this method.)

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007 (The other form would call this method.)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise NotSupportedError(refusal_text(self._name))

    __call__ = __bool__ = __iter__ = __len__ = __getitem__ = __contains__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __str__ = __format__ = __fspath__ = __int__ = __float__ = __index__ = __enter__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse

"""Nested dicts, lists and tuples: rebuilt with other values in them, or dicts without nesting.

Walkers that do something else have their own homes: ``plain_types`` tells containers by their exact
type and says what they were, ``masking`` goes by the keys above a value, ``checkpoint.show`` makes
lists of sets and text of shapes, ``checkpoint.files.safe_globals`` changes containers in place and
lets them contain themselves, ``config.loading`` makes strings of keys and errors of what is no
JSON, ``pytorch.data`` is in the way of every batch, and ``verify.comparison`` walks two values at
once.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def map_nested(
    value: Any, leaf: Callable[[Any, str], Any], where: str = "", *, keys: bool = False
) -> Any:
    """``value`` with ``leaf(item, where)`` in place of every item that is no dict, list or tuple.

    Subclasses become plain dicts, lists and tuples.

    Args:
        value: a leaf or a container.
        leaf: gets each item, and where it is, such as ``hparams['layers'][0]``.
        where: where ``value`` is.
        keys: whether the keys of dicts are changed in the same way, too.
    """
    if isinstance(value, dict):
        return {
            map_nested(key, leaf, where, keys=True) if keys else key: map_nested(
                item, leaf, f"{where}[{key!r}]", keys=keys
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        kind = tuple if isinstance(value, tuple) else list
        return kind(
            map_nested(item, leaf, f"{where}[{index}]", keys=keys)
            for index, item in enumerate(value)
        )
    return leaf(value, where)


def by_dotted_name(
    values: Mapping[str, Any], prefix: str = "", *, whole: str | None = None
) -> Iterator[tuple[str, Any]]:
    """What nested dicts hold, each with a name such as ``optimizer.lr``.

    An empty dict stays one, and so does one that has the key ``whole``.
    """
    for name, value in values.items():
        if isinstance(value, dict) and value and whole not in value:
            yield from by_dotted_name(value, f"{prefix}{name}.", whole=whole)
        else:
            yield f"{prefix}{name}", value

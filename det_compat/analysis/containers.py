"""Lists, tuples and dicts, by what they hold."""

import ast
from collections.abc import Iterable

from det_compat.analysis.scopes import NOTHING, Many, Mapping, Sequence, Value, Values, limited

#: Methods of containers that return what is in them.
METHODS = frozenset({"get", "items", "pop", "popleft", "setdefault", "values"})
#: Methods that put their last argument in.
ADDING = frozenset({"add", "append", "appendleft", "insert"})

# A container that contains itself would grow forever.
_MAX_NESTING = 3


def sequence(elements: Iterable[Values]) -> Values:
    """A list or tuple; nothing where no element concerns Determined."""
    kept = tuple(_flat_enough(values) for values in elements)
    held = limited(NOTHING.union(*kept))
    return frozenset([Sequence(kept, held)]) if held else NOTHING


def mapping(keys: Iterable[str | None], values: Iterable[Values]) -> Values:
    """A dict; a key that is not written out is None."""
    items = tuple((key, _flat_enough(found)) for key, found in zip(keys, values, strict=True))
    by_key: dict[str | None, Values] = {}
    for key, found in items:
        by_key[key] = limited(by_key.get(key, NOTHING) | found)
    any_of_them = limited(NOTHING.union(*by_key.values()))
    held = any_of_them if all(found for _, found in items) else NOTHING
    return frozenset([Mapping(items, held, by_key)]) if any_of_them else NOTHING


def element(containers: Values, key: ast.expr) -> Values:
    """What ``container[key]`` is; without a key that is written out, any element."""
    known = key.value if isinstance(key, ast.Constant) else None
    return NOTHING.union(*(_element(container, known) for container in containers))


def result(method: str, containers: Values, args: list[ast.expr]) -> Values:
    """What a method of METHODS returns."""
    if method in ("get", "pop", "popleft", "setdefault"):
        return element(containers, args[0] if args else ast.Constant(None))
    if method == "values":
        return frozenset(container for container in containers if isinstance(container, Mapping))
    pairs = [sequence([NOTHING, _element(container, None)]) for container in containers]
    return sequence(pairs)


def _element(container: Value, key: object) -> Values:
    if isinstance(container, Sequence):
        elements = container.elements
        if isinstance(key, int) and -len(elements) <= key < len(elements):
            return elements[key]
        return container.held
    if isinstance(container, Mapping):
        by_key = container.by_key
        if isinstance(key, str):
            return by_key.get(key, NOTHING) | by_key.get(None, NOTHING)
        return container.held
    return frozenset([container]) if isinstance(container, Many) else NOTHING


def _flat_enough(values: Values) -> Values:
    return frozenset(value for value in values if _nesting(value) < _MAX_NESTING)


def _nesting(value: Value) -> int:
    if isinstance(value, Sequence):
        inside = value.elements
    elif isinstance(value, Mapping):
        inside = tuple(values for _, values in value.items)
    else:
        return 0
    return 1 + max((_nesting(inner) for values in inside for inner in values), default=0)

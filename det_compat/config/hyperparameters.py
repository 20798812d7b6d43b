"""Hyperparameters: constants, and ranges to search."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from det_compat.config.document import KeyPath, Problems, dotted
from det_compat.config.keys import kinds


@dataclass(frozen=True)
class Const:
    """Always ``value``, of any type."""

    value: Any


@dataclass(frozen=True)
class Int:
    """A whole number from ``minval`` to ``maxval``, both included."""

    minval: int
    maxval: int
    count: int | None = None


@dataclass(frozen=True)
class Double:
    """A number from ``minval`` to ``maxval``."""

    minval: float
    maxval: float
    count: int | None = None


@dataclass(frozen=True)
class Log:
    """``base`` to the power of a number from ``minval`` to ``maxval``."""

    minval: float
    maxval: float
    base: float
    count: int | None = None


@dataclass(frozen=True)
class Categorical:
    """One of ``vals``, of any types."""

    vals: tuple[Any, ...]


Range = Int | Double | Log | Categorical
Hyperparameter = Const | Range

_WHOLE, _COUNT, _BASE = kinds.integer(), kinds.integer(1), kinds.number_above(0)
_ANY_LIST = kinds.Kind(
    "a list of at least one value", lambda value: isinstance(value, list) and bool(value)
)
# The keys that each type must have.
_FIELDS: dict[str, dict[str, kinds.Kind]] = {
    "const": {"val": replace(kinds.ANYTHING, name="a value")},
    "int": {"minval": _WHOLE, "maxval": _WHOLE},
    "double": {"minval": kinds.NUMBER, "maxval": kinds.NUMBER},
    "log": {"minval": kinds.NUMBER, "maxval": kinds.NUMBER, "base": _BASE},
    "categorical": {"vals": _ANY_LIST},
}
_TYPES = tuple(_FIELDS)
# The types that may have a count, and what their bounds are.
_COUNTED: dict[str, tuple[type[Int | Double | Log], type[int | float]]] = {
    "int": (Int, int),
    "double": (Double, float),
    "log": (Log, float),
}


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of an experiment.

    ``space`` is nested as in the config: its values are Const, Int, Double, Log, Categorical, or a
    dict of such.
    """

    space: dict[str, Any] = field(default_factory=dict)

    def ranges(self) -> dict[str, Range]:
        """What is to be searched, by dotted name; empty if one trial is all there is."""
        return {
            dotted(path): item for path, item in leaves(self.space) if not isinstance(item, Const)
        }

    def constants(self) -> dict[str, Any]:
        """The values, as ``context.get_hparams()`` returns them, without those to be searched."""
        return _constants(self.space)


def leaves(space: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Each hyperparameter in a nested ``space``, with its path."""
    for name, item in space.items():
        if isinstance(item, Mapping):
            yield from leaves(item, (*path, name))
        else:
            yield (*path, name), item


def _constants(space: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, item in space.items():
        if isinstance(item, Mapping):
            values[name] = _constants(item)
        elif isinstance(item, Const):
            values[name] = item.value
    return values


def parse_hyperparameters(config: Any, problems: Problems, *, is_grid: bool) -> Hyperparameters:
    """The ``hyperparameters`` of a config; what is wrong with them is noted in ``problems``."""
    if not isinstance(config, dict):
        return Hyperparameters()
    return Hyperparameters(_Parser(problems, is_grid).space(config, ("hyperparameters",)))


class _Parser:
    def __init__(self, problems: Problems, is_grid: bool) -> None:
        self._problems = problems
        self._is_grid = is_grid

    def space(self, config: dict[str, Any], path: KeyPath) -> dict[str, Any]:
        return {name: self._item(value, (*path, name)) for name, value in config.items()}

    def _item(self, value: Any, path: KeyPath) -> Any:
        if not isinstance(value, dict):
            return Const(value)
        if "type" not in value:
            return self.space(value, path)
        if value["type"] not in _TYPES:
            self._problems.add(
                (*path, "type"),
                f"one of {', '.join(_TYPES)}: a mapping with `type` says what range to search. For "
                "a constant mapping write {type: const, val: {...}}",
            )
            return Const(value)
        return self._typed(value, path)

    def _typed(self, value: dict[str, Any], path: KeyPath) -> Hyperparameter:
        kind = value["type"]
        fits = self._check_fields(value, path, _FIELDS[kind])
        if not fits or not self._check_extent(value, path):
            return Const(None)
        if kind == "const":
            return Const(value["val"])
        if kind == "categorical":
            return Categorical(tuple(value["vals"]))
        range_type, number = _COUNTED[kind]
        bounds: dict[str, Any] = {name: number(value[name]) for name in _FIELDS[kind]}
        count = value.get("count")
        return range_type(**bounds, count=None if count is None else int(count))

    def _check_fields(
        self, value: dict[str, Any], path: KeyPath, fields: dict[str, kinds.Kind]
    ) -> bool:
        fits = True
        for name, kind in fields.items():
            if name not in value:
                self._problems.missing((*path, name), f"{kind.name}, for type {value['type']}")
                fits = False
            elif not kind.accepts(value[name]):
                self._problems.add((*path, name), kind.name)
                fits = False
        for name in [name for name in value if name not in {*fields, "type", "count", "base"}]:
            known = ", ".join([*fields, "count"] if value["type"] in _COUNTED else fields)
            self._problems.add_key((*path, name), f"only {known}", "a key that its type has not")
            fits = False
        return fits

    def _check_extent(self, value: dict[str, Any], path: KeyPath) -> bool:
        if value["type"] not in _COUNTED:
            return True
        count = value.get("count")
        if value["minval"] >= value["maxval"]:
            found = f"minval {value['minval']} and maxval {value['maxval']}"
            self._problems.add(path, "minval below maxval", found)
        elif count is None and self._is_grid:
            self._problems.missing((*path, "count"), "a count: grid search takes so many points")
        elif count is not None and not _COUNT.accepts(count):
            self._problems.add((*path, "count"), _COUNT.name)
        else:
            return True
        return False


def batch_size(hparams: Mapping[str, Any], slots: int = 1) -> int | None:
    """Records in a batch over all processes, None if the hyperparameters do not say.

    That is ``global_batch_size``, or, as PEDL and early 0.12 had it, ``batch_size`` on each slot.
    """
    size = hparams.get("global_batch_size")
    if size is None and kinds.is_integer(hparams.get("batch_size")):
        size = hparams["batch_size"] * max(slots, 1)
    return int(size) if size is not None and kinds.is_number(size) and size >= 1 else None

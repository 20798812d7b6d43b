"""Hyperparameters drawn from their ranges, and the points of a grid.

Determined's master drew with NumPy's old generator inside Go. These draws have the same
distributions, are repeatable, and are other numbers: a seed does not give a search the
hyperparameters that it had on a cluster.
"""

import itertools
import math
import random
from operator import itemgetter
from typing import Any

from det_compat.config import hyperparameters
from det_compat.config.document import dotted
from det_compat.search.errors import SearchError

_LARGEST_GRID = 1_000_000


def sample(space: hyperparameters.Hyperparameters, seed: int, index: int) -> dict[str, Any]:
    """The hyperparameters of trial ``index`` of a search with ``seed``: the same ones each time."""
    drawn: dict[str, Any] = _sample(space.space, random.Random(f"{seed}/{index}"))
    return drawn


def trial_seed(seed: int, index: int) -> int:
    """The seed of trial ``index`` of a search with ``seed``; 31 bits, as Determined's were."""
    return random.Random(f"{seed}/{index}/seed").getrandbits(31)


def _sample(space: Any, rng: random.Random) -> Any:
    if not isinstance(space, dict):
        return _draw(space, rng)
    # They are drawn by name, so that the order of keys in the file does not matter.
    drawn = {name: _sample(space[name], rng) for name in sorted(space, key=str)}
    return {name: drawn[name] for name in space}


def _draw(item: hyperparameters.Hyperparameter, rng: random.Random) -> Any:
    if isinstance(item, hyperparameters.Const):
        return item.value
    if isinstance(item, hyperparameters.Int):
        return rng.randint(item.minval, item.maxval)
    if isinstance(item, hyperparameters.Double):
        return rng.uniform(item.minval, item.maxval)
    if isinstance(item, hyperparameters.Log):
        return _power(item.base, rng.uniform(item.minval, item.maxval))
    return rng.choice(item.vals)


def grid(space: hyperparameters.Hyperparameters) -> list[dict[str, Any]]:
    """All points of the grid, the first hyperparameter by name varying slowest.

    As in Determined 0.38, int takes no more points than there are integers, and one point is the
    middle of the range.

    Raises:
        SearchError: there are more than a million points, or a range has no ``count``.
    """
    in_order = sorted(hyperparameters.leaves(space.space), key=itemgetter(0))
    axes = {path: _points(item, dotted(path)) for path, item in in_order}
    points = math.prod(map(len, axes.values()))
    if points > _LARGEST_GRID:
        raise SearchError(f"the grid has {points} points: lower the counts, or search at random")
    return [_nested(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def _points(item: hyperparameters.Hyperparameter, name: str) -> list[Any]:
    if isinstance(item, hyperparameters.Const):
        return [item.value]
    if isinstance(item, hyperparameters.Categorical):
        return list(item.vals)
    if item.count is None:
        raise SearchError(f"hyperparameters.{name} has no count, which grid search needs")
    count = item.count
    if isinstance(item, hyperparameters.Int):
        count = min(count, item.maxval - item.minval + 1)
        return [_nearest(value) for value in _spaced(item.minval, item.maxval, count)]
    values = _spaced(item.minval, item.maxval, count)
    if isinstance(item, hyperparameters.Log):
        return [_power(item.base, value) for value in values]
    return values


def _spaced(low: float, high: float, count: int) -> list[float]:
    if count == 1:
        return [(low + high) / 2.0]
    return [low + step * (high - low) / (count - 1) for step in range(count)]


def _nearest(value: float) -> int:
    """The nearest integer, halves away from zero as Go rounds them."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _power(base: float, exponent: float) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        raise SearchError(
            f"a log hyperparameter reaches {base} to the power of {exponent}, which is too large"
        ) from None


def _nested(values: Any) -> dict[str, Any]:
    point: dict[str, Any] = {}
    for path, value in values:
        inner = point
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return point

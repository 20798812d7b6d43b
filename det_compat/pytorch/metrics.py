"""Metrics are averaged and reduced here, with the arithmetic of Determined 0.38.1."""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from det_compat import core
from det_compat.core.ranks.columns import AsColumns
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.reducer import Reducer, as_reducer

_NOT_AVERAGED = (ArithmeticError, AttributeError, RuntimeError, TypeError, ValueError)


def to_numpy(metrics: dict[str, Any]) -> dict[str, Any]:
    """Replace each tensor in ``metrics`` by a NumPy array, in place, and return ``metrics``.

    bfloat16, which NumPy lacks, becomes float32.
    """
    for name, value in metrics.items():
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu()
            value = value.float() if value.dtype == torch.bfloat16 else value
            metrics[name] = value.numpy()
    return metrics


def average_training_metrics(batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of each metric over ``batches``, or None where it cannot be averaged.

    None values are left out; a metric that is no scalar is averaged over all of its elements.

    Raises:
        ValueError: the batches differ in the names of their metrics.
    """
    _check_same_names(batches)
    if not batches:
        return {}
    return {name: _average([batch[name] for batch in batches]) for name in batches[0]}


def _average(values: list[Any]) -> Any:
    with contextlib.suppress(*_NOT_AVERAGED):
        mean = _mean(values)
        return mean.item() if hasattr(mean, "item") else mean
    return None


def _mean(values: list[Any]) -> Any:
    array = np.array(values)
    # No array of another type has None in it.
    given = array[array != None] if array.dtype == object else array.ravel()  # noqa: E711 (of each)
    return np.mean(given)


def _check_same_names(batches: Sequence[Mapping[str, Any]]) -> None:
    names = batches[0].keys() if batches else ()
    for index, metrics in enumerate(batches):
        if metrics.keys() != names:
            differing = sorted(map(str, names ^ metrics.keys()))
            raise ValueError(
                f"training metrics differ between batches: batch {index} of the reporting period "
                f"has {sorted(map(str, metrics))}, batch 0 has {sorted(map(str, batches[0]))}; "
                f"only one of them has {', '.join(differing)}. Return the same names from every "
                "train_batch()."
            )


def combine_training_metrics(
    distributed: core.DistributedContext, batches: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The metrics of each batch: averaged over ranks on the chief, their own on the others.

    ``batches`` are the metrics of this rank, by batch. What cannot be averaged is the chief's.

    Raises:
        ValueError: on the chief, if another rank lacks a batch or a metric that it has.
    """
    gathered = distributed.gather(AsColumns(batches))
    return batches if gathered is None else average_over_ranks([batches, *gathered[1:]])


def average_over_ranks(gathered: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The metrics of each batch averaged over ranks, of which ``gathered`` has a list each.

    Raises:
        ValueError: a rank lacks a batch or a metric that the first one with metrics has.
    """
    ranks = {rank: theirs for rank, theirs in enumerate(gathered) if theirs}
    if len(gathered) < 2 or not ranks:
        return gathered[0]
    _check_ranks(ranks)
    first = next(iter(ranks.values()))
    arrays = {name for name, value in first[0].items() if isinstance(value, np.ndarray)}
    return [
        _average_ranks([theirs[index] for theirs in ranks.values()], arrays)
        for index in range(len(first))
    ]


def _average_ranks(ranks: list[dict[str, Any]], arrays: set[str]) -> dict[str, Any]:
    averaged = {**ranks[0]}
    for name in averaged:
        with contextlib.suppress(*_NOT_AVERAGED):
            mean = _mean([theirs[name] for theirs in ranks])
            averaged[name] = np.array(mean) if name in arrays else mean
    return averaged


def _check_ranks(ranks: dict[int, list[dict[str, Any]]]) -> None:
    chief, first = next(iter(ranks.items()))
    for rank, theirs in ranks.items():
        if len(theirs) < len(first):
            raise ValueError(
                f"rank {rank} trained {len(theirs)} batches of a reporting period in which rank "
                f"{chief} trained {len(first)}: every rank must train as many"
            )
        # A rank may have trained more batches than the chief, as in Determined.
        for index, (ours, other) in enumerate(zip(first, theirs)):  # noqa: B905
            if missing := sorted(map(str, ours.keys() - other.keys())):
                raise ValueError(
                    f"training metrics differ between ranks: in batch {index} of the reporting "
                    f"period rank {rank} lacks {', '.join(missing)}, which rank {chief} has. "
                    "Return the same names from train_batch() on every rank."
                )


def expand_reducers(reducer: Any, names: Collection[str]) -> dict[str, Reducer]:
    """A Reducer for each of ``names``, given one for all or a dict of them.

    Raises:
        InvalidExperimentException: the dict is not for exactly these names, or a reducer is none.
    """
    if isinstance(reducer, dict) and reducer.keys() != set(names):
        raise InvalidExperimentException(
            f"evaluation_reducer() returned reducers for {sorted(map(str, reducer))}, but the "
            f"validation metrics are {sorted(map(str, names))}: return one pytorch.Reducer for "
            "all, or a dict with one for each metric"
        )
    given = reducer if isinstance(reducer, dict) else dict.fromkeys(names, reducer)
    reducers = {}
    for name in names:
        known = as_reducer(given[name])
        if known is None:
            raise InvalidExperimentException(
                f"evaluation_reducer() returned {given[name]!r} for the metric {name!r}: return "
                f"one of {', '.join(f'pytorch.{member}' for member in Reducer)}"
            )
        reducers[name] = known
    return reducers


def reduce_validation_metrics(
    distributed: core.DistributedContext,
    batches: Sequence[Mapping[str, Any]],
    reducers: Mapping[str, Reducer],
) -> dict[str, Any]:
    """The metrics of all batches of all ranks, on the chief; on the others ``{}``.

    ``batches`` are the metrics of this rank, by batch, through ``to_numpy``. The elements of a
    metric that is no scalar are reduced with the batches, to a scalar. Averages over ranks are
    weighted by their number of batches, as in Determined 0.38.1.

    Raises:
        ValueError: a metric cannot be reduced; NumPy's error is the cause.
    """
    own = {
        name: _reduce(name, reducers[name], [batch[name] for batch in batches])
        for name in (batches[0] if batches else ())
    }
    if distributed.size < 2:
        return own
    gathered = distributed.gather((own, len(batches)))
    if gathered is None:
        return {}
    ranks = [(metrics, count) for metrics, count in gathered if count]
    weights = [count for _, count in ranks]
    return {
        name: reduce_values(reducers[name], [metrics[name] for metrics, _ in ranks], weights)
        for name in (ranks[0][0] if ranks else ())
    }


def _reduce(name: str, reducer: Reducer, values: list[Any]) -> Any:
    try:
        return reduce_values(reducer, _stacked(values), None)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the validation metric {name!r} cannot be reduced by {reducer}: {error}. Return "
            "numbers or arrays of one shape from evaluate_batch(), or use context.wrap_reducer()."
        ) from error


def _stacked(values: list[Any]) -> Any:
    # NumPy takes arrays of one number each six times as fast as it stacks them.
    if {*map(type, values)} == {np.ndarray} and not values[0].shape:
        return np.array(values)
    return np.stack(values, axis=0)


def reduce_values(reducer: Reducer, values: Any, weights: list[int] | None) -> Any:
    """``values`` reduced to a scalar; averages are weighted, where there are weights."""
    if reducer is Reducer.AVG:
        return np.mean(values) if weights is None else np.average(values, weights=weights)
    functions: dict[Reducer, Any] = {Reducer.SUM: np.sum, Reducer.MAX: np.max, Reducer.MIN: np.min}
    return functions[reducer](values)

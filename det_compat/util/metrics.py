"""Metrics of batches: lists of dicts, their averages, and how fast they came."""

import collections
import logging
import math
from typing import Any

from det_compat.common import check

logger = logging.getLogger("determined")


def list_to_dict(list_of_dicts: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The values of each key, in the order of the dicts that have it."""
    found: dict[str, list[Any]] = collections.defaultdict(list)
    for item in list_of_dicts:
        for key, value in item.items():
            found[key].append(value)
    return found


def dict_to_list(dict_of_lists: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """One dict for each index of the lists.

    Raises:
        CheckFailedError: the lists are not of one length.
    """
    length = len(next(iter(dict_of_lists.values())))
    for values in dict_of_lists.values():
        check.check_len(values, length, "All lists in the dict must be the same length.")
    return [{key: values[at] for key, values in dict_of_lists.items()} for at in range(length)]


def validate_batch_metrics(batch_metrics: list[dict[str, Any]]) -> None:
    """Check that every batch has the same metrics.

    Raises:
        CheckFailedError: one has not.
    """
    expected = list_to_dict(batch_metrics).keys()
    for index, metrics in enumerate(batch_metrics):
        check.eq(expected, metrics.keys(), f"inconsistent training metrics: index: {index}")


def make_metrics(num_inputs: int | None, batch_metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """The metrics of batches and their averages, as Determined 0.38.1 reported them.

    What is no number has None for an average, and None among numbers does not count.

    Raises:
        CheckFailedError: batches have different metrics.
    """
    validate_batch_metrics(batch_metrics)
    averages = {name: _average(values) for name, values in list_to_dict(batch_metrics).items()}
    made: dict[str, Any] = {"batch_metrics": batch_metrics, "avg_metrics": averages}
    return made if num_inputs is None else {**made, "num_inputs": num_inputs}


def _average(values: list[Any]) -> Any:
    import numpy as np

    try:
        found = np.array(values)
        return np.mean(found[found != None]).item()  # noqa: E711 (for each element)
    except (TypeError, ValueError):
        return None


def is_numerical_scalar(n: Any) -> bool:
    """Whether ``n`` is one number: of Python, of NumPy, or an array of numbers without an axis."""
    import numpy as np

    if isinstance(n, np.ndarray):
        return n.ndim == 0 and np.issubdtype(n.dtype, np.number)
    return isinstance(n, (int, float, np.number))


def humanize_float(n: float) -> float:
    """``n`` rounded to four significant digits, its integer part kept whole."""
    if n == 0 or not math.isfinite(n):
        return n
    digits = math.ceil(math.log10(abs(n)))
    return round(n, max(4 - digits, 0))


def make_timing_log(verb: str, duration: float, num_inputs: int, num_batches: int) -> str:
    """A line of a log: how many records and batches took ``duration`` seconds."""
    records = humanize_float(num_inputs / duration if duration else math.inf)
    batches = humanize_float(num_batches / duration if duration else math.inf)
    return (
        f"{verb}: {num_inputs} records in {humanize_float(duration)}s ({records} records/s), "
        f"in {num_batches} batches ({batches} batches/s)"
    )

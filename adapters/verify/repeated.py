"""What an original does otherwise when it trains again: that is no difference of its migration."""

from collections.abc import Sequence
from itertools import zip_longest

from det_compat.adapters.verify.recording import Recording

_Metrics = Sequence[dict[str, float]]


def unrepeated(first: Recording, second: Recording) -> str:
    """Where two trainings of one original have other weights; ``""`` if they have the same."""
    for index, (one, other) in enumerate(zip_longest(first.weights, second.weights)):
        if one != other:
            when = f"after batch {index - 1}" if index else "before the first batch"
            return f"the original trains to other weights when it trains again, {when}"
    return ""


def leave_out_unrepeated_metrics(recording: Recording, again: Recording) -> list[str]:
    """Take the metrics out of a recording that the original reports otherwise the second time.

    Returns:
        Their names.
    """
    names = _other(recording.training_metrics, again.training_metrics)
    names |= _other(recording.metrics, again.metrics)
    for metrics in (*recording.training_metrics, *recording.metrics):
        for name in names & metrics.keys():
            del metrics[name]
    return sorted(names)


def _other(first: _Metrics, second: _Metrics) -> set[str]:
    found = set()
    for one, other in zip(first, second, strict=False):
        # A NaN is not equal to itself, but is repeated all the same.
        found |= {name for name in one if repr(one[name]) != repr(other.get(name))}
    return found

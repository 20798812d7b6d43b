"""What runs keep of their reports, read again: ``metrics.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from det_compat.shared.nested import by_dotted_name

# What every report of these groups has besides the trial's own metrics.
_COUNTS = dict.fromkeys(("training", "validation"), ("batches", "epochs"))


def reports(lines: Iterable[str | bytes]) -> Iterator[dict[str, Any]]:
    """The reports in lines of the file; what is none, as a line that a kill cut off, is left out.

    ``metrics`` of each is a dict, without the counts of batches and epochs that come by themselves.
    """
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(metrics := found.get("metrics"), dict):
            counts = _COUNTS.get(str(found.get("group")), ())
            own = {name: value for name, value in metrics.items() if name not in counts}
            yield {**found, "metrics": own}


def numbers(metrics: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers among metrics, those in dicts by dotted names; may be NaN or infinite."""
    for name, value in by_dotted_name(metrics, prefix):
        if isinstance(value, (int, float)):
            yield name, float(value)

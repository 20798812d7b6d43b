"""The config as ``context.get_experiment_config()`` returned it on a cluster.

Determined's master brought old configs up to date and filled in what was not given. What it took
from its own settings (storage, images, names) is left out, and old keys stay next to those that
took their place: a trial reads those of its time.
"""

import copy
from typing import Any

from det_compat.config.keys.kinds import SECTION
from det_compat.config.keys.table import ABSENT, SECTIONS
from det_compat.config.lengths import Length, Unit
from det_compat.config.periods import Periods
from det_compat.config.searcher import Searcher


def as_on_cluster(config: dict[str, Any], searcher: Searcher, periods: Periods) -> dict[str, Any]:
    """A copy of the valid ``config``, in today's terms and with Determined 0.38's defaults."""
    raw = copy.deepcopy(config)
    raw["min_validation_period"] = _as_mapping(periods.validation)
    raw["min_checkpoint_period"] = _as_mapping(periods.checkpoint)
    raw["scheduling_unit"] = periods.report.value
    raw["hyperparameters"] = _spelled_out(raw.get("hyperparameters", {}))
    length = searcher.max_length
    if length and length.unit is not Unit.CUSTOM and "max_time" not in raw["searcher"]:
        raw["searcher"]["max_length"] = _as_mapping(length)
    return _with_defaults(raw, "")


def _as_mapping(length: Length) -> dict[str, int]:
    return {length.unit.value: length.value}


def _spelled_out(space: dict[str, Any]) -> dict[str, Any]:
    """The hyperparameters ``space`` with its constants spelled out, as the master stored them."""
    spelled: dict[str, Any] = {}
    for name, value in space.items():
        if not isinstance(value, dict):
            spelled[name] = {"type": "const", "val": value}
        else:
            spelled[name] = value if "type" in value else _spelled_out(value)
    return spelled


def _with_defaults(given: dict[str, Any], section: str) -> dict[str, Any]:
    keys = sorted(SECTIONS[section].items())
    defaults = {name: copy.deepcopy(key.default) for name, key in keys if key.default is not ABSENT}
    filled = defaults | given
    for name, key in keys:
        if key.kind is SECTION:
            filled[name] = _with_defaults(filled[name], name)
    return filled


def with_seed(raw: dict[str, Any], seed: int) -> dict[str, Any]:
    """``raw`` with the ``experiment_seed`` that a cluster would have drawn."""
    given = raw.get("reproducibility") or {}
    return {**raw, "reproducibility": {**given, "experiment_seed": seed}}


def seeded(raw: dict[str, Any], seed: int) -> dict[str, Any]:
    """``raw``; if it has no ``experiment_seed``, as a cluster that drew ``seed`` would have it."""
    given = raw.get("reproducibility") or {}
    return raw if given.get("experiment_seed") is not None else with_seed(raw, seed)

"""The config as ``context.get_experiment_config()`` returned it on a cluster.

Determined's master brought old configs up to date and filled in what was not given. What it took
from its own settings (storage, images, names) is left out, and old keys stay next to those that
took their place: a trial reads those of its time.
"""

from __future__ import annotations

import copy
from typing import Any

from det_compat.config.lengths import Length, Unit
from det_compat.config.schedule import Periods
from det_compat.config.searcher import Searcher

_DEFAULTS: dict[str, Any] = {
    "bind_mounts": [],
    "checkpoint_policy": "best",
    "checkpoint_storage": {
        "save_experiment_best": 0,
        "save_trial_best": 1,
        "save_trial_latest": 1,
    },
    "data": {},
    "debug": False,
    "description": None,
    "entrypoint": None,
    "environment": {"environment_variables": [], "force_pull_image": False},
    "labels": [],
    "max_restarts": 5,
    "min_checkpoint_period": {"batches": 0},
    "min_validation_period": {"batches": 0},
    "name": None,
    "optimizations": {
        "aggregation_frequency": 1,
        "auto_tune_tensor_fusion": False,
        "average_aggregated_gradients": True,
        "average_training_metrics": True,
        "grad_updates_size_file": None,
        "gradient_compression": False,
        "mixed_precision": "O0",
        "tensor_fusion_cycle_time": 1,
        "tensor_fusion_threshold": 64,
    },
    "perform_initial_validation": False,
    "profiling": {"enabled": False, "begin_on_batch": 0, "sync_timings": True},
    "records_per_epoch": 0,
    "reproducibility": {},
    "resources": {
        "max_slots": None,
        "native_parallel": False,
        "priority": None,
        "resource_pool": "",
        "shm_size": None,
        "slots_per_trial": 1,
        "weight": 1,
    },
    "scheduling_unit": 100,
    "searcher": {"smaller_is_better": True},
}


def as_on_cluster(config: dict[str, Any], searcher: Searcher, periods: Periods) -> dict[str, Any]:
    """A copy of the valid ``config``, in today's terms and with Determined 0.38's defaults."""
    raw = copy.deepcopy(config)
    raw["min_validation_period"] = _as_mapping(periods.validation)
    raw["min_checkpoint_period"] = _as_mapping(periods.checkpoint)
    raw["scheduling_unit"] = periods.report.value
    raw["hyperparameters"] = _hyperparameters(raw.get("hyperparameters", {}))
    length = searcher.max_length
    if length and length.unit is not Unit.CUSTOM and "max_time" not in raw["searcher"]:
        raw["searcher"]["max_length"] = _as_mapping(length)
    return _filled(raw, copy.deepcopy(_DEFAULTS))


def _as_mapping(length: Length) -> dict[str, int]:
    return {length.unit.value: length.value}


def _hyperparameters(space: dict[str, Any]) -> dict[str, Any]:
    """With constants spelled out, as the master stored them."""
    spelled: dict[str, Any] = {}
    for name, value in space.items():
        if not isinstance(value, dict):
            spelled[name] = {"type": "const", "val": value}
        else:
            spelled[name] = value if "type" in value else _hyperparameters(value)
    return spelled


def _filled(given: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    filled = {**defaults, **given}
    for name, default in defaults.items():
        if isinstance(default, dict) and isinstance(given.get(name), dict):
            is_length = name in ("min_checkpoint_period", "min_validation_period")
            filled[name] = given[name] if is_length else {**default, **given[name]}
    return filled

"""``PyTorchTrialContext.from_config``: a context to build a trial with, and to call it by hand."""

import math
import random
from typing import Any

import torch

from det_compat.core.trial_core import TrialCore

# What a local run of Determined 0.13 to 0.38 had, where its config did not say; it left out the
# keys of the second table, which are for a cluster.
_DEFAULTS: dict[str, Any] = {
    "searcher": {"name": "single", "max_length": {"batches": 100}},
    "scheduling_unit": 100,
    "resources": {"slots_per_trial": 1},
    "optimizations": {
        "aggregation_frequency": 1,
        "average_aggregated_gradients": True,
        "average_training_metrics": True,
        "gradient_compression": False,
        "mixed_precision": "O0",
    },
}
_LEFT_OUT = ("bind_mounts", "checkpoint_storage", "environment", "resources", "optimizations")


def arguments(config: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a context for debugging, given an experiment config as a dict.

    Hyperparameters that are searched get random values, drawn from ``random`` in their order.

    Raises:
        ValueError: a hyperparameter is of no known type.
    """
    kept = {key: value for key, value in config.items() if key not in _LEFT_OUT}
    exp_conf = {**_DEFAULTS, **kept}
    seed = (exp_conf.get("reproducibility") or {}).get("experiment_seed", 0)
    return {
        "core_context": TrialCore(),
        "trial_seed": int(seed),
        "hparams": drawn_hyperparameters(exp_conf),
        "slots_per_trial": 1,
        "num_gpus": min(torch.cuda.device_count(), 1),
        "exp_conf": exp_conf,
        "aggregation_frequency": 1,
        "steps_completed": 0,
        "managed_training": False,
        "debug_enabled": bool(exp_conf.get("debug")),
    }


def drawn_hyperparameters(config: dict[str, Any]) -> dict[str, Any]:
    """The hyperparameters of a config; those that are searched get random values.

    Raises:
        ValueError: a hyperparameter is of no known type.
    """
    return _drawn(config.get("hyperparameters") or {})


def _drawn(hyperparameters: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(name, given) for name, given in hyperparameters.items()}


def _value(name: str, given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    kind = given.get("type")
    if kind is None:
        return _drawn(given)
    if kind == "const":
        return given["val"]
    if kind == "categorical":
        return random.choice(given["vals"])
    if kind == "int":
        return random.randint(given["minval"], given["maxval"])
    if kind == "double":
        return random.uniform(given["minval"], given["maxval"])
    if kind == "log":
        return math.pow(given["base"], random.uniform(given["minval"], given["maxval"]))
    raise ValueError(f"hyperparameter {name!r} has the type {kind!r}, which there is not")

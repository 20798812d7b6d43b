"""Experiment configs of PEDL and Determined 0.12 to 0.38, read without torch or Lightning.

``read_config(path)`` and ``parse_config(mapping)`` give an ``ExperimentConfig``; what is wrong with
a config is one ``ConfigError`` with all problems and their places.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from det_compat.config.errors import ConfigError, Problem
    from det_compat.config.experiment import ExperimentConfig, parse_config, read_config

_HOME = {
    "ConfigError": "errors",
    "ExperimentConfig": "experiment",
    "Problem": "errors",
    "parse_config": "experiment",
    "read_config": "experiment",
}

__all__ = ["ConfigError", "ExperimentConfig", "Problem", "parse_config", "read_config"]


def __getattr__(name: str) -> Any:
    # the command line lists its commands without importing yaml
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)

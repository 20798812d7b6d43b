"""Experiment configs of PEDL and Determined 0.12 to 0.38, read without torch or Lightning.

``read_config(path)`` and ``parse_config(mapping)`` give an ``ExperimentConfig``; what is wrong with
a config is one ``ConfigError`` with all problems and their places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from det_compat.shared.lazy_names import lazy_names

if TYPE_CHECKING:
    from det_compat.config.errors import ConfigError as ConfigError
    from det_compat.config.errors import Problem as Problem
    from det_compat.config.experiment import ExperimentConfig as ExperimentConfig
    from det_compat.config.experiment import parse_config as parse_config
    from det_compat.config.experiment import read_config as read_config

# The command line lists its commands without importing yaml.
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "ConfigError": "det_compat.config.errors",
        "ExperimentConfig": "det_compat.config.experiment",
        "Problem": "det_compat.config.errors",
        "parse_config": "det_compat.config.experiment",
        "read_config": "det_compat.config.experiment",
    },
)

"""Experiment configs of PEDL and Determined 0.12 to 0.38, read without torch or Lightning.

``read_config(path)`` and ``parse_config(mapping)`` give an ``ExperimentConfig``; what is wrong with
a config is one ``ConfigError`` with all problems, and where in the file they are.
"""

from det_compat.config.document import ConfigError, Problem
from det_compat.config.experiment import ExperimentConfig, parse_config, read_config

__all__ = ["ConfigError", "ExperimentConfig", "Problem", "parse_config", "read_config"]

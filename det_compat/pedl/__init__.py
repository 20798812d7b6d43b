"""PEDL, as Determined was called before its first public release: the names that trials use.

``pedl.get_hyperparameter`` and its neighbours tell what holds for the run that is going on.
"""

from det_compat.pedl.experiment import Constant, Experiment
from det_compat.pedl.run import get_data_config, get_download_data_dir, get_hyperparameter

__all__ = [
    "Constant",
    "Experiment",
    "get_data_config",
    "get_download_data_dir",
    "get_hyperparameter",
]

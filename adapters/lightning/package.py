"""The Lightning that trials run on: of the package ``pytorch_lightning`` or of ``lightning``.

Both hold the same code under two names, and a module of one does not fit a Trainer of the other.
The one that the program has imported is taken; else DET_COMPAT_LIGHTNING says which; else it is the
one that is installed, and pytorch_lightning if both are. All other modules take ``pl`` from here.
"""

import importlib
import importlib.util
import logging
import os
import sys
from typing import TYPE_CHECKING

import torch

__all__ = [
    "FABRIC",
    "MODULE",
    "PACKAGE",
    "SETS_DTYPE",
    "VERSION",
    "ClusterEnvironment",
    "LightningEnvironment",
    "MisconfigurationException",
    "pl",
    "warn_of_the_other",
]

logger = logging.getLogger("det_compat")

#: The variable that names the package where the program has imported neither of them, or both.
VARIABLE = "DET_COMPAT_LIGHTNING"

# Each package with the module that has the Trainer, and with the one that it builds upon.
_MODULES = {"pytorch_lightning": "pytorch_lightning", "lightning": "lightning.pytorch"}
_FABRIC = {"pytorch_lightning": "lightning_fabric", "lightning": "lightning.fabric"}


def _chosen() -> str:
    """The package to take.

    Raises:
        ImportError: none is installed, or the one that the variable names is none of them.
    """
    asked = os.environ.get(VARIABLE)
    if asked is not None and asked not in _MODULES:
        raise ImportError(f"{VARIABLE} is {asked!r}, and not one of {', '.join(_MODULES)}")
    imported = [package for package, module in _MODULES.items() if module in sys.modules]
    if len(imported) == 1:
        return imported[0]
    if asked is not None:
        return asked
    for package in imported or _MODULES:
        if importlib.util.find_spec(package) is not None:
            return package
    raise ImportError("neither pytorch-lightning nor lightning is installed: pip install lightning")


PACKAGE = _chosen()
#: The name of the module that is ``pl``, under which its loggers and classes are.
MODULE = _MODULES[PACKAGE]
#: The name of the package that it builds upon.
FABRIC = _FABRIC[PACKAGE]
_OTHER = next(module for module in _MODULES.values() if module != MODULE)
_is_programs_own = MODULE in sys.modules
_dtype = torch.get_default_dtype()

if TYPE_CHECKING:
    import pytorch_lightning as pl
    from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from lightning_fabric.utilities.exceptions import MisconfigurationException
else:
    pl = importlib.import_module(MODULE)
    _environments = importlib.import_module(f"{FABRIC}.plugins.environments")
    ClusterEnvironment = _environments.ClusterEnvironment
    LightningEnvironment = _environments.LightningEnvironment
    MisconfigurationException = pl.utilities.exceptions.MisconfigurationException

#: Whether its import has set another default dtype, of which weights would be.
SETS_DTYPE = torch.get_default_dtype() != _dtype
VERSION: str = vars(pl)["__version__"]  # As mypy sees it, Lightning does not export it.


def warn_of_the_other() -> None:
    """Warn if the program has imported the other package since, whose Trainer takes no trial."""
    if _OTHER in sys.modules and not _is_programs_own:
        logger.warning(
            f"det_compat runs on {MODULE}, and the program has imported {_OTHER}, whose Trainer "
            f"takes no module of {MODULE}: import {_OTHER} before det_compat, or set "
            f"{VARIABLE}={_OTHER.partition('.')[0]}"
        )

"""Run Determined AI's PyTorchTrial code on PyTorch Lightning.

``det_compat.pytorch`` has the names of ``determined.pytorch`` 0.38.1. ``to_lightning`` turns a
trial class into a LightningModule class. ``fit`` trains as an experiment config says, and returns
a ``Run``. ``alias_determined`` makes ``import determined`` find det_compat.

Importing this package has no side effects and imports neither torch nor Lightning: every name is
loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from det_compat.shared.lazy_names import lazy_names

if TYPE_CHECKING:
    from det_compat.adapters import TrialModule as TrialModule
    from det_compat.adapters import to_lightning as to_lightning
    from det_compat.alias import alias_determined as alias_determined
    from det_compat.api.fit import fit as fit
    from det_compat.api.run import Run as Run
    from det_compat.errors import InvalidHP as InvalidHP
    from det_compat.import_path import import_from_path as import_from_path
    from det_compat.info import get_cluster_info as get_cluster_info
    from det_compat.pytorch import PyTorchTrialContext

    TrialContext = PyTorchTrialContext

__version__ = "0.1.0"

#: Format of log lines on a Determined cluster, for ``logging.basicConfig(format=det.LOG_FORMAT)``.
LOG_FORMAT = "%(levelname)s: [%(process)s] %(name)s: %(message)s"

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "InvalidHP": "det_compat.errors",
        "Run": "det_compat.api.run",
        "TrialContext": "det_compat.pytorch:PyTorchTrialContext",
        "TrialModule": "det_compat.adapters",
        "alias_determined": "det_compat.alias",
        "fit": "det_compat.api.fit",
        "get_cluster_info": "det_compat.info",
        "import_from_path": "det_compat.import_path",
        "to_lightning": "det_compat.adapters",
    },
    own=("LOG_FORMAT", "__version__"),
)

"""Run Determined AI's PyTorchTrial code on PyTorch Lightning.

``det_compat.pytorch`` has the names of ``determined.pytorch`` 0.38.1. ``to_lightning`` turns a
trial class into a LightningModule class. ``alias_determined`` makes ``import determined`` find
det_compat.

Importing this package has no side effects and imports neither torch nor Lightning: every name is
loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from det_compat.adapters import TrialModule, to_lightning
    from det_compat.alias import alias_determined
    from det_compat.errors import InvalidHP
    from det_compat.import_path import import_from_path
    from det_compat.info import get_cluster_info
    from det_compat.pytorch import PyTorchTrialContext as TrialContext

__version__ = "0.1.0"

#: Format of log lines on a Determined cluster, for ``logging.basicConfig(format=det.LOG_FORMAT)``.
LOG_FORMAT = "%(levelname)s: [%(process)s] %(name)s: %(message)s"

_HOME = {
    "InvalidHP": "det_compat.errors:InvalidHP",
    "TrialContext": "det_compat.pytorch:PyTorchTrialContext",
    "TrialModule": "det_compat.adapters:TrialModule",
    "alias_determined": "det_compat.alias:alias_determined",
    "get_cluster_info": "det_compat.info:get_cluster_info",
    "import_from_path": "det_compat.import_path:import_from_path",
    "to_lightning": "det_compat.adapters:to_lightning",
}

__all__ = [
    "LOG_FORMAT",
    "InvalidHP",
    "TrialContext",
    "TrialModule",
    "__version__",
    "alias_determined",
    "get_cluster_info",
    "import_from_path",
    "to_lightning",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    from det_compat.shared.random_state import preserved_random_state

    with preserved_random_state():
        value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

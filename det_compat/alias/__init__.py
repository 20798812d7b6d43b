"""``import determined`` finds det_compat, or is told what to use instead.

The tables of ``det_compat.catalog`` say what goes where, what is refused, and what there ever was:
a name that det_compat does not have, and some release of Determined had, can be imported, and says
what to do instead when it is used. What no release had raises as it did under Determined.
"""

import importlib
import sys

from det_compat.alias.finder import DeterminedFinder, LeftOverFinder
from det_compat.alias.version import DETERMINED_VERSION
from det_compat.catalog.names import ALIASED

__all__ = ["DETERMINED_VERSION", "alias_determined"]


def alias_determined() -> None:
    """Make ``import determined`` find det_compat in this process, installed or not.

    So do ``import pedl``, Determined's name before its first release, and ``determined_common``,
    which came with the first ones. ``model_hub`` and the packages of Determined's command lines can
    be imported where they are not installed, and refuse what is asked of them.

    Call it before anything imports ``determined``; further calls do nothing. Modules are loaded
    when they are first used: ``import determined`` alone does not import torch. Names that
    det_compat does not have raise NotSupportedError at their first use, with what to use instead.

    Raises:
        RuntimeError: the real ``determined`` is imported already.
    """
    if any(isinstance(finder, DeterminedFinder) for finder in sys.meta_path):
        return
    # None stands for an import that was blocked.
    real = [name for name in sys.modules if _is_aliased(name) and sys.modules[name] is not None]
    if real:
        where = getattr(sys.modules[real[0]], "__file__", None) or "unknown file"
        raise RuntimeError(
            f"alias_determined() came too late: {real[0]} ({where}) is already imported, and its "
            "classes do not mix with det_compat's. Call det_compat.alias_determined() before the "
            "first import of determined, or run the script with `det-compat run SCRIPT`."
        )
    for package in ALIASED:
        sys.modules.pop(package, None)
    finder = DeterminedFinder()
    sys.meta_path.insert(0, finder)
    sys.meta_path.append(LeftOverFinder())
    sys.path_hooks.insert(0, finder.below)
    importlib.import_module("determined")


def _is_aliased(name: str) -> bool:
    return name.partition(".")[0] in ALIASED

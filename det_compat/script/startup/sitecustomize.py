"""Python runs this as it starts: ``import determined`` finds det_compat from then on.

The ``sitecustomize`` that this one hides runs after it.
"""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_CHECKOUT = os.path.abspath(os.path.join(_FOLDER, *[os.pardir] * 3))


def _alias() -> None:
    if not any(finder.find_spec("det_compat", None) for finder in sys.meta_path):
        if not os.path.isfile(os.path.join(_CHECKOUT, "pyproject.toml")):
            print(
                f"det-compat: {sys.executable} has no det_compat: what it runs does not find "
                "`determined` in det_compat. Start it by the Python that det-compat is "
                "installed for",
                file=sys.stderr,
            )
            return
        # This is a checkout that is not installed.
        sys.path.append(_CHECKOUT)
    from det_compat.alias import alias_determined

    alias_determined()


def _run_hidden() -> None:
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _FOLDER]
    found = PathFinder.find_spec("sitecustomize")
    if found is None or found.loader is None:
        return
    module = importlib.util.module_from_spec(found)
    sys.modules["sitecustomize"] = module
    found.loader.exec_module(module)


_alias()
_run_hidden()

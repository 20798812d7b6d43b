"""``import determined`` finds det_compat, or is told what to use instead.

The tables of ``det_compat.catalog.names`` say what goes where and what is refused. ``model_hub`` is
a package of its own and is not aliased: see MIGRATION.md#model_hub.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from det_compat.catalog.names import ALIASED, MODULES, SINGLE_NAMES, refusal

#: The version of Determined that the aliased ``determined.__version__`` tells.
DETERMINED_VERSION = "0.38.1"


def alias_determined() -> None:
    """Make ``import determined`` find det_compat in this process, installed or not.

    So does ``import pedl``, Determined's name before its first release; ``determined_common``,
    which came with the first ones, is refused.

    Call it before anything imports ``determined``; further calls do nothing. Modules are loaded
    when they are first used: ``import determined`` alone does not import torch. What det_compat
    does not have raises ImportError or AttributeError, with what to use instead.

    Raises:
        RuntimeError: the real ``determined`` is imported already.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    # None stands for an import that was blocked.
    real = [name for name in sys.modules if _is_determined(name) and sys.modules[name] is not None]
    if real:
        where = getattr(sys.modules[real[0]], "__file__", None) or "unknown file"
        raise RuntimeError(
            f"alias_determined() came too late: {real[0]} ({where}) is already imported, and its "
            "classes do not mix with det_compat's. Call det_compat.alias_determined() before the "
            "first import of determined, or run the script with `det-compat run SCRIPT`."
        )
    for package in ALIASED:
        sys.modules.pop(package, None)
    sys.meta_path.insert(0, _Finder())
    importlib.import_module("determined")


def _is_determined(name: str) -> bool:
    return name.partition(".")[0] in ALIASED


def _no_such_name(name: str) -> str:
    found = refusal(name)
    return f"det_compat has no {name}: {found.note}. See {found.link}."


class _DeterminedModule(ModuleType):
    """A module of ``determined`` whose names are looked up in det_compat on every access."""

    def __getattr__(self, name: str) -> Any:
        full_name = f"{self.__name__}.{name}"
        if full_name in MODULES:
            return importlib.import_module(full_name)
        if full_name in SINGLE_NAMES:
            home, _, attribute = SINGLE_NAMES[full_name].rpartition(".")
            return getattr(importlib.import_module(home), attribute)
        if name == "__all__":
            return _names_of(self.__name__)
        # The import system and inspect probe every module for dunder names.
        if not name.startswith("__") and name in _names_of(self.__name__):
            return getattr(_target(self.__name__), name)
        raise AttributeError(_no_such_name(full_name), name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_names_of(self.__name__)})


def _target(module: str) -> ModuleType | None:
    target = MODULES[module]
    return importlib.import_module(target) if target else None


def _names_of(module: str) -> list[str]:
    """The public names of an aliased module, those of its submodules included."""
    listed = [name.rpartition(".") for name in (*MODULES, *SINGLE_NAMES)]
    own = [name for parent, _, name in listed if parent == module and not name.startswith("_")]
    return sorted({*own, *_public_names(_target(module))})


def _public_names(module: ModuleType | None) -> list[str]:
    if module is None or hasattr(module, "__all__"):
        return getattr(module, "__all__", [])
    found = vars(module).items()
    return [name for name, value in found if getattr(value, "__module__", "") == module.__name__]


class _Finder:
    """Finds and loads the packages of ALIASED and everything below them, and nothing else.

    It does not derive from the classes of importlib.abc, which take longer to import than all else.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_determined(fullname):
            return None
        if fullname not in MODULES:
            # `from determined import NAME` would swallow a ModuleNotFoundError.
            raise ImportError(_no_such_name(fullname), name=fullname)
        # Every module is a package, so that Python asks here for its submodules as well.
        loader: Any = self
        return ModuleSpec(fullname, loader, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _DeterminedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        _target(module.__name__)

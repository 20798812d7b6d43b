"""A module of Determined's: its names are looked up in det_compat, then among what there was."""

import importlib
import sys
from collections import Counter
from types import ModuleType
from typing import Any

from det_compat.catalog.names import MODULES, SINGLE_NAMES, refusal_text
from det_compat.shared.importing import large_imports

_REPLACED = "__det_compat_replaced__"


def _package(module: str) -> str:
    return module.partition(".")[0]


# How many modules of a package have their names from one module of det_compat.
_USES = Counter((_package(name), home) for name, home in MODULES.items())


class DeterminedModule(ModuleType):
    """A module of ``determined`` whose names are looked up in det_compat on every access."""

    def __getattr__(self, name: str) -> Any:
        full_name = f"{self.__name__}.{name}"
        if full_name in MODULES and not self._hides(name):
            return importlib.import_module(full_name)
        if full_name in SINGLE_NAMES:
            home, _, attribute = SINGLE_NAMES[full_name].rpartition(".")
            return getattr(importlib.import_module(home), attribute)
        if name == "__all__":
            return names_of(self.__name__)
        # The import system and inspect probe every module for dunder names.
        if not name.startswith("__"):
            if name in names_of(self.__name__):
                return getattr(imported_target(self.__name__), name)
            if (target := self._counterpart(name)) is not None:
                return getattr(target, name)
            return self._left_over(full_name, name)
        raise AttributeError(refusal_text(full_name), name=name, obj=self)

    def _hides(self, name: str) -> bool:
        """Whether it has something else by the name of one of its modules, as packages may."""
        if f"{self.__name__}.{name}" in SINGLE_NAMES:
            return True
        target = sys.modules.get(MODULES.get(self.__name__) or "")
        return target is not None and not isinstance(vars(target).get(name, target), ModuleType)

    def _counterpart(self, name: str) -> ModuleType | None:
        """The module of det_compat that is this one's, if it has a global of that name.

        One that several share is that of its own name's only.
        """
        package, _, rest = self.__name__.partition(".")
        home = MODULES.get(self.__name__)
        if name.startswith("__") or home is None:
            return None
        if _USES[package, home] > 1 and home.partition(".")[2] != rest:
            return None
        target = sys.modules.get(home)
        if target is None or name not in vars(target):
            return None
        found = vars(target)[name]
        is_own = isinstance(found, ModuleType) and found.__name__.startswith("det_compat")
        return None if is_own else target

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system sets each module in the one above it, when it has loaded it.
        if isinstance(value, DeterminedModule) and self._hides(name):
            return
        # Who replaces a function of a module, in a test for example, means all that call it.
        target = None if isinstance(value, DeterminedModule) else self._counterpart(name)
        if target is None:
            super().__setattr__(name, value)
            return
        self.__dict__.setdefault(_REPLACED, {}).setdefault(name, getattr(target, name))
        setattr(target, name, value)

    def __delattr__(self, name: str) -> None:
        replaced = self.__dict__.get(_REPLACED, {})
        target = self._counterpart(name)
        if target is None or name not in replaced:
            super().__delattr__(name)
        else:
            setattr(target, name, replaced.pop(name))

    def _left_over(self, full_name: str, name: str) -> Any:
        """What stands for a name that det_compat does not have, and a release of Determined had."""
        from det_compat.alias.placeholders import placeholder
        from det_compat.catalog.releases import Kind, comes_with_determined, released

        found = released(full_name)
        if found is None or (
            found.origin == full_name
            and found.kind is Kind.MODULE
            and not comes_with_determined(full_name)
        ):
            raise AttributeError(refusal_text(full_name), name=name, obj=self)
        if found.kind is Kind.MODULE:
            return importlib.import_module(found.origin)
        return placeholder(full_name, found)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *names_of(self.__name__)})


def imported_target(module: str) -> ModuleType | None:
    """The module of det_compat that has the names of a module of Determined's; None if none has."""
    if target := MODULES.get(module):
        with large_imports(target):
            return importlib.import_module(target)
    return None


def names_of(module: str) -> list[str]:
    """The public names of an aliased module, those of its submodules included."""
    listed = [name.rpartition(".") for name in (*MODULES, *SINGLE_NAMES)]
    own = [name for parent, _, name in listed if parent == module and not name.startswith("_")]
    return sorted({*own, *_public_names(imported_target(module))})


def submodules(module: str) -> list[str]:
    """The modules just below a module, by their last names: those that are there, and were."""
    from det_compat.catalog import releases

    start = f"{module}."
    here = {name[len(start) :].partition(".")[0] for name in MODULES if name.startswith(start)}
    return sorted(here | set(releases.submodules(module)))


def is_package(module: str) -> bool:
    """Whether modules are below a module, here or in a release of Determined."""
    from det_compat.catalog.releases import may_be_a_package

    return bool(submodules(module)) or may_be_a_package(module)


def _public_names(module: ModuleType | None) -> list[str]:
    if module is None or hasattr(module, "__all__"):
        return getattr(module, "__all__", [])
    found = vars(module).items()
    return [name for name, value in found if getattr(value, "__module__", "") == module.__name__]

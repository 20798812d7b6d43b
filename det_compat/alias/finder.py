"""Finds and loads the packages of ALIASED, and nothing else.

The classes here do not derive from those of importlib.abc, which take longer to import than all
else.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from det_compat.alias.module import (
    DeterminedModule,
    imported_target,
    is_package,
    submodules,
)
from det_compat.catalog.names import ALIASED, MODULES, PACKAGES, refusal_text

if TYPE_CHECKING:
    from importlib.metadata import Distribution, DistributionFinder


class DeterminedFinder:
    """Answers for the packages that are aliased, before anything else is asked."""

    packages: Sequence[str] = ALIASED

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """How a module is loaded; None for those of other packages.

        Raises:
            ModuleNotFoundError: no release of Determined had it.
        """
        if fullname.partition(".")[0] not in self.packages:
            return None
        if fullname not in MODULES and not _was_there(fullname):
            # With its name in the error, `from determined import NAME` would swallow it.
            raise ModuleNotFoundError(refusal_text(fullname))
        loader: Any = _Loader(fullname)
        spec = ModuleSpec(fullname, loader, origin=loader.path)
        spec.has_location = True
        spec.cached = None
        if is_package(fullname):
            spec.submodule_search_locations = loader.locations()
        return spec

    def find_distributions(
        self, context: DistributionFinder.Context | None = None
    ) -> Iterable[Distribution]:
        """What ``importlib.metadata`` is told of ``determined``, as if it were installed."""
        if getattr(context, "name", None) != "determined":
            return ()
        from det_compat.alias.distribution import AliasedDistribution

        return (AliasedDistribution(),)

    def below(self, location: str) -> _Submodules:
        """What is below a package, for ``pkgutil``; a hook of ``sys.path_hooks``.

        Raises:
            ImportError: it is a place of something else.
        """
        # Every new entry of sys.path is shown to the hooks, and hardly any is spelled like this.
        if os.path.basename(location) == os.curdir:
            for name in MODULES:
                if submodules(name) and location in _locations(name):
                    return _Submodules(name)
        raise ImportError(location)


class LeftOverFinder(DeterminedFinder):
    """Answers for packages that came with Determined, where Python itself finds none."""

    packages = tuple(name for name in PACKAGES if name not in ALIASED)

    def find_distributions(
        self, context: DistributionFinder.Context | None = None
    ) -> Iterable[Distribution]:
        """None: they are not there."""
        return ()


def _was_there(module: str) -> bool:
    from det_compat.catalog.releases import is_module

    return is_module(module)


def _locations(module: str) -> list[str]:
    """The folder of a module of Determined's, spelled as no other import spells it."""
    path = _Loader(module).path
    is_package = os.path.basename(path) == "__init__.py"
    return [os.path.join(os.path.dirname(path), os.curdir)] if is_package else []


class _Loader:
    """Loads a module of Determined's; its source and resources are those of det_compat's module."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._target = MODULES.get(name) or ("det_compat" if name in MODULES else __package__)

    @property
    def path(self) -> str:
        """The file of the module of det_compat."""
        return str(self._spec().origin)

    def locations(self) -> list[str]:
        """The ``__path__`` of the package: where ``pkgutil`` looks."""
        return _locations(self._name) if self._name in MODULES else []

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return DeterminedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        imported_target(module.__name__)

    def get_code(self, fullname: str) -> CodeType | None:
        code: CodeType | None = self._loader().get_code(self._target)
        return code

    def get_source(self, fullname: str) -> str | None:
        source: str | None = self._loader().get_source(self._target)
        return source

    def get_filename(self, fullname: str) -> str:
        return self.path

    def is_package(self, fullname: str) -> bool:
        return is_package(fullname)

    def get_data(self, path: str) -> bytes:
        data: bytes = self._loader().get_data(path)
        return data

    def get_resource_reader(self, fullname: str) -> Any:
        return self._loader().get_resource_reader(self._target)

    def _loader(self) -> Any:
        return self._spec().loader

    def _spec(self) -> ModuleSpec:
        spec = importlib.util.find_spec(self._target)
        assert spec is not None
        return spec


class _Submodules:
    """The importer of a package's ``__path__``, as ``pkgutil`` asks for it."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        return DeterminedFinder().find_spec(fullname, None)

    def iter_modules(self, prefix: str = "") -> Iterator[tuple[str, bool]]:
        for name in submodules(self._package):
            yield f"{prefix}{name}", is_package(f"{self._package}.{name}")

"""Packages whose public names are loaded when they are first used.

Importing such a package costs nothing, and imports neither torch nor Lightning. For type checkers
the package imports its names under ``TYPE_CHECKING``, each ``as`` itself.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], own: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of ``package``.

    Args:
        package: the package's ``__name__``.
        homes: by public name, the module that has it, with a ``:NAME`` where it differs there.
        own: the public names that the package defines itself.
    """
    names = sorted({*homes, *own})

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from det_compat.shared.importing import large_imports

        module, _, attribute = homes[name].partition(":")
        with large_imports(module):
            value = getattr(importlib.import_module(module), attribute or name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return load, listed, names

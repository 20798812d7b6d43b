"""What ``det-compat run`` runs: found, read and described as ``python`` would."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from types import CodeType
from typing import Any, NamedTuple

#: The module that runs the program once more, in a process that the program starts.
RERUN = "det_compat.script.rerun"


class Program(NamedTuple):
    """A path, or a module with ``-m``, ready to be executed.

    Attributes:
        name: what finds the program again from another working directory.
        is_module: whether that is the name of a module.
        argv0: ``sys.argv[0]``.
        first_path: ``sys.path[0]``.
        package: ``__package__``.
        found: what the import system says of the program.
        code: the code of ``__main__``.
    """

    name: str
    is_module: bool
    argv0: str
    first_path: str
    package: str | None
    found: ModuleSpec
    code: CodeType

    @property
    def file(self) -> str:
        """``__file__``."""
        return self.found.origin or self.found.name

    def spec(self) -> ModuleSpec:
        """The ``__spec__`` of ``__main__``."""
        return _MainSpec(self)


class _MainSpec(ModuleSpec):
    """Names RERUN; relative imports follow the program's own package all the same."""

    def __init__(self, program: Program) -> None:
        super().__init__(RERUN, program.found.loader, origin=program.file)
        self._package = program.package

    @property
    def parent(self) -> str:
        return self._package or ""


def load_path(path: str) -> Program:
    """The script at ``path``, or the ``__main__.py`` in that directory or zip file.

    Raises:
        OSError: the file cannot be read.
        SystemExit: there is no ``__main__.py``.
        SyntaxError: the script cannot be compiled.
    """
    # Any `..` stays, as with Python.
    file = os.path.join(os.getcwd(), path)
    importer = pkgutil.get_importer(file)
    if importer is not None:
        return _load_folder(path, file, importer)
    loader = (SourcelessFileLoader if file.endswith(".pyc") else SourceFileLoader)(RERUN, file)
    found = ModuleSpec("__main__", loader, origin=file)
    folder = os.path.dirname(os.path.realpath(path))
    return Program(file, False, path, folder, None, found, _compile(loader, file))


def _compile(loader: SourceFileLoader | SourcelessFileLoader, file: str) -> CodeType:
    if isinstance(loader, SourceFileLoader):
        # The loader's get_code() would write a __pycache__.
        code: CodeType = loader.source_to_code(loader.get_data(file), file)
        return code
    return _not_none(loader.get_code(RERUN), file)


def _load_folder(path: str, folder: str, importer: Any) -> Program:
    found = importer.find_spec("__main__")
    if found is None:
        sys.exit(f"det-compat: can't find '__main__' module in {path!r}")
    code = _not_none(found.loader.get_code("__main__"), found.origin)
    return Program(folder, False, path, folder, "", found, code)


def load_module(name: str) -> Program:
    """The module ``name``, or the ``__main__`` in the package of that name.

    Raises:
        SystemExit: there is no such module, or it has no code.
    """
    found = _find_module(name)
    loader: Any = found.loader
    code = _not_none(loader.get_code(found.name), found.name)
    file = found.origin or found.name
    return Program(found.name, True, file, os.getcwd(), found.parent, found, code)


def _find_module(name: str) -> ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None:
        sys.exit(f"det-compat: no module named {name}")
    if spec.submodule_search_locations is not None:
        return _find_module(f"{name}.__main__")
    return spec


def _not_none(code: CodeType | None, where: str) -> CodeType:
    if code is None:
        sys.exit(f"det-compat: there is no Python code in {where}")
    return code

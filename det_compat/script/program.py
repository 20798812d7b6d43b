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

    ``name`` finds it again from another working directory, ``first_path`` is its ``sys.path[0]``.
    """

    name: str
    is_module: bool
    argv0: str
    first_path: str
    package: str | None
    loader: Any
    file: str
    cached: str | None
    code: CodeType

    def spec(self) -> ModuleSpec:
        """The ``__spec__`` of ``__main__``."""
        return _MainSpec(self)


class _MainSpec(ModuleSpec):
    """Names RERUN; relative imports follow the program's own package all the same."""

    def __init__(self, program: Program) -> None:
        super().__init__(RERUN, program.loader, origin=program.file)
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
    # as Python does it: any `..` stays
    file = os.path.join(os.getcwd(), path)
    importer = pkgutil.get_importer(file)
    if importer is not None:
        return _load_folder(path, file, importer)
    loader = _file_loader(file)
    return Program(
        name=file,
        is_module=False,
        argv0=path,
        first_path=os.path.dirname(os.path.realpath(path)),
        package=None,
        loader=loader,
        file=file,
        cached=None,
        code=_compile(loader, file),
    )


def _file_loader(file: str) -> SourceFileLoader | SourcelessFileLoader:
    kind = SourcelessFileLoader if file.endswith(".pyc") else SourceFileLoader
    return kind(RERUN, file)


def _compile(loader: SourceFileLoader | SourcelessFileLoader, file: str) -> CodeType:
    if isinstance(loader, SourceFileLoader):
        # get_code() would write a __pycache__
        code: CodeType = loader.source_to_code(loader.get_data(file), file)
        return code
    return _not_none(loader.get_code(RERUN), file)


def _load_folder(path: str, folder: str, importer: Any) -> Program:
    spec = importer.find_spec("__main__")
    if spec is None:
        sys.exit(f"det-compat: can't find '__main__' module in {path!r}")
    return Program(
        name=folder,
        is_module=False,
        argv0=path,
        first_path=folder,
        package="",
        loader=spec.loader,
        file=spec.origin,
        cached=spec.cached,
        code=_not_none(spec.loader.get_code("__main__"), spec.origin),
    )


def load_module(name: str) -> Program:
    """The module ``name``, or the ``__main__`` in the package of that name.

    Raises:
        SystemExit: there is no such module, or it has no code.
    """
    spec = _find_module(name)
    loader: Any = spec.loader
    file = spec.origin or spec.name
    return Program(
        name=spec.name,
        is_module=True,
        argv0=file,
        first_path=os.getcwd(),
        package=spec.parent,
        loader=loader,
        file=file,
        cached=spec.cached,
        code=_not_none(loader.get_code(spec.name), spec.name),
    )


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

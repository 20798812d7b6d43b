"""Importing the user's code by its name, as ``package.module:Name``, or by its file."""

import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


class NoSuchName(ImportError):
    """There is no module of that name, or nothing of that name in it."""


def imported(path: str) -> Any:
    """The object that ``path`` names, as ``package.module:Name`` or ``package.module:Name.inner``.

    Errors of the module's own code, in its imports for example, are raised as they are.

    Raises:
        NoSuchName: there is no such module, or the module has no such name.
    """
    name, _, attribute = path.partition(":")
    try:
        found: Any = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise NoSuchName(f"there is no module {error.name}", name=error.name) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise NoSuchName(f"{name} has no {attribute}")
        found = getattr(found, part)
    return found


def imported_class(path: str) -> type:
    """The trial class that ``package.module.MyTrial`` names, as checkpoints keep it.

    Raises:
        TypeError: it cannot be imported.
    """
    try:
        found: type = pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise TypeError(
            f"cannot import the trial class {path!r} ({error}); expected 'package.module.MyTrial', "
            "importable from here"
        ) from error
    return found


def class_in_file(text: str) -> tuple[Path, str]:
    """The file and the class that ``FILE.py:Class`` names; nothing is imported.

    Raises:
        ValueError: it is written otherwise, or there is no such file.
    """
    file, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise ValueError(f"expected FILE.py:Class, got {text!r}")
    if not Path(file).is_file():
        raise ValueError(f"there is no file {file}")
    return Path(file), name


def load_file(path: Path) -> ModuleType:
    """The module in a file, imported under the name that it has in its package.

    Raises:
        ImportError: it cannot be loaded.
    """
    path = path.resolve()
    root, names = path.parent, [path.stem]
    while (root / "__init__.py").exists():
        names.insert(0, root.name)
        root = root.parent
    sys.path.insert(0, str(root))
    name = ".".join(names)
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    for package in range(1, len(names)):
        importlib.import_module(".".join(names[:package]))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module

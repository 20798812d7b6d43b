"""Importing what is large, and the user's code by its name, as ``package.module:Name``, or file."""

import contextlib
import gc
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from det_compat.shared.own_process import process_is_ours
from det_compat.shared.random_state import preserved_random_state
from det_compat.shared.spelling import did_you_mean

# How many times the collector looks at younger objects between two looks at all of them.
_SELDOM = 1000
_thresholds = gc.get_threshold()
_is_frozen = False


@contextlib.contextmanager
def large_imports(module: str, *, before_users: bool = False) -> Iterator[None]:
    """Import ``module`` in the block, with no random number drawn, and without collecting garbage.

    torch and Lightning make half a million objects that stay. The garbage collector looked at them
    over and over again while there came more, and took them apart at the end, which was a third of
    the seconds of a short run. The block runs no code of users.

    Args:
        module: its name; once it is there, nothing is done.
        before_users: nor has any run before in this process, if it was started for det_compat: the
            collector never looks at what there is then.
    """
    if module in sys.modules:
        yield
        return
    global _is_frozen
    collects, was_frozen = gc.isenabled(), something_is_frozen()
    gc.disable()
    try:
        with preserved_random_state():
            yield
    finally:
        if not was_frozen:
            # Everything becomes old without having been looked at once, and is seldom looked at.
            gc.freeze()
            _is_frozen = before_users and process_is_ours()
            if not _is_frozen:
                gc.unfreeze()
        if collects:
            gc.enable()


def something_is_frozen() -> bool:
    """Whether there are objects that the collector never looks at.

    Python counts them one by one, which takes longer the more there are: once is enough.
    """
    global _is_frozen
    _is_frozen = _is_frozen or gc.get_freeze_count() > 0
    return _is_frozen


def collect_old_objects_seldom() -> None:
    """Have the collector look at old objects seldom, while a script imports.

    This ends with ``collect_as_usual``, at the latest when a training begins.
    """
    gc.set_threshold(*_thresholds[:2], _SELDOM)


def collect_as_usual() -> None:
    """End what ``collect_old_objects_seldom`` has begun, unless the script has changed it."""
    if gc.get_threshold() == (*_thresholds[:2], _SELDOM):
        gc.set_threshold(*_thresholds)


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
            classes = [one for one, value in vars(found).items() if isinstance(value, type)]
            raise NoSuchName(f"{name} has no {attribute}{did_you_mean(part, classes)}")
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


def has_entry(folder: Path) -> bool:
    """Whether a folder has an ``__init__.py`` that says something."""
    file = folder / "__init__.py"
    return file.is_file() and bool(file.read_text("utf-8", errors="replace").strip())


def load_package(folder: Path) -> ModuleType:
    """The package in a folder, whose modules may import each other with its name or without.

    It has the name of its folder. The folder goes to the front of ``sys.path``, as where a trial
    starts in it, and the folder above to the end.

    Raises:
        ImportError: it cannot be loaded.
    """
    folder = folder.resolve()
    file, name = folder / "__init__.py", _package_name(folder)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return known
    if known is not None:
        name = f"{name}_entry"
    for index, path in ((0, folder), (len(sys.path), folder.parent)):
        if str(path) not in sys.path:
            sys.path.insert(index, str(path))
    return _load_package_as(name, folder)


def load_file(path: Path) -> ModuleType:
    """The module in a file, imported under the name that it has in its package.

    Raises:
        ImportError: it cannot be loaded.
    """
    path = path.resolve()
    root, names = path.parent, [path.stem]
    while (root / "__init__.py").exists():
        names.insert(0, _package_name(root))
        root = root.parent
    sys.path.insert(0, str(root))
    name = ".".join(names)
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    folders = [*reversed(path.parents[: len(names) - 1])]
    for package, folder in enumerate(folders, start=1):
        _import_package(".".join(names[:package]), folder)
    return _executed(spec)


def _package_name(folder: Path) -> str:
    """The name of the package in a folder: a dot in it would stand for one package in another."""
    return folder.name.replace(".", "_")


def _import_package(name: str, folder: Path) -> None:
    """Import a package; one of PEDL's imports its own modules as if they were at the top."""
    try:
        _load_or_import(name, folder)
    except ModuleNotFoundError as error:
        if error.name is None or not (folder / f"{error.name}.py").is_file():
            raise
        sys.path.insert(0, str(folder))
        _load_or_import(name, folder)


def _load_or_import(name: str, folder: Path) -> None:
    if name in sys.modules or _package_name(folder) == folder.name:
        importlib.import_module(name)
        return
    _load_package_as(name, folder)


def _load_package_as(name: str, folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    return _executed(spec)


def _executed(spec: ModuleSpec) -> ModuleType:
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module

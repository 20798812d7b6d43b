"""The modules of a user's folder, as a process has them that was started for that folder."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType


@contextlib.contextmanager
def code_of(folder: Path) -> Iterator[None]:
    """Let imports find the modules of ``folder`` first, and forget them at the end.

    Another folder's module of the same name is out of the way meanwhile: a program that trains two
    projects, each with a ``model_def.py``, would else train the first one twice. Modules that were
    imported from ``folder`` before stay as they are.

    Args:
        folder: the folder of the code, which is put at the beginning of ``sys.path``.
    """
    folder = folder.resolve()
    hidden = _taken_from_elsewhere(folder)
    before = {*sys.modules}
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for name in [*sys.modules]:
            if name not in before and _is_from(sys.modules[name], folder):
                del sys.modules[name]
        sys.modules.update(hidden)
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


def _taken_from_elsewhere(folder: Path) -> dict[str, ModuleType]:
    """Take modules out of ``sys.modules`` whose names are those of code in ``folder``."""
    names = {path.stem for path in folder.glob("*.py")}
    names |= {path.parent.name for path in folder.glob("*/__init__.py")}
    # What Python itself has imported stays what it is in a process of its own, too.
    names -= {*sys.stdlib_module_names, "det_compat", "determined", "__main__", "__init__"}
    taken = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in names
        and not _is_from(sys.modules.get(name.partition(".")[0]), folder)
    }
    for name in taken:
        del sys.modules[name]
    return taken


def _is_from(module: ModuleType | None, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    paths = [file] if isinstance(file, str) else [*getattr(module, "__path__", ())]
    return any(folder in Path(path).resolve().parents for path in map(str, paths))

"""``det.import_from_path``: import code from a directory, such as a checkpoint's."""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType

__all__ = ["import_from_path"]

# The program itself is not reloaded, whatever directory it was started from.
_KEPT = ("__main__", "__mp_main__", "det_compat")

_active = False


@contextlib.contextmanager
def import_from_path(path: str | os.PathLike[str]) -> Iterator[None]:
    """Import modules from the directory ``path`` inside the block, and forget them after it.

    Modules that the script imported from its working directory do not count inside the block, so
    that the directory's ``model_def.py`` can be imported beside the script's own. Nothing is
    written into the directory: no ``__pycache__``. As in Determined 0.38.1, blocks do not nest.

    Raises:
        RuntimeError: another block is active in this process.
    """
    global _active
    if _active:
        raise RuntimeError(
            "import_from_path() is active already in this process: leave the first block before "
            "entering another; threads share it"
        )
    directory = os.path.abspath(path)
    before = sys.path, sys.dont_write_bytecode
    hidden = _hide_working_directory()
    sys.path = [directory, *filter(None, sys.path)]
    sys.dont_write_bytecode = _active = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        _active = False
        sys.path, sys.dont_write_bytecode = before
        _forget(directory)
        sys.modules.update(hidden)


def _hide_working_directory() -> dict[str, ModuleType]:
    here = os.getcwd()
    return _forget(here) if "" in sys.path or here in sys.path else {}


def _forget(directory: str) -> dict[str, ModuleType]:
    """Take out of ``sys.modules`` what was imported from ``directory``, submodules included."""
    found = {name for name, module in sys.modules.items() if _folder(module) == directory}
    return {
        name: sys.modules.pop(name)
        for name in list(sys.modules)
        if _top(name) not in _KEPT and (name in found or _top(name) in found)
    }


def _top(name: str) -> str:
    return name.partition(".")[0]


def _folder(module: ModuleType | None) -> str | None:
    """The ``sys.path`` entry that a top-level module was found in."""
    # Lazy modules answer getattr() with imports, and torch.classes answers it with anything.
    names = getattr(module, "__dict__", {})
    packages = list(names.get("__path__") or ())
    file = packages[0] if packages else names.get("__file__")
    return os.path.dirname(os.path.abspath(file)) if isinstance(file, str) else None

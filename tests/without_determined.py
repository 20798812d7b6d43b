"""Takes the real determined out of a test process, where other tests may have imported it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

_NAMES = ("determined", "determined_common", "pedl", "model_hub")


def _of_determined() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in _NAMES]


@contextlib.contextmanager
def without_determined() -> Iterator[None]:
    """Inside the block `determined` is not imported; after it everything is as before."""
    hidden = {name: sys.modules.pop(name) for name in _of_determined()}
    finders = list(sys.meta_path)
    try:
        yield
    finally:
        for name in _of_determined():
            del sys.modules[name]
        sys.modules.update(hidden)
        sys.meta_path[:] = finders

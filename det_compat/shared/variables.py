"""Environment variables that are set for a while."""

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def preserved_variables(*names: str) -> Iterator[None]:
    """Put back variables of the environment at the end, whatever the block has made of them."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

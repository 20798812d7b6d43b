"""Environment variables that are set for a while."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_CHECKOUT = str(Path(__file__).resolve().parents[2])


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


def python_path() -> dict[str, str]:
    """The variable with which other processes find this package."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, [_CHECKOUT, os.getenv("PYTHONPATH")]))}

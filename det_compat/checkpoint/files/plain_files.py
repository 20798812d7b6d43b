"""The small files of a checkpoint: JSON, and pickles of nothing but plain values."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

from det_compat.checkpoint.files.pickle_globals import UNLOADABLE, UNREADABLE, globals_in_pickle
from det_compat.errors import (
    CorruptCheckpointError,
    InvalidCheckpointException,
    UnsafeCheckpointError,
)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        CorruptCheckpointError: it is no JSON, is cut off, or holds something else.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpointError(
            f"{path} is corrupt or cut off: it is no JSON ({error})"
        ) from error
    if not isinstance(content, dict):
        raise CorruptCheckpointError(
            f"{path} holds {type(content).__name__} where a JSON object is expected"
        )
    return content


def read_pickle(path: Path, *, trust: bool = False) -> Any:
    """The plain value in a pickle file; nothing in it is run.

    Args:
        path: the file.
        trust: load whatever is in it, which may run code.

    Raises:
        CorruptCheckpointError: it is no pickle, or is cut off.
        UnsafeCheckpointError: it asks for functions or classes.
    """
    data = path.read_bytes()
    try:
        asked = globals_in_pickle(io.BytesIO(data))
    except UNREADABLE as error:
        raise _corrupt(path, error) from error
    if asked and not trust:
        raise UnsafeCheckpointError(path, map(str, asked))
    try:
        return pickle.loads(data) if trust else _PlainUnpickler(io.BytesIO(data)).load()
    except UNLOADABLE as error:
        if isinstance(error, AttributeError) and trust:
            raise _missing(path, error) from error
        raise _corrupt(path, error) from error
    except ImportError as error:
        raise _missing(path, error) from error


class _PlainUnpickler(pickle.Unpickler):
    """Reads plain values, whatever the scan may have missed."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _corrupt(path: Path, error: Exception) -> CorruptCheckpointError:
    return CorruptCheckpointError(f"{path} is corrupt or cut off: {error}")


def _missing(path: Path, error: Exception) -> InvalidCheckpointException:
    return InvalidCheckpointException(f"{path} needs code that cannot be imported here: {error}")

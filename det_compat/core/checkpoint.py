"""Where checkpoints lie."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

logger = logging.getLogger("determined.core")


class CheckpointContext:
    """A directory with one sub-directory a checkpoint, named by a UUID.

    Without ``base_path`` it is the directory in which Determined 0.38.1 keeps the checkpoints of
    local training: ``determined`` in the user's data directory.
    """

    def __init__(self, base_path: str | os.PathLike[str] | None = None) -> None:
        self.base_path = Path(base_path) if base_path is not None else _default_base_path()

    @contextlib.contextmanager
    def store_path(self, metadata: dict[str, Any]) -> Iterator[tuple[Path, str]]:
        """Yield a new checkpoint's directory and UUID, then write ``metadata.json`` into it.

        A directory without ``metadata.json`` is a checkpoint that was not finished.
        """
        storage_id = str(uuid.uuid4())
        path = self.base_path / storage_id
        path.mkdir(parents=True)
        yield path, storage_id
        with (path / "metadata.json").open("w") as file:
            json.dump(metadata, file, indent=2)
        logger.info(f"saved checkpoint {path}")

    def find(self, storage_id: str) -> Path:
        """The directory of a checkpoint, given its UUID or a path.

        Raises:
            FileNotFoundError: neither is there.
        """
        candidates = [Path(storage_id), self.base_path / storage_id]
        for candidate in candidates:
            if candidate.is_dir():
                return candidate
        raise FileNotFoundError(
            f"found no checkpoint {storage_id!r}: neither {candidates[0].absolute()} nor "
            f"{candidates[1]} is a directory"
        )


def _default_base_path() -> Path:
    if sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Application Support"
    else:
        root = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return root / "determined"

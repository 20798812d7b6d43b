"""A filesystem of fsspec that outlives the process, and fails or waits where a test wants it to."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem


class NotAnOSError(Exception):
    """As the HTTP libraries of object stores have them."""


class DiskFileSystem(LocalFileSystem):
    """``disk://`` URLs: no local path to this package, though the files are on this machine."""

    protocol = "disk"
    cachable = False

    def __init__(self, fails_at: str = "", truncates: str = "", delay: float = 0, **kwargs: Any):
        super().__init__(auto_mkdir=True, **kwargs)
        self.fails_at = fails_at
        self.truncates = truncates
        self.delay = delay

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return LocalFileSystem._strip_protocol(str(path).removeprefix("disk://"))

    def unstrip_protocol(self, name: str) -> str:
        return f"disk://{name}"

    def put_file(self, lpath: str, rpath: str, **kwargs: Any) -> None:
        time.sleep(self.delay)
        random.random()  # as a request does that is tried again
        if self.fails_at and self.fails_at in rpath:
            raise NotAnOSError(f"503 for {rpath}")
        # As in an object store, nobody sees a part of an object.
        super().put_file(lpath, f"{rpath}.part", **kwargs)
        os.replace(f"{rpath}.part", rpath)
        if self.truncates and self.truncates in rpath:
            Path(rpath).write_bytes(b"")

    def get_file(self, rpath: str, lpath: str, **kwargs: Any) -> None:
        super().get_file(rpath, lpath, **kwargs)
        if self.truncates and self.truncates in rpath:
            Path(lpath).write_bytes(b"")


def register() -> None:
    """Let fsspec know ``disk://``."""
    fsspec.register_implementation("disk", DiskFileSystem, clobber=True)

"""Writing a file so that it is there as a whole, or as it was before."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from det_compat.core.durable import replace_durably


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write in the block, which takes the place of ``path`` when the block ends.

    Until then, and if the block or the writing fails, what was at ``path`` stays. The content is
    on the disk before it takes the place. Folders above it are made.

    Raises:
        OSError: the file cannot be written; the error names ``path``.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    with _naming(path):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        target.parent.mkdir(parents=True, exist_ok=True)
        raw = open(temporary, "xb")  # noqa: SIM115
    try:
        with _naming(path, own_only=True), raw:
            file = _Remembering(raw)
            with file.raising_what_failed():
                yield file  # type: ignore[misc]
            raw.flush()
            os.fsync(raw.fileno())
        with _naming(path):
            replace_durably(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class _Remembering:
    """A file that remembers an error in writing, which torch.save replaces by one of its own."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return self._raw.write(data)
        except OSError as error:
            self._error = error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    @contextlib.contextmanager
    def raising_what_failed(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError:
            if self._error is None:
                raise
            raise self._error from None


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str], *, own_only: bool = False) -> Iterator[None]:
    """Errors of the operating system in the block name ``path``; or those that name no file."""
    try:
        yield
    except OSError as error:
        if own_only and error.filename is not None:
            raise
        raise OSError(error.errno, f"cannot write: {error.strerror}", os.fspath(path)) from error

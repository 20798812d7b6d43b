"""Files that survive a crash: they are on the disk before anything says that they are there."""

import contextlib
import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

# Some network filesystems say this when a directory is to be flushed.
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP}


def sync(path: Path) -> None:
    """Flush a file; or the entries of a directory: names that were added, changed or removed."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Flush every file and directory below ``root``, and ``root`` itself, to the disk."""
    for folder, _, files in os.walk(root):
        for name in files:
            path = Path(folder, name)
            if path.is_file():  # Sockets, pipes and dangling links cannot be opened.
                sync(path)
        sync(Path(folder))


def replace_durably(source: Path, target: Path) -> None:
    """Rename ``source`` to ``target``, in the same directory; a crash leaves one or the other."""
    os.replace(source, target)
    sync(target.parent)


def write_durably(path: Path, content: str, *, temporary: Path) -> None:
    """Write a file that is never seen half written: first ``temporary``, in the same directory."""
    with temporary.open("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    replace_durably(temporary, path)


def append_line(path: Path, line: str) -> None:
    """Add a line to a file of lines, which is made if it is not there.

    A line that a kill or a full disk has cut off is ended first: this one stays whole.

    Raises:
        OSError: it cannot be written; the error names ``path``.
    """
    with naming(path, own_only=True), path.open("a+b") as file:
        whole = True
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            whole = file.read(1) == b"\n"
        file.write(f"{line}\n".encode() if whole else f"\n{line}\n".encode())


def refuse_to_overwrite(targets: Iterable[Path], *, force: bool) -> None:
    """Raise FileExistsError if one of ``targets`` is there and is not to be replaced."""
    for target in targets:
        if target.exists() and not force:
            raise FileExistsError(
                errno.EEXIST, "it exists already; --force (force=True) replaces it", str(target)
            )


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for the block to write, which replaces ``path`` when the block ends.

    Until then, and if the block or the writing fails, what was at ``path`` stays. The content is
    on the disk before it takes the name. The folders of ``path`` are made.

    Raises:
        OSError: the file cannot be written; the error names ``path``.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    with naming(path):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        target.parent.mkdir(parents=True, exist_ok=True)
        raw = open(temporary, "xb")  # noqa: SIM115 (the file is closed below)
    try:
        with naming(path, own_only=True), raw:
            file = _Remembering(raw)
            with file.raising_what_failed():
                yield file  # type: ignore[misc]  # It has the methods of a BinaryIO by delegation.
            raw.flush()
            os.fsync(raw.fileno())
        with naming(path):
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
def naming(path: str | os.PathLike[str], *, own_only: bool = False) -> Iterator[None]:
    """Let errors of the operating system name ``path``, or only those that name no file yet.

    A full disk is told by the write, or even as the file is closed, and names none by itself.
    """
    try:
        yield
    except OSError as error:
        if own_only and error.filename is not None:
            raise
        raise OSError(error.errno, f"cannot write: {error.strerror}", os.fspath(path)) from error

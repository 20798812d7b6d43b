"""Files that survive a crash: on the disk before anything says that they are there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

# what some network filesystems say of a directory
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP}


def sync_tree(root: Path) -> None:
    """Flush every file and directory below ``root``, and ``root`` itself, to the disk."""
    for folder, _, files in os.walk(root):
        for name in files:
            path = Path(folder, name)
            if path.is_file():  # no socket, pipe or dangling link, which cannot be opened
                _sync(path)
        _sync(Path(folder))


def sync_directory(path: Path) -> None:
    """Flush the entries of a directory: names that were added, changed or removed."""
    _sync(path)


def replace_durably(source: Path, target: Path) -> None:
    """Rename ``source`` to ``target``, in the same directory; a crash leaves one or the other."""
    os.replace(source, target)
    _sync(target.parent)


def write_durably(path: Path, content: str, *, temporary: Path) -> None:
    """Write a file that is never seen half written: first ``temporary``, in the same directory."""
    with temporary.open("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    replace_durably(temporary, path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)

"""The code of trials on its way to the machines of a cluster.

Ray's own way, ``working_dir``, leaves processes on the disk of a host without their directory when
another machine of the cluster comes up there: in Ray 2.60, raylets of one host unpack it in one
place, each anew.
"""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from det_compat.search.errors import SearchError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# What says of a folder what is left out of it; the second one was read by Ray.
_IGNORE_FILES = (".gitignore", ".rayignore")
_MOST_BYTES = 500 * 2**20


def packed(folder: Path, excluded: Sequence[str]) -> bytes:
    """The files in ``folder``, but for what is ignored there, as a zip archive.

    Args:
        folder: with code.
        excluded: what is left out, too, in the syntax of ``.gitignore``.

    Raises:
        SearchError: they are more than 500 MB, or one of them cannot be read.
    """
    from pathspec import GitIgnoreSpec

    archive = io.BytesIO()
    files = _files(folder, [(folder, GitIgnoreSpec.from_lines(excluded))])
    try:
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as made:
            _write(folder, files, made)
    except OSError as error:
        raise _cannot_be_sent(folder, str(error)) from error
    return archive.getvalue()


def _write(folder: Path, files: Iterator[Path], archive: zipfile.ZipFile) -> None:
    total = 0
    for file in files:
        total += file.stat().st_size
        if total > _MOST_BYTES:
            raise _cannot_be_sent(folder, f"it is more than {_MOST_BYTES // 2**20} MB")
        archive.write(file, file.relative_to(folder))


def _cannot_be_sent(folder: Path, why: str) -> SearchError:
    return SearchError(
        f"the code in {folder} cannot be sent to the cluster: {why}. Keep what is no code in "
        "another folder, or name it in a file .gitignore"
    )


def _files(folder: Path, rules: list[tuple[Path, GitIgnoreSpec]]) -> Iterator[Path]:
    from pathspec import GitIgnoreSpec

    found = [folder / name for name in _IGNORE_FILES]
    texts = [file.read_text("utf-8", errors="replace") for file in found if file.is_file()]
    rules = [*rules, *((folder, GitIgnoreSpec.from_lines(text.splitlines())) for text in texts)]
    for path in sorted(folder.iterdir()):
        if _is_ignored(path, rules) or _leads_up(path):
            continue
        if path.is_dir():
            yield from _files(path, rules)
        elif path.is_file():
            yield path


def _leads_up(path: Path) -> bool:
    """Whether ``path`` is a link to a folder that it is in, which there is no end of."""
    return path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve())


def _is_ignored(path: Path, rules: list[tuple[Path, GitIgnoreSpec]]) -> bool:
    """Whether the last rule that is about ``path`` leaves it out."""
    end = "/" if path.is_dir() else ""
    for base, spec in reversed(rules):
        if (told := spec.check_file(f"{path.relative_to(base)}{end}").include) is not None:
            return told
    return False


def unpack(archive: bytes, folder: Path) -> None:
    """Unpack what ``packed`` has made, and have this process and its children work in it."""
    with zipfile.ZipFile(io.BytesIO(archive)) as read:
        for one in read.infolist():
            Path(read.extract(one, folder)).chmod(one.external_attr >> 16)
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    paths = [str(folder), *filter(None, [os.getenv("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)

"""The files below the paths that were given."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: Directories of tools and of other people's code.
SKIPPED = frozenset(
    {
        ".eggs",
        ".git",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
        "site-packages",
        "venv",
    }
)
SUFFIXES = (".py", ".ipynb", ".yaml", ".yml")


@dataclass
class Listing:
    """Files to read with the root they were found under, and what was left out."""

    files: list[tuple[Path, Path]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[tuple[Path, str]] = field(default_factory=list)


def list_files(paths: Sequence[str]) -> Listing:
    """Every Python file, notebook and YAML file below ``paths``, each once, in order.

    A file that is named itself is read whatever its suffix.
    """
    listing = Listing()
    seen: set[tuple[int, int]] = set()
    for path in map(Path, paths):
        if path.is_dir():
            _list_directory(path, listing, seen)
        elif path.is_file():
            _list_file(path, path.parent, listing, seen)
        else:
            what = "not a file or directory" if path.exists() else "there is no such path"
            listing.problems.append((path, what))
    return listing


def _list_directory(root: Path, listing: Listing, seen: set[tuple[int, int]]) -> None:
    def unlistable(error: OSError) -> None:
        listing.problems.append((Path(error.filename), error.strerror or "cannot be listed"))

    for folder, names, files in os.walk(root, onerror=unlistable):
        names[:] = sorted(_entered(Path(folder), names, listing))
        for name in sorted(files):
            if name.endswith(SUFFIXES):
                _list_file(Path(folder, name), root, listing, seen)


def _entered(folder: Path, names: list[str], listing: Listing) -> Iterator[str]:
    for name in names:
        if name in SKIPPED:
            listing.skipped[name] += 1
        elif (folder / name / "pyvenv.cfg").exists():
            listing.skipped["virtual environment"] += 1
        elif (folder / name).is_symlink():
            # what it leads to is either in the tree already or none of its
            listing.skipped["link to a directory"] += 1
        else:
            yield name


def _list_file(path: Path, root: Path, listing: Listing, seen: set[tuple[int, int]]) -> None:
    try:
        status = path.stat()
    except OSError as error:
        listing.problems.append((path, error.strerror or "cannot be read"))
        return
    if not path.is_file():
        listing.problems.append((path, "not a regular file"))
    elif (status.st_dev, status.st_ino) not in seen:
        seen.add((status.st_dev, status.st_ino))
        listing.files.append((path, root))

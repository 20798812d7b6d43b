"""The files below the paths that were given."""

from __future__ import annotations

import os
import re
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
# of which a directory that has a folder of code is a checkpoint
_CHECKPOINT = ("metadata.json", "state_dict.pth", "checkpoint.pt", "load_data.json")
# what `det-compat fit` and `search` write; in it is the config once more
_RUN = "det_compat_run.json"
_SUFFIXES = (".py", ".ipynb", ".yaml", ".yml")
_SCRIPT_SUFFIXES = (".bash", ".dockerfile", ".sbatch", ".sh", ".slurm")
_SCRIPT_NAMES = re.compile(r"(?:.*\.)?(?:Dockerfile|Containerfile|Makefile|GNUmakefile)(?:\..*)?")

_SHELL = re.compile(rb"#!.*\b(?:ba|da|k|z)?sh\b")


@dataclass
class Listing:
    """Files to read with the root they were found under, and what was left out."""

    files: list[tuple[Path, Path]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    links: list[Path] = field(default_factory=list)
    problems: list[tuple[Path, str]] = field(default_factory=list)


def list_files(paths: Sequence[str], *, follow_links: bool = False) -> Listing:
    """Every Python file, notebook, YAML file and script below ``paths``, each once, in order.

    A file that is named itself is read whatever its suffix. ``follow_links`` is for links to
    directories that lead out of the tree; others would be read twice.
    """
    listing = Listing()
    seen: set[tuple[int, int]] = set()
    for path in map(Path, paths):
        if path.is_dir():
            _list_directory(path, path, listing, seen)
            _follow_links(path, listing, seen if follow_links else None)
        elif path.is_file():
            _list_file(path, path.parent, listing, seen)
        else:
            what = "not a file or directory" if path.exists() else "there is no such path"
            listing.problems.append((path, what))
    return listing


def _follow_links(root: Path, listing: Listing, seen: set[tuple[int, int]] | None) -> None:
    inside = [root.resolve()]
    while listing.links:
        link = listing.links.pop(0)
        target = link.resolve()
        known = any(_is_below(target, folder) or _is_below(folder, target) for folder in inside)
        if known or seen is None:
            listing.skipped["link to a directory"] += 1
        else:
            inside.append(target)
            _list_directory(link, root, listing, seen)


def _is_below(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _list_directory(top: Path, root: Path, listing: Listing, seen: set[tuple[int, int]]) -> None:
    def unlistable(error: OSError) -> None:
        listing.problems.append((Path(error.filename), error.strerror or "cannot be listed"))

    for folder, names, files in os.walk(top, onerror=unlistable):
        names[:] = sorted(_entered(Path(folder), names, listing))
        for name in sorted(files):
            path = Path(folder, name)
            if name.endswith(_SUFFIXES) or is_script(path) or b"python" in interpreter(path):
                _list_file(path, root, listing, seen)


def _entered(folder: Path, names: list[str], listing: Listing) -> Iterator[str]:
    for name in names:
        if name in SKIPPED:
            listing.skipped[name] += 1
        elif (folder / name / "pyvenv.cfg").exists():
            listing.skipped["virtual environment"] += 1
        elif (folder / name / _RUN).exists():
            listing.skipped["results of a run"] += 1
        elif name == "code" and any((folder / file).exists() for file in _CHECKPOINT):
            listing.skipped["code of a checkpoint"] += 1
        elif (folder / name).is_symlink():
            listing.links.append(folder / name)
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


def is_script(path: Path) -> bool:
    """Whether a file runs commands: by its name or, if that has no suffix, by its first line."""
    if path.suffix in _SCRIPT_SUFFIXES or _SCRIPT_NAMES.fullmatch(path.name):
        return True
    return _SHELL.match(interpreter(path)) is not None


def interpreter(path: Path) -> bytes:
    """The ``#!`` line of a file without a suffix; empty if it has none."""
    if path.suffix or not path.is_file():
        return b""
    try:
        with path.open("rb") as file:
            start = file.read(128)
    except OSError:
        return b""
    return start.partition(b"\n")[0] if start.startswith(b"#!") else b""

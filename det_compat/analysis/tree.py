"""Lists the files below the paths that a user gave: code, configs and scripts."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from det_compat.analysis.expressions import words

#: Directories that hold the files of tools, or other people's code.
SKIPPED = words(
    ".eggs .git .hg .ipynb_checkpoints .mypy_cache .nox .pytest_cache .ruff_cache .svn .tox .venv "
    "__pycache__ node_modules site-packages venv"
)
# A folder named code that lies beside one of these files belongs to a checkpoint.
_CHECKPOINT = ("metadata.json", "state_dict.pth", "checkpoint.pt", "load_data.json")
# `det-compat fit` and `search` write this file, beside a copy of the config.
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
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def add_directory(self, top: Path, root: Path) -> None:
        """Add the files below ``top``."""

        def unlistable(error: OSError) -> None:
            self.problems.append((Path(error.filename), error.strerror or "cannot be listed"))

        for folder, names, files in os.walk(top, onerror=unlistable):
            names[:] = sorted(self._entered(Path(folder), names))
            for name in sorted(files):
                path = Path(folder, name)
                if name.endswith(_SUFFIXES) or is_script(path) or b"python" in interpreter(path):
                    self.add_file(path, root)

    def _entered(self, folder: Path, names: list[str]) -> Iterator[str]:
        for name in names:
            if name in SKIPPED:
                self.skipped[name] += 1
            elif (folder / name / "pyvenv.cfg").exists():
                self.skipped["virtual environment"] += 1
            elif (folder / name / _RUN).exists():
                self.skipped["results of a run"] += 1
            elif name == "code" and any((folder / file).exists() for file in _CHECKPOINT):
                self.skipped["code of a checkpoint"] += 1
            elif (folder / name).is_symlink():
                self.links.append(folder / name)
            else:
                yield name

    def add_file(self, path: Path, root: Path) -> None:
        """Add a file, if it is not there under another name."""
        try:
            status = path.stat()
        except OSError as error:
            self.problems.append((path, error.strerror or "cannot be read"))
            return
        if not path.is_file():
            self.problems.append((path, "not a regular file"))
        elif (status.st_dev, status.st_ino) not in self._seen:
            self._seen.add((status.st_dev, status.st_ino))
            self.files.append((path, root))

    def settle_links(self, root: Path, *, follow: bool) -> None:
        """Go to the directories that links below ``root`` lead to, if they lead out of it."""
        inside = [root.resolve()]
        while self.links:
            link = self.links.pop(0)
            target = link.resolve()
            known = any(_is_below(target, folder) or _is_below(folder, target) for folder in inside)
            if known or not follow:
                self.skipped["link to a directory"] += 1
            else:
                inside.append(target)
                self.add_directory(link, root)


def list_files(paths: Sequence[str], *, follow_links: bool = False) -> Listing:
    """Every Python file, notebook, YAML file and script below ``paths``, each once, in order.

    A file that is named itself is read whatever its suffix. ``follow_links`` is for links to
    directories that lead out of the tree; others would be read twice.
    """
    listing = Listing()
    for path in map(Path, paths):
        if path.is_dir():
            listing.add_directory(path, path)
            listing.settle_links(path, follow=follow_links)
        elif path.is_file():
            listing.add_file(path, path.parent)
        else:
            what = "not a file or directory" if path.exists() else "there is no such path"
            listing.problems.append((path, what))
    return listing


def _is_below(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


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

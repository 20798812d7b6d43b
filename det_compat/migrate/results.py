"""What a migration came to, file by file."""

import difflib
from dataclasses import dataclass, field
from pathlib import Path

from det_compat.migrate.tree.marks import count


@dataclass(frozen=True)
class FileResult:
    """One file: its text before and after, and why it stayed as it was.

    ``trials`` are the names of the trial classes that were rewritten. ``traceback`` is there if
    the problem is a bug of det_compat's.
    """

    path: Path
    before: bytes
    after: bytes
    problem: str = ""
    trials: tuple[str, ...] = ()
    traceback: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to write."""
        return not self.problem and self.before != self.after

    @property
    def marks(self) -> int:
        """How many places are left to the reader, those of an earlier run included."""
        return count(self.after.decode(errors="replace"))

    def diff(self) -> str:
        """The change as a unified diff."""
        before, after = (
            text.decode(errors="replace").splitlines(keepends=True)
            for text in (self.before, self.after)
        )
        name = str(self.path).lstrip("/")
        old = f"a/{name}" if self.before else "/dev/null"
        lines = difflib.unified_diff(before, after, old, f"b/{name}")
        return "".join(line if line.endswith("\n") else f"{line}\n{_NO_END}" for line in lines)


#: What tells ``patch`` and ``git apply`` that the line above ends without a newline.
_NO_END = "\\ No newline at end of file\n"


@dataclass
class Migration:
    """All files that were read.

    ``notebooks`` refer to Determined and are not rewritten. ``left_out`` are files that nobody
    named and that refer to Determined, each with what they have to do with those that were.
    ``set_aside`` are files in which there is nothing to migrate, although they are not as others,
    with the reason. ``copies`` is how many folders of a notebook server's copies were not read.
    ``companions`` change although nobody named them, each with the file that they belong with.
    ``folders`` are the paths that were given, and the folder of its project for each file.
    """

    files: list[FileResult] = field(default_factory=list)
    notebooks: list[Path] = field(default_factory=list)
    left_out: dict[Path, str] = field(default_factory=dict)
    set_aside: dict[Path, str] = field(default_factory=dict)
    copies: int = 0
    companions: dict[Path, Path] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    @property
    def changed(self) -> list[FileResult]:
        """The files to write."""
        return [file for file in self.files if file.is_changed]

    @property
    def failed(self) -> list[FileResult]:
        """The files that stay as they are because something went wrong."""
        return [file for file in self.files if file.problem]

    @property
    def marks(self) -> int:
        """The places that are left to the reader."""
        return sum(file.marks for file in self.files)

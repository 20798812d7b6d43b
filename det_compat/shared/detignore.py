"""``.detignore`` files, which say what of a folder is not copied."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path


def ignored_by(file: Path, always: Iterable[str] = ()) -> Callable[[str], bool]:
    """Whether a ``.detignore``, which is written as a ``.gitignore``, excludes a relative path.

    Paths of folders end with a slash. As of Determined 0.38.1, only the file in the directory
    itself counts. Lines of ``always`` come before those of the file; one that is no pattern, as a
    lone ``!`` is none, excludes nothing.
    """
    from pathspec import GitIgnoreSpec

    try:
        lines = file.read_text("utf-8-sig", errors="replace").splitlines()
    except OSError:
        lines = []
    return GitIgnoreSpec.from_lines(filter(_is_pattern, (*always, *lines))).match_file


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):  # ... or a set such as [z-a]
        return False
    return True

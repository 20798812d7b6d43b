"""``.detignore`` files, which say what of a folder is not copied."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path


def ignored_by(file: Path, always: Iterable[str] = ()) -> Callable[[str], bool]:
    """Whether a ``.detignore``, which is written as a ``.gitignore``, excludes a relative path.

    Paths of folders end with a slash. As of Determined 0.38.1, only the file in the directory
    itself counts. Lines of ``always`` come before those of the file.
    """
    try:
        lines = file.read_text("utf-8-sig", errors="replace").splitlines()
    except OSError:
        lines = []
    rules = [rule for rule in map(_rule, (*always, *lines)) if rule is not None]

    def is_ignored(path: str) -> bool:
        is_folder, name = path.endswith("/"), path.rstrip("/")
        verdicts = [
            excludes
            for pattern, only_folders, excludes in rules
            if is_folder >= only_folders and pattern.fullmatch(name)
        ]
        return bool(verdicts) and verdicts[-1]

    return is_ignored


def _rule(line: str) -> tuple[re.Pattern[str], bool, bool] | None:
    """A line's pattern, whether it is for folders only, and whether it excludes; None for none."""
    line = line.rstrip()
    excludes = not line.startswith("!")
    line = line.removeprefix("!")
    if not line.strip("/") or line.startswith("#"):
        return None
    only_folders, line = line.endswith("/"), line.rstrip("/")
    start = "" if "/" in line else "(?:.*/)?"
    glob = "".join(map(_regular, _TOKEN.findall(line.removeprefix("/"))))
    try:
        return re.compile(start + glob), only_folders, excludes
    except re.error:
        return None  # It is a set such as [z-a], which git takes for no name's either.


_TOKEN = re.compile(r"\*{2,}/|\*+|\[!?\]?(?:\\.|[^]\\])*\]|\\.|.")
_WILD = {"*": "[^/]*", "?": "[^/]"}


def _regular(token: str) -> str:
    """The regular expression of a part of a glob."""
    if token in _WILD:
        return _WILD[token]
    if token.startswith("**"):
        return "(?:.*/)?" if token.endswith("/") else ".*"
    if len(token) > 2:
        # In a set of Python, these are operators.
        members = re.sub(r"[\[&|~]|--", r"\\\g<0>", token[1:-1])
        return f"[^{members[1:]}]" if members.startswith("!") else f"[{members}]"
    return re.escape(token.removeprefix("\\") or token)

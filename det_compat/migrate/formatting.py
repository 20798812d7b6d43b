"""Migrated files as the formatter of their project writes them: ruff or black, where it is set."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from det_compat.migrate.results import FileResult

#: The command of each formatter, which reads a file from standard input, given its path.
_COMMANDS = {
    "ruff": ("ruff", "format", "--no-cache", "--stdin-filename", "{0}", "-"),
    "black": ("black", "--quiet", "--stdin-filename", "{0}", "-"),
}
_SECONDS = 30
_TOOL = re.compile(r"^\[tool\.(black|ruff)\b", re.MULTILINE)


def formatted(result: FileResult) -> FileResult:
    """The file in the format of its project, if it had that before, and the formatter is there."""
    tool = _formatter(result.path.absolute().parent) if result.is_changed else None
    # A file that the formatter never saw would change as a whole.
    if tool is None or _run(tool, result.path, result.before) != result.before:
        return result
    after = _run(tool, result.path, result.after)
    return result if after is None else replace(result, after=after)


@lru_cache(maxsize=1000)
def _formatter(folder: Path) -> str | None:
    """The formatter that the configuration nearest above a folder names, if it is installed."""
    for each in (folder, *folder.parents):
        for tool in _configured(each):
            return tool if shutil.which(tool) else None
        if (each / ".git").exists():
            return None
    return None


def _configured(folder: Path) -> Iterator[str]:
    if any((folder / name).is_file() for name in ("ruff.toml", ".ruff.toml")):
        yield "ruff"
    try:
        tools = _TOOL.findall((folder / "pyproject.toml").read_text(errors="replace"))
    except OSError:
        return
    # Who has both formats with black, and has ruff for the rest, unless it says how to format.
    yield from (tool for tool in ("black", "ruff") if tool in tools)


def _run(tool: str, path: Path, text: bytes) -> bytes | None:
    """The text as the formatter writes it; None if it fails."""
    command = [part.format(path) for part in _COMMANDS[tool]]
    try:
        done = subprocess.run(command, input=text, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None

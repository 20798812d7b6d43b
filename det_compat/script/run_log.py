"""``log.txt`` in a run's folder: what the run has printed, as ``det trial logs`` had it."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

LOG = "log.txt"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@contextlib.contextmanager
def run_logged(folder: Path) -> Iterator[None]:
    """Copy what this process prints into the folder of a run, which is there.

    It is ``print`` and the like that is copied; what compiled code and other processes write is
    not. Of a bar that is drawn again and again only the last state is kept. A log that cannot be
    written ends no run, and one that this process writes to anyway, as in a search, has all of it.
    """
    if _is_output(folder / LOG):
        yield
        return
    try:
        file = (folder / LOG).open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
    except OSError:
        yield
        return
    copies = {name: _Copied(getattr(sys, name), file) for name in ("stdout", "stderr")}
    for name, copy in copies.items():
        setattr(sys, name, copy)
    try:
        yield
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=file)
        raise
    except Exception:
        # Python shows it on its way out, when nothing is copied any more.
        with contextlib.suppress(OSError):
            traceback.print_exc(file=file)
        raise
    finally:
        for name, copy in copies.items():
            copy.close_log()
            if getattr(sys, name) is copy:
                setattr(sys, name, copy.stream)
        with contextlib.suppress(OSError):
            file.close()


def _is_output(file: Path) -> bool:
    """Whether the system writes what this process prints into ``file``."""
    try:
        return os.path.samestat(os.fstat(1), file.stat())
    except OSError:
        return False


class _Copied:
    """A stream whose lines go into a file, too; it is the stream in all else."""

    def __init__(self, stream: TextIO, file: TextIO) -> None:
        self.stream = stream
        self._file: TextIO | None = file
        self._line = ""

    def write(self, text: str) -> int:
        written = self.stream.write(text)
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._keep(line + "\n")
        self._line = self._line.rpartition("\r")[2]  # what stands before it was drawn over
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def close_log(self) -> None:
        """Keep the last line; what is written later goes to the stream alone."""
        if self._line:
            self._keep(self._line + "\n")
        self._file = None

    def _keep(self, line: str) -> None:
        if self._file is None:
            return
        try:
            shown = line.removesuffix("\n").removesuffix("\r").rpartition("\r")[2]
            self._file.write(_CONTROL.sub("", shown) + "\n")
        except (OSError, ValueError):
            self._file = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.stream)

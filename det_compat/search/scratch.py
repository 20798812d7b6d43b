"""A folder of this machine that goes with the process that has made it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

# What the process has started may write for a moment after its end.
_DELETE = 'exec 3<&0; { cat <&3; rm -rf -- "$1"; sleep 5; rm -rf -- "$1"; } &'


class Scratch:
    """A new folder, which is deleted when this process closes it, or is gone, however it ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="det-compat-search-"))
        # Ray 2.60 kills the children of a process that it ends: the shell leaves a child of its
        # own, which waits for the end of this pipe.
        self._shell = subprocess.Popen(
            ["sh", "-c", _DELETE, "sh", str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._shell.wait()

    def close(self) -> None:
        """Delete it."""
        shutil.rmtree(self.path, ignore_errors=True)
        assert self._shell.stdin is not None
        self._shell.stdin.close()

"""What the commands that write have in common."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path


def refuse_to_overwrite(targets: Iterable[Path], *, force: bool) -> None:
    """Raise FileExistsError if one of ``targets`` is there and is not to be replaced."""
    for target in targets:
        if target.exists() and not force:
            raise FileExistsError(
                errno.EEXIST, "it exists already; --force (force=True) replaces it", str(target)
            )

"""Disks that are soon full, for those who may mount them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """Have ``folder``, which is made, be a disk of its own of so many kilobytes."""
    folder.mkdir()
    _mount(folder, "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def make_room(folder: Path) -> None:
    """Have the disk of ``small_disk`` be large enough."""
    _mount(folder, "-o", "remount,size=500m")


def _mount(folder: Path, *words: str) -> None:
    subprocess.run(["mount", *words, folder], check=True)

"""``determined.tensorboard.util``: names of TensorBoard files that several ranks write."""

from __future__ import annotations

import re
from pathlib import Path

# In the order in which they are tried: what follows the host's name.
_EXTENSIONS = (
    ".input_pipeline.pb",
    ".memory_profile.json.gz",
    ".tensorflow_stats.pb",
    ".xplane.pb",
    ".kernel_stats.pb",
    ".overview_page.pb",
    ".trace.json.gz",
    ".trace.json",
)
_KINDS = (
    "*tfevents*",
    "*.trace.json.gz",
    "*.trace.json",
    "*.memory_profile.json.gz",
    "*.pb",
)
# A file of PyTorch's profiler: its worker, and perhaps the time of its span.
_OF_PYTORCH = re.compile(r"(?P<worker>.*?)(?P<span>\.\d+)?(?P<end>\.pt\.trace\.json(\.gz)?)")


def find_tb_files(base_dir: Path) -> list[Path]:
    """The files below a directory that TensorBoard shows, by their names."""
    return [file for kind in _KINDS for file in base_dir.rglob(kind)]


def get_rank_aware_path(path: Path, rank: int) -> Path:
    """The path of a profiler's file, with ``#RANK`` after the worker that its name begins with.

    Other paths are returned as they are.
    """
    if of_pytorch := _OF_PYTORCH.fullmatch(path.name):
        found = of_pytorch.groupdict()
        return path.with_name(f"{found['worker']}#{rank}{found['span'] or ''}{found['end']}")
    for extension in _EXTENSIONS:
        if path.name.endswith(extension) and path.name != extension:
            return path.with_name(f"{path.name.removesuffix(extension)}#{rank}{extension}")
    return path

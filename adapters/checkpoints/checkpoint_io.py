"""Checkpoints of Determined where Lightning takes its own, and files that run no code."""

import os
import posixpath
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from det_compat.adapters.lightning.package import pl
from det_compat.checkpoint.files.torch_file import load_torch_file
from det_compat.checkpoint.layouts import READERS
from det_compat.checkpoint.lightning import lightning_content, to_lightning_checkpoint
from det_compat.checkpoint.reader import CONTINUATION, read_checkpoint
from det_compat.shared.durable_files import atomic_write

_Path = str | Path


class DeterminedCheckpointIO(pl.plugins.TorchCheckpointIO):
    """Loads Determined's checkpoint directories as well as Lightning's files, and runs no code.

    ``pl.Trainer(plugins=[DeterminedCheckpointIO()])`` lets ``trainer.fit(module, ckpt_path=DIR)``
    take a checkpoint directory of Determined or det_compat, on a disk or at any URL that fsspec
    reaches. A file on a disk is written as a whole or not at all.

    Args:
        trust: load files that ask for code to run.
    """

    def __init__(self, trust: bool = False) -> None:
        super().__init__()
        self._trust = trust
        #: It is called with the path of the next file that is written on a disk, when all is there.
        self.on_written: Callable[[Path], None] | None = None

    def load_checkpoint(
        self,
        path: _Path,
        map_location: Callable[..., Any] | None = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """A Lightning checkpoint, of the file or the Determined directory at ``path``.

        Tensors are on the CPU unless ``map_location`` says otherwise. ``weights_only=False`` trusts
        the checkpoint.

        Raises:
            CorruptCheckpointError: a file is there and cannot be read.
            FileNotFoundError: nothing is there.
            InvalidCheckpointException: it is no checkpoint.
            UnsafeCheckpointError: a file asks for code to run.
        """
        trust = self._trust or weights_only is False
        kwargs: dict[str, Any] = {"trust": trust, "map_location": map_location or "cpu"}
        filesystem, name = url_to_fs(os.fspath(path))
        if not filesystem.exists(name):
            raise FileNotFoundError(f"no checkpoint at {path}: nothing is there")
        if not filesystem.isdir(name):
            with filesystem.open(name, "rb") as file:
                return lightning_content(path, load_torch_file(path, file=file, **kwargs))
        if isinstance(filesystem, LocalFileSystem):
            return to_lightning_checkpoint(read_checkpoint(name, **kwargs))
        with tempfile.TemporaryDirectory() as folder:
            _fetch(filesystem, name, Path(folder))
            return to_lightning_checkpoint(read_checkpoint(folder, **kwargs))

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: _Path, storage_options: Any | None = None
    ) -> None:
        """Write ``checkpoint``; on a disk what was at ``path`` stays until all is written.

        Raises:
            OSError: it cannot be written; the error names ``path``.
            TypeError: ``storage_options`` is given.
        """
        filesystem, name = url_to_fs(os.fspath(path))
        if storage_options is not None or not isinstance(filesystem, LocalFileSystem):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        with atomic_write(name) as file:
            torch.save(checkpoint, file)
        written, self.on_written = self.on_written, None
        if written is not None:
            written(Path(name))


def _fetch(filesystem: Any, source: str, folder: Path) -> None:
    """Copy what is read of a checkpoint; not its code."""
    for name in {reader.file for reader in READERS} | {CONTINUATION}:
        remote = posixpath.join(source, name)
        if filesystem.exists(remote):
            target = folder / name
            target.parent.mkdir(exist_ok=True)
            filesystem.get_file(remote, str(target))

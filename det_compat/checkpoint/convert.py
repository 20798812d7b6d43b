"""Turning a Determined checkpoint directory into a Lightning checkpoint file."""

from __future__ import annotations

from pathlib import Path

import torch

from det_compat.checkpoint.atomic import atomic_write
from det_compat.checkpoint.lightning import to_lightning_checkpoint
from det_compat.checkpoint.output import refuse_to_overwrite
from det_compat.checkpoint.reader import read_checkpoint


def convert(source: Path, target: Path, *, trust: bool = False, force: bool = False) -> None:
    """Write the Lightning checkpoint ``target`` from the directory ``source``.

    Neither the trial's code nor a GPU is needed. ``target`` is there as a whole or not at all.

    Args:
        source: a directory that ``read_checkpoint`` reads.
        target: the file.
        trust: as for ``read_checkpoint``.
        force: replace a ``target`` that is there.

    Raises:
        FileExistsError: ``target`` is there already.
        OSError: it cannot be written.
        CorruptCheckpointError, InvalidCheckpointException, UnsafeCheckpointError: as for
            ``read_checkpoint``.
    """
    refuse_to_overwrite([target], force=force)
    checkpoint = to_lightning_checkpoint(read_checkpoint(source, trust=trust))
    with atomic_write(target) as file:
        torch.save(checkpoint, file)

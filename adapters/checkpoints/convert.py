"""Turning a Determined checkpoint directory into a Lightning checkpoint file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from det_compat.checkpoint.atomic import atomic_write
from det_compat.checkpoint.lightning import in_torch_types, to_lightning_checkpoint
from det_compat.checkpoint.output import refuse_to_overwrite
from det_compat.checkpoint.reader import read_checkpoint


def convert(
    source: Path,
    target: Path,
    *,
    module: tuple[Path, str] | None = None,
    hparams: Mapping[str, Any] | None = None,
    trust: bool = False,
    force: bool = False,
) -> None:
    """Write the Lightning checkpoint ``target`` from the directory ``source``.

    Neither the trial's code nor a GPU is needed. ``target`` is there as a whole or not at all.
    Without ``module`` it is for the module that ``to_lightning`` makes of the trial.

    Args:
        source: a directory that ``read_checkpoint`` reads.
        target: the file.
        module: the file and class of a migrated LightningModule that is to load it.
        hparams: with ``module``: hyperparameters beside those of the checkpoint.
        trust: as for ``read_checkpoint``.
        force: replace a ``target`` that is there.

    Raises:
        FileExistsError: ``target`` is there already.
        OSError: it cannot be written.
        TypeError, ValueError: ``module`` is no LightningModule in a Python file.
        CorruptCheckpointError, InvalidCheckpointException, UnsafeCheckpointError: as for
            ``read_checkpoint``.
    """
    refuse_to_overwrite([target], force=force)
    original = read_checkpoint(source, trust=trust)
    checkpoint = to_lightning_checkpoint(original)
    if module is not None:
        from det_compat.adapters.checkpoints.migrated_checkpoint import for_module

        schedulers = original.state.get("lr_schedulers_state_dict") or []
        states = [in_torch_types(one) for one in schedulers]
        checkpoint = for_module(checkpoint, *module, states, hparams)
    with atomic_write(target) as file:
        torch.save(checkpoint, file)

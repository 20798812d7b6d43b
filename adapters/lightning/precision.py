"""Mixed precision, which either the trial or the Trainer sets up."""

from __future__ import annotations

import pytorch_lightning as pl

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.context.steering import Steering


def reconcile_precision(trainer: pl.Trainer, steering: Steering) -> None:
    """Let the trial use the Trainer's gradient scaler, if there is one, and no other Trainer's.

    Raises:
        InvalidExperimentException: trial and Trainer both set up precision.
    """
    asked = steering.mixed_precision_call
    if asked is None:
        steering.adopt_scaler(trainer.scaler)
    elif trainer.precision != "32-true":
        raise InvalidExperimentException(
            f"the trial sets up mixed precision itself ({asked}) and the Trainer has precision="
            f"{trainer.precision!r}: remove one of them"
        )

"""Mixed precision, which either the trial or the Trainer sets up."""

from __future__ import annotations

import pytorch_lightning as pl

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.context.trial_context import PyTorchTrialContext


def reconcile_precision(trainer: pl.Trainer, context: PyTorchTrialContext) -> None:
    """Let the trial use the Trainer's gradient scaler, if there is one, and no other Trainer's.

    Raises:
        InvalidExperimentException: trial and Trainer both set up precision.
    """
    asked = asked_by_trial(context)
    if asked is None:
        context.adopt_scaler(trainer.scaler)
    elif trainer.precision != "32-true":
        raise InvalidExperimentException(
            f"the trial sets up mixed precision itself ({asked}) and the Trainer has precision="
            f"{trainer.precision!r}: remove one of them"
        )


def asked_by_trial(context: PyTorchTrialContext) -> str | None:
    """How the trial has set up mixed precision itself; None if it has not."""
    if context._scaler_is_adopted:
        return None
    if context._apex_opt_level is not None:
        return f"context.configure_apex_amp(opt_level={context._apex_opt_level!r})"
    if context.experimental._auto_amp:
        return "context.experimental.use_amp()"
    if context._scaler is not None:
        return "context.wrap_scaler(...)"
    return None

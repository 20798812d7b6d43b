"""How far a trial has come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class TrialState:
    """Counters of a run, named as in Determined's ``trial_state.pkl``; all but ids in batches."""

    trial_id: int = 0
    last_ckpt: int = 0
    step_id: int = 0
    last_val: int = 0
    batches_trained: int = 0
    epochs_trained: int = 0

"""What a process of a trial was told of its task, as a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class EnvContext:
    """The record, as Determined 0.38.1 has it, for code that builds one in its tests."""

    master_url: str
    master_cert_file: str | None
    master_cert_name: str | None
    experiment_config: dict[str, Any] = field(repr=False)
    hparams: dict[str, Any]
    latest_checkpoint: str | None
    steps_completed: int
    use_gpu: bool
    container_gpus: list[str]
    slot_ids: list[int]
    debug: bool
    det_trial_id: str
    det_experiment_id: str
    det_agent_id: str
    det_cluster_id: str
    trial_seed: int
    trial_run_id: int
    allocation_id: str
    managed_training: bool
    test_mode: bool
    on_cluster: bool

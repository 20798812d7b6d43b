"""What ``det.get_cluster_info()`` returned on a Determined cluster; det_compat never runs on one.

The classes are there for annotations and for code that builds one in its own tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["ClusterInfo", "RendezvousInfo", "ResourcesInfo", "TrialInfo", "get_cluster_info"]


@dataclass
class TrialInfo:
    """The trial of a task, by the ids that the cluster gave it."""

    trial_id: int
    experiment_id: int
    trial_seed: int
    hparams: dict[str, Any]


@dataclass
class RendezvousInfo:
    """The containers of a task, ordered by rank."""

    container_addrs: list[str]
    container_rank: int
    container_slot_counts: list[int]


@dataclass
class ResourcesInfo:
    """The GPUs of a container."""

    gpu_uuids: list[str]


@dataclass
class ClusterInfo:
    """The task that a container of a Determined cluster ran."""

    master_url: str
    cluster_id: str
    agent_id: str
    slot_ids: list[int]
    task_id: str
    allocation_id: str
    session_token: str
    task_type: str
    master_cert_name: str | None = None
    master_cert_file: str | None = None
    latest_checkpoint: str | None = None
    trial_info: TrialInfo | None = None
    rendezvous_info: RendezvousInfo | None = None
    resources_info: ResourcesInfo | None = None
    user_data: dict[str, Any] = field(default_factory=dict)

    @property
    def trial(self) -> TrialInfo:
        """The trial of this task.

        Raises:
            RuntimeError: the task is no trial.
        """
        if self.trial_info is None:
            raise RuntimeError(f"a task of type {self.task_type!r} without trial_info has no trial")
        return self.trial_info

    @property
    def container_addrs(self) -> list[str]:
        """Addresses of the task's containers, ordered by rank."""
        return self.rendezvous_info.container_addrs if self.rendezvous_info else ["127.0.0.1"]

    @property
    def container_rank(self) -> int:
        """Rank of this container."""
        return self.rendezvous_info.container_rank if self.rendezvous_info else 0

    @property
    def container_slot_counts(self) -> list[int]:
        """Number of slots in each container, ordered by rank."""
        if self.rendezvous_info is None:
            return [len(self.slot_ids)]
        return self.rendezvous_info.container_slot_counts

    @property
    def gpu_uuids(self) -> list[str]:
        """The GPUs of this container."""
        return self.resources_info.gpu_uuids if self.resources_info else []


def get_cluster_info() -> ClusterInfo | None:
    """None: what Determined 0.38.1 returns where no cluster runs the script."""
    return None

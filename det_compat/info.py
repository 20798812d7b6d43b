"""What ``det.get_cluster_info()`` returned on a Determined cluster.

There is one where ``det-compat fit`` has started the script. Otherwise the classes are there for
annotations and for code that builds one in its own tests.
"""

from dataclasses import dataclass, field
from typing import Any

from det_compat.script.task import current_task

__all__ = ["ClusterInfo", "RendezvousInfo", "ResourcesInfo", "TrialInfo", "get_cluster_info"]


@dataclass
class TrialInfo:
    """The trial of a task, by the ids that the cluster gave it."""

    trial_id: int
    experiment_id: int
    trial_seed: int
    hparams: dict[str, Any]
    _config: dict[str, Any] = field(default_factory=dict, repr=False)
    _steps_completed: int = 0
    _debug: bool = False


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
    """The task that ``det-compat fit`` has started, None elsewhere, as off a cluster.

    There is no master: its URL, the token and the cluster's ids are empty or 0.
    """
    task = current_task()
    if task is None:
        return None
    trial = TrialInfo(
        trial_id=0,
        experiment_id=0,
        trial_seed=task.trial_seed,
        hparams=task.hparams,
        _config=task.config,
        _steps_completed=task.steps_completed,
        _debug=bool(task.config.get("debug")),
    )
    return ClusterInfo(
        master_url="",
        cluster_id="",
        agent_id="",
        slot_ids=list(range(task.slots)),
        task_id="",
        allocation_id="",
        session_token="",
        task_type="TRIAL",
        latest_checkpoint=task.latest_checkpoint,
        trial_info=trial,
        user_data=task.config.get("data") or {},
    )

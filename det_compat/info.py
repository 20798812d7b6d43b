"""What ``det.get_cluster_info()`` returned on a Determined cluster.

There is one in every process of a run that ``det-compat fit``, ``validate`` or ``search`` has
started. The classes take what those of Determined 0.38.1 take, for code that builds one itself.
"""

from typing import Any

from det_compat.script.machines import machine
from det_compat.script.task import Task, current_task

__all__ = ["ClusterInfo", "RendezvousInfo", "ResourcesInfo", "TrialInfo", "get_cluster_info"]


class TrialInfo:
    """The trial of a task, by the ids that the cluster gave it."""

    def __init__(
        self,
        trial_id: int,
        experiment_id: int,
        trial_seed: int,
        hparams: dict[str, Any],
        config: dict[str, Any],
        steps_completed: int,
        trial_run_id: int,
        debug: bool,
        inter_node_network_interface: str | None,
    ) -> None:
        self.trial_id = trial_id
        self.experiment_id = experiment_id
        self.trial_seed = trial_seed
        self.hparams = hparams
        self._config = config
        self._steps_completed = steps_completed
        self._trial_run_id = trial_run_id
        self._debug = debug
        self._inter_node_network_interface = inter_node_network_interface


class RendezvousInfo:
    """The containers of a task, ordered by rank."""

    def __init__(
        self, container_addrs: list[str], container_rank: int, container_slot_counts: list[int]
    ) -> None:
        self.container_addrs = container_addrs
        self.container_rank = container_rank
        self.container_slot_counts = container_slot_counts


class ResourcesInfo:
    """The GPUs of a container."""

    def __init__(self, gpu_uuids: list[str]) -> None:
        self._gpu_uuids = gpu_uuids

    @property
    def gpu_uuids(self) -> list[str]:
        """The UUIDs of the GPUs."""
        return self._gpu_uuids


class ClusterInfo:
    """The task that a container of a Determined cluster ran."""

    def __init__(
        self,
        master_url: str,
        cluster_id: str,
        agent_id: str,
        slot_ids: list[int],
        task_id: str,
        allocation_id: str,
        session_token: str,
        task_type: str,
        master_cert_name: str | None = None,
        master_cert_file: str | None = None,
        latest_checkpoint: str | None = None,
        trial_info: TrialInfo | None = None,
        rendezvous_info: RendezvousInfo | None = None,
        resources_info: ResourcesInfo | None = None,
    ) -> None:
        self.master_url = master_url
        self.cluster_id = cluster_id
        self.agent_id = agent_id
        self.slot_ids = slot_ids
        self.task_id = task_id
        self.allocation_id = allocation_id
        self.session_token = session_token
        self.task_type = task_type
        self.master_cert_name = master_cert_name
        self.master_cert_file = master_cert_file
        self._latest_checkpoint = latest_checkpoint
        self._trial_info = trial_info
        self._rendezvous_info = rendezvous_info
        self._resources_info = resources_info

    @property
    def _is_trial(self) -> bool:
        return self.task_type == "TRIAL"

    @property
    def latest_checkpoint(self) -> str | None:
        """The UUID of the checkpoint to go on from; None for none, and for tasks of other types."""
        return self._latest_checkpoint if self._is_trial else None

    @property
    def user_data(self) -> dict[str, Any]:
        """The ``data`` of the experiment config; empty for tasks of other types."""
        return self.trial._config.get("data", {}) if self._is_trial else {}

    @property
    def trial(self) -> TrialInfo:
        """The trial of this task.

        Raises:
            RuntimeError: the task is no trial.
        """
        if not self._is_trial or self._trial_info is None:
            raise RuntimeError(
                f'you cannot use the .trial property when .task_type ("{self.task_type}") != '
                '"TRIAL"'
            )
        return self._trial_info

    @property
    def container_addrs(self) -> list[str]:
        """Addresses of the task's containers, ordered by rank."""
        return self._rendezvous_info.container_addrs if self._rendezvous_info else ["127.0.0.1"]

    @property
    def container_slot_counts(self) -> list[int]:
        """Number of slots in each container, ordered by rank."""
        if self._rendezvous_info is None:
            return [len(self.slot_ids)]
        return self._rendezvous_info.container_slot_counts

    @property
    def container_rank(self) -> int:
        """Rank of this container."""
        return self._rendezvous_info.container_rank if self._rendezvous_info else 0

    @property
    def gpu_uuids(self) -> list[str]:
        """The GPUs of this container."""
        if self._resources_info is None:
            from det_compat.gpu import get_gpu_uuids

            self._resources_info = ResourcesInfo(get_gpu_uuids())
        return self._resources_info.gpu_uuids


_known: tuple[Task, ClusterInfo] | None = None


#: What ``get_cluster_info`` returns wherever it is set: tests of users set it, as in 0.38.1.
_info: ClusterInfo | None = None


def get_cluster_info() -> ClusterInfo | None:
    """The task that this process is a part of; None where det_compat has started no run.

    It is the same object each time. A machine takes the place of a container: its rank is that of
    the machine. There is no master: its URL, the token and the ids of its own are empty.
    """
    global _known
    if _info is not None:
        return _info
    task = current_task()
    if task is None:
        return None
    if _known is None or _known[0] != task:
        _known = task, _info_of(task)
    return _known[1]


def _info_of(task: Task) -> ClusterInfo:
    addresses, slots = task.machine_addresses(), task.slots_here()
    return ClusterInfo(
        master_url="",
        cluster_id="",
        agent_id="",
        slot_ids=list(range(slots)),
        task_id="",
        allocation_id="",
        session_token="",
        task_type="TRIAL",
        latest_checkpoint=task.latest_checkpoint,
        trial_info=TrialInfo(
            trial_id=task.trial_id,
            experiment_id=0,
            trial_seed=task.trial_seed,
            hparams=task.hparams,
            config=task.config,
            steps_completed=task.steps_completed,
            trial_run_id=task.attempt,
            debug=bool(task.config.get("debug")),
            inter_node_network_interface=None,
        ),
        rendezvous_info=RendezvousInfo(addresses, machine(), [slots] * len(addresses)),
    )

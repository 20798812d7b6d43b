"""The ranks of a trial's context, as Lightning asks for them."""

from __future__ import annotations

import os

from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment

from det_compat import core


class TrialEnvironment(ClusterEnvironment):
    """Processes that were started before Lightning, by torchrun for example."""

    def __init__(self, distributed: core.DistributedContext) -> None:
        super().__init__()
        self._distributed = distributed

    @property
    def creates_processes_externally(self) -> bool:
        return True

    @property
    def main_address(self) -> str:
        return os.environ.get("MASTER_ADDR", "127.0.0.1")

    @property
    def main_port(self) -> int:
        return int(os.environ.get("MASTER_PORT", "29500"))

    @staticmethod
    def detect() -> bool:
        return False

    def world_size(self) -> int:
        return self._distributed.size

    def set_world_size(self, size: int) -> None:
        self._expect("world size", size, self._distributed.size)

    def global_rank(self) -> int:
        return self._distributed.rank

    def set_global_rank(self, rank: int) -> None:
        self._expect("rank", rank, self._distributed.rank)

    def local_rank(self) -> int:
        return self._distributed.local_rank

    def node_rank(self) -> int:
        return self._distributed.cross_rank

    @staticmethod
    def _expect(what: str, found: int, expected: int) -> None:
        if found != expected:
            raise RuntimeError(
                f"Lightning counts {what} {found} where pytorch.init() has {expected}: every "
                "machine must run the same number of processes"
            )

"""The processes of a run, as det_compat counts them and as Lightning does."""

import os
from typing import Any

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy

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


def process_flags(ranks: core.DistributedContext) -> dict[str, Any]:
    """The flags of ``pl.Trainer`` for processes that were started before Lightning."""
    if ranks.size == 1:
        one = {"devices": 1, "num_nodes": 1, "strategy": "auto"}
        return {**one, "plugins": [LightningEnvironment()]}
    return {
        "devices": ranks.local_size,
        "num_nodes": ranks.cross_size,
        "strategy": DDPStrategy(cluster_environment=TrialEnvironment(ranks)),
    }


def distributed_context(trainer: pl.Trainer) -> core.DistributedContext:
    """The ranks of a Trainer."""
    if trainer.world_size == 1:
        return core.DummyDistributedContext()
    return core.DistributedContext(
        rank=trainer.global_rank,
        size=trainer.world_size,
        local_rank=trainer.local_rank,
        local_size=trainer.world_size // trainer.num_nodes,
        cross_rank=trainer.node_rank,
        cross_size=trainer.num_nodes,
    )

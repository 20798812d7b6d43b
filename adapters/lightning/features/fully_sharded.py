"""A strategy of the Trainer that shards each of a trial's models: FSDP2."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import torch

from det_compat.adapters.lightning.package import ClusterEnvironment, pl
from det_compat.errors import InvalidExperimentException

if TYPE_CHECKING:
    from det_compat.pytorch.context.sharding import Sharding

#: The name of the strategy, ``pl.Trainer(strategy="fully_shard")``.
NAME = "fully_shard"

# They copy or rebuild models, which sharded ones do not let them.
_CALLBACKS = ("WeightAveraging", "ModelPruning")


class FullyShardedStrategy(pl.strategies.DDPStrategy):
    """Trains a trial on several ranks, each with its part of the models and optimizers.

    Processes are those of ``DDPStrategy``. Checkpoints are whole: one rank reads them, and so does
    ``ddp``. On one device, nothing is sharded.

    Args:
        blocks: names of classes of submodules, as ``"TransformerBlock"``, whose weights are
            gathered for their own forward and backward pass alone. Without any, they are those
            that a model of Hugging Face names as not to be split, else the whole model is one.
        cluster_environment, process_group_backend, timeout, start_method: as for ``DDPStrategy``.
    """

    def __init__(
        self,
        blocks: Iterable[str] = (),
        cluster_environment: ClusterEnvironment | None = None,
        process_group_backend: str | None = None,
        timeout: timedelta = timedelta(minutes=30),
        start_method: Literal["popen", "spawn", "fork", "forkserver"] = "popen",
    ) -> None:
        super().__init__(
            cluster_environment=cluster_environment,
            process_group_backend=process_group_backend,
            timeout=timeout,
            start_method=start_method,
        )
        self.blocks = tuple(blocks)

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        module: Any = self.lightning_module
        whole: dict[str, Any] = module.run.steering.whole(super().optimizer_state(optimizer))
        return whole


pl.strategies.StrategyRegistry.register(
    NAME, FullyShardedStrategy, description="A trial's models in shards (FSDP2)", override=True
)


def sharding_of(trainer: pl.Trainer) -> Sharding | None:
    """What shards models where the Trainer's strategy is ``FullyShardedStrategy``; else None.

    Raises:
        InvalidExperimentException: this torch has no FSDP2 that would do.
    """
    strategy = trainer.strategy
    if not isinstance(strategy, FullyShardedStrategy) or trainer.world_size == 1:
        return None
    try:
        from torch.distributed.fsdp import FSDPModule

        from det_compat.pytorch.context.sharding import Sharding

        _ = FSDPModule.set_reshard_after_forward
    except (AttributeError, ImportError) as error:
        raise InvalidExperimentException(
            f"strategy={NAME!r} needs a newer torch than {torch.__version__} (2.13 has all of it: "
            f"{error}): use strategy='ddp'"
        ) from error
    return Sharding(
        strategy.root_device,
        trainer.world_size,
        is_chief=trainer.is_global_zero,
        blocks=strategy.blocks,
    )


def check_sharded(trainer: pl.Trainer, callbacks: Iterable[pl.Callback]) -> None:
    """Raise InvalidExperimentException for callbacks that sharded models do not go with."""
    if not isinstance(trainer.strategy, FullyShardedStrategy) or trainer.world_size == 1:
        return
    for callback in callbacks:
        if any(isinstance(callback, getattr(pl.callbacks, name, ())) for name in _CALLBACKS):
            raise InvalidExperimentException(
                f"the callback {type(callback).__name__} does not go with strategy={NAME!r}: it "
                "copies or rebuilds models, of which each rank has a part: use strategy='ddp'"
            )

"""What would make the host wait for a GPU, counted in torch's dispatcher on a CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from det_compat import pytorch, to_lightning
from det_compat.pytorch import DataLoader
from tests.adapters.trials import Linear, Normed, rows, trainer

# These read a tensor's values on the host: on a GPU each of them waits for all work before it.
WAITS = {"_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "unique"}


class Waits(TorchDispatchMode):
    """Counts operators that wait, wherever they are called from."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (name := func.__name__.partition(".")[0]) in WAITS:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


class Long(Linear):
    """Batches of one row, as many as the hyperparameters say."""

    def build_training_data_loader(self) -> Any:
        return DataLoader(rows(self.context.get_hparam("batches")), batch_size=1)


class Scheduled(Long):
    """Aggregates, clips and steps a scheduler with each batch."""

    def finish(self) -> None:
        scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 5)
        mode = pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH
        self.context.wrap_lr_scheduler(scheduler, step_mode=mode)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(
            self.optimizer, lambda p: torch.nn.utils.clip_grad_norm_(p, 1.0)
        )
        return {"loss": loss, "norm": loss.detach() * 2}


class Deep(Long):
    net = Normed.net

    def build_training_data_loader(self) -> Any:
        return DataLoader(rows(2 * self.context.get_hparam("batches")), batch_size=2)


def by_lightning(trial_cls: type, batches: int, **flags: Any) -> None:
    module = to_lightning(trial_cls)({"batches": batches})
    trainer(limit_val_batches=0, **flags).fit(module)


def by_trainer(trial_cls: type, batches: int) -> None:
    with pytorch.init(hparams={"batches": batches}) as context:
        trainer = pytorch.Trainer(trial_cls(context), context)
        trainer.fit(
            max_length=pytorch.Batch(batches),
            validation_period=pytorch.Batch(batches),
            reporting_period=pytorch.Batch(batches),
            checkpoint_policy="none",
        )


def counted(train: Callable[..., None], trial_cls: type, batches: int, **flags: Any) -> Counter:
    with Waits() as waits:
        train(trial_cls, batches, **flags)
    return waits.counts


WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "to_lightning": (by_lightning, {}),
    "accumulating": (by_lightning, {"accumulate_grad_batches": 2}),
    "clipping": (by_lightning, {"gradient_clip_val": 0.5}),
    "mixed precision": (by_lightning, {"precision": "bf16-mixed"}),
    "pytorch.Trainer": (by_trainer, {}),
}


@pytest.mark.parametrize("trial_cls", [Long, Scheduled, Deep])
@pytest.mark.parametrize("way", WAYS)
def test_no_batch_waits_within_a_reporting_period(way: str, trial_cls: type) -> None:
    train, flags = WAYS[way]
    assert counted(train, trial_cls, 30, **flags) == counted(train, trial_cls, 10, **flags)


class Waiting(Long):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        return {"loss": super().train_batch(batch, epoch_idx, batch_idx)["loss"].item()}


def test_a_trial_that_waits_is_counted() -> None:
    more = counted(by_lightning, Waiting, 30) - counted(by_lightning, Waiting, 10)
    assert more == {"_local_scalar_dense": 20}

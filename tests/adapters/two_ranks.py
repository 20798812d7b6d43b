"""What test_strategy.py looks at, on two ranks: ``python -m tests.adapters.two_ranks FOLDER``."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.strategies import DDPStrategy
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from det_compat import to_lightning
from det_compat.pytorch import DataLoader
from tests.adapters.trials import Gan, Linear, Net, rows, trainer, weights

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
HPARAMS = {"global_batch_size": 4}


def fitted(trial_cls: type, strategy: Any = "ddp", exp_conf: Any = None, **flags: Any) -> Any:
    torch.manual_seed(4)
    module = to_lightning(trial_cls)(hparams=HPARAMS, exp_conf=exp_conf)
    used = trainer(devices=2, strategy=strategy, **flags)
    used.fit(module)
    return module, used


def values(module: nn.Module) -> dict[str, Any]:
    return {name: tensor.tolist() for name, tensor in weights(module).items()}


def metrics(used: Any) -> dict[str, float]:
    return {name: float(value) for name, value in used.callback_metrics.items()}


class Asks(Gan):
    def prepare(self) -> None:
        context = self.context
        ranks = context.distributed
        self.seen = [ranks.get_rank(), ranks.get_size(), context.get_per_slot_batch_size()]


def gan() -> dict[str, Any]:
    module, used = fitted(Asks, max_epochs=2)
    used.save_checkpoint(FOLDER / "gan.ckpt")
    return {
        "seen": module.trial.seen,
        "types": [type(model).__name__ for model in module.context.models],
        "inner": [type(model).__name__ for model in module.models],
        "step": used.global_step,
        "weights": values(module),
        "metrics": metrics(used),
        "strategy_model": isinstance(used.strategy.model, DistributedDataParallel),
    }


class Attributes(Linear):
    def net(self) -> nn.Module:
        return Net()

    def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        assert self.model.head.weight.shape == (1, 4)
        return super().train_batch(*args, **kwargs)


def ddp_keyword_arguments() -> dict[str, Any]:
    strategy = DDPStrategy(bucket_cap_mb=3, find_unused_parameters=True)
    module, _ = fitted(Attributes, strategy)
    [model] = module.context.models
    return {
        "find_unused_parameters": model.find_unused_parameters,
        "bucket_bytes_cap": model.bucket_bytes_cap,
    }


def all_reduces(exp_conf: Any, aggregation_frequency: int = 2) -> dict[str, Any]:
    calls: list[int] = []

    def hook(state, bucket):  # not annotated, since DDP reads annotations
        state.append(bucket.index())
        return allreduce_hook(None, bucket)

    strategy = DDPStrategy(ddp_comm_state=calls, ddp_comm_hook=hook)
    torch.manual_seed(4)
    arguments = {"exp_conf": exp_conf, "aggregation_frequency": aggregation_frequency}
    module = to_lightning(Linear)(hparams=HPARAMS, **arguments)
    trainer(devices=2, strategy=strategy).fit(module)
    return {"calls": len(calls), "weights": values(module)}


def comm_hook() -> dict[str, Any]:
    return all_reduces(None, aggregation_frequency=1)


def sync_when_accumulating() -> dict[str, Any]:
    return all_reduces(None)


def no_sync_when_accumulating() -> dict[str, Any]:
    return all_reduces({"optimizations": {"sync_when_accumulating": False}})


class UnevenValidation(Linear):
    """Three batches of validation data: two on the first rank, one on the second."""

    def net(self) -> nn.Module:
        return Net()

    def finish(self) -> None:
        self.count = self.context.wrap_reducer(sum, name="rows", for_training=False)

    def build_validation_data_loader(self) -> Any:
        return DataLoader(rows(6, seed=1), batch_size=2)

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        self.count.update(len(batch[0]))
        return super().evaluate_batch(batch, batch_idx)


def uneven_validation() -> dict[str, Any]:
    module, used = fitted(UnevenValidation, max_epochs=2)
    [alone] = trainer(devices=2, strategy="ddp").validate(module, verbose=False)
    return {"evaluated": module.trial.evaluated, "metrics": metrics(used), "alone": alone}


class FullDataset(Linear):
    """Evaluates on the chief alone, with BatchNorm."""

    evaluate_batch = None

    def prepare(self) -> None:
        self.rows: list[int] = []

    def net(self) -> nn.Module:
        return Net()

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        losses = [self.loss(batch) for batch in data_loader]
        self.rows.append(sum(len(batch[0]) for batch in data_loader))
        return {"full_loss": torch.stack(losses).mean()}


def full_dataset() -> dict[str, Any]:
    module, used = fitted(FullDataset, max_epochs=2)
    parameters = {name: value.tolist() for name, value in module.named_parameters()}
    return {"rows": module.trial.rows, "metrics": metrics(used), "parameters": parameters}


class WrapsOthers(Linear):
    """A loss without parameters and a frozen model are wrapped as well."""

    def finish(self) -> None:
        self.criterion = self.context.wrap_model(nn.MSELoss())
        self.teacher = self.context.wrap_model(nn.Linear(3, 1).requires_grad_(False))

    def loss(self, batch: Any) -> torch.Tensor:
        x, y = batch
        return self.criterion(self.model(x), y + 0.1 * self.teacher(x))


def wraps_others() -> dict[str, Any]:
    module, _ = fitted(WrapsOthers)
    return {"types": [type(model).__name__ for model in module.context.models]}


def indivisible_batch_size() -> dict[str, Any]:
    try:
        module = to_lightning(Asks)(hparams={"global_batch_size": 5})
        trainer(devices=2, strategy="ddp").fit(module)
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {}


CASES: list[Callable[[], dict[str, Any]]] = [
    gan,
    ddp_keyword_arguments,
    comm_hook,
    sync_when_accumulating,
    no_sync_when_accumulating,
    uneven_validation,
    full_dataset,
    wraps_others,
    indivisible_batch_size,
]


def main() -> None:
    results: dict[str, Any] = {}
    for case in CASES:
        try:
            results[case.__name__] = case()
        except Exception:
            results[case.__name__] = {"failed": traceback.format_exc()}
        rank = os.environ.get("LOCAL_RANK", "0")
        (FOLDER / f"rank{rank}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()

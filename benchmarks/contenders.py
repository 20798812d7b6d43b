"""Who trains: each function runs a whole training of a workload the way its users would."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from benchmarks.stopwatch import Stopwatch
from benchmarks.workloads import Workload

Contender = Callable[[Workload, Stopwatch], None]


def plain(workload: Workload, stopwatch: Stopwatch) -> None:
    """A loop of plain PyTorch."""
    networks = workload.models()
    models = [DistributedDataParallel(m) for m in networks] if workload.ranks > 1 else networks
    optimizers = workload.optimizers(networks)
    sampler = DistributedSampler(workload.training_data()) if workload.ranks > 1 else None
    loader = _loader(workload, sampler)
    validation = DataLoader(workload.validation_data(), batch_size=workload.batch_size)
    batches = 0
    steps_now = True

    def step(optimizer: torch.optim.Optimizer) -> None:
        if steps_now:
            optimizer.step()
            optimizer.zero_grad()

    def backward(loss: torch.Tensor) -> None:
        (loss / workload.aggregation).backward()

    while True:
        for batch in loader:
            stopwatch.tick()
            steps_now = (batches + 1) % workload.aggregation == 0
            with contextlib.ExitStack() as stack:
                if workload.ranks > 1 and not steps_now:
                    stack.enter_context(models[0].no_sync())
                workload.train(models, optimizers, batch, backward, step)
            batches += 1
            if workload.validation_period and batches % workload.validation_period == 0:
                _validate(workload, models, validation)
            if workload.checkpoint_period and batches % workload.checkpoint_period == 0:
                _save(networks, optimizers, batches)
            if batches == workload.batches:
                return


def _loader(workload: Workload, sampler: Any = None) -> DataLoader[Any]:
    return DataLoader(
        workload.training_data(),
        batch_size=workload.batch_size,
        shuffle=sampler is None,
        sampler=sampler,
        num_workers=workload.workers,
        drop_last=True,
    )


@torch.no_grad()
def _validate(workload: Workload, models: list[nn.Module], loader: DataLoader[Any]) -> float:
    for model in models:
        model.eval()
    losses = [workload.loss(models, batch) for batch in loader]
    for model in models:
        model.train()
    return float(torch.stack(losses).mean())


def _save(models: list[nn.Module], optimizers: list[Any], batches: int) -> None:
    states = [part.state_dict() for part in (*models, *optimizers)]
    with tempfile.TemporaryDirectory() as folder:
        torch.save(states, os.path.join(folder, f"{batches}.pt"))


class LeanModule(pl.LightningModule):
    """The leanest module: manual optimization, nothing logged."""

    def __init__(self, workload: Workload, stopwatch: Stopwatch) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.workload, self.stopwatch = workload, stopwatch
        self.models = nn.ModuleList(workload.models())
        self.batches = 0

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return self.workload.optimizers(list(self.models))

    def train_dataloader(self) -> DataLoader[Any]:
        return _loader(self.workload)

    def val_dataloader(self) -> Any:
        if not self.workload.validation_period:
            return []
        return DataLoader(self.workload.validation_data(), batch_size=self.workload.batch_size)

    def train_manually(self, batch: Any) -> dict[str, torch.Tensor]:
        self.stopwatch.tick()
        self.batches += 1
        optimizers: Any = self.optimizers()
        if not isinstance(optimizers, list):
            optimizers = [optimizers]
        steps_now = self.batches % self.workload.aggregation == 0

        def step(optimizer: Any) -> None:
            if steps_now:
                optimizer.step()
                optimizer.zero_grad()

        def backward(loss: torch.Tensor) -> None:
            self.manual_backward(loss / self.workload.aggregation)

        with contextlib.ExitStack() as stack:
            if self.workload.ranks > 1 and not steps_now:
                stack.enter_context(self.trainer.model.no_sync())
            return self.workload.train(list(self.models), optimizers, batch, backward, step)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.train_manually(batch)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.workload.loss(list(self.models), batch)


class UsualModule(LeanModule):
    """As people write it: automatic optimization where it goes, and every loss logged."""

    def __init__(self, workload: Workload, stopwatch: Stopwatch) -> None:
        super().__init__(workload, stopwatch)
        self.automatic_optimization = type(workload).train is Workload.train

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if not self.automatic_optimization:
            for name, value in self.train_manually(batch).items():
                self.log(name, value)
            return None
        self.stopwatch.tick()
        loss = self.workload.loss(list(self.models), batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("validation_loss", self.workload.loss(list(self.models), batch))


def lean_lightning(workload: Workload, stopwatch: Stopwatch) -> None:
    """The leanest LightningModule."""
    module = LeanModule(workload, stopwatch)
    _fit(workload, module, logger=False, max_steps=_optimizer_steps(workload))


def usual_lightning(workload: Workload, stopwatch: Stopwatch) -> None:
    """The usual LightningModule, with Lightning's own logger."""
    module = UsualModule(workload, stopwatch)
    accumulates = workload.aggregation if module.automatic_optimization else 1
    steps = _optimizer_steps(workload)
    _fit(workload, module, accumulate_grad_batches=accumulates, max_steps=steps)


def _optimizer_steps(workload: Workload) -> int:
    return workload.batches * len(workload.models()) // workload.aggregation


def to_lightning(workload: Workload, stopwatch: Stopwatch) -> None:
    """det_compat.to_lightning, on a Trainer with Lightning's own logger."""
    from det_compat import pytorch
    from det_compat import to_lightning as convert

    cls = convert(_trial(pytorch, workload, stopwatch))
    settings = {"sync_when_accumulating": False}
    module = cls(
        hparams={"global_batch_size": workload.batch_size * workload.ranks},
        exp_conf={"optimizations": settings} if workload.aggregation > 1 else None,
        aggregation_frequency=workload.aggregation,
    )
    _fit(workload, module, max_steps=workload.batches)


def _fit(workload: Workload, module: pl.LightningModule, **flags: Any) -> None:
    callbacks: list[pl.Callback] = []
    with tempfile.TemporaryDirectory() as folder:
        if workload.checkpoint_period:
            period = workload.checkpoint_period
            callbacks.append(pl.callbacks.ModelCheckpoint(folder, every_n_train_steps=period))
        trainer = pl.Trainer(
            max_epochs=-1,
            limit_val_batches=None if workload.validation_period else 0,
            val_check_interval=workload.validation_period or None,
            check_val_every_n_epoch=None if workload.validation_period else 1,
            num_sanity_val_steps=0,
            accelerator="cpu",
            devices=workload.ranks,
            strategy="ddp" if workload.ranks > 1 else "auto",
            default_root_dir=folder,
            callbacks=callbacks,
            enable_checkpointing=bool(workload.checkpoint_period),
            enable_progress_bar=False,
            enable_model_summary=False,
            **flags,
        )
        trainer.fit(module)


def determined(workload: Workload, stopwatch: Stopwatch) -> None:
    """The Trainer of determined itself."""
    from determined import core, pytorch

    _fit_trial(core, pytorch, workload, stopwatch)


def det_compat_trainer(workload: Workload, stopwatch: Stopwatch) -> None:
    """det_compat's pytorch.Trainer."""
    from det_compat import core, pytorch

    _fit_trial(core, pytorch, workload, stopwatch)


def _fit_trial(core: Any, pytorch: Any, workload: Workload, stopwatch: Stopwatch) -> None:
    arguments: dict[str, Any] = {
        "hparams": {"global_batch_size": workload.batch_size * workload.ranks},
        "aggregation_frequency": workload.aggregation,
    }
    if workload.ranks > 1:
        arguments["distributed"] = core.DistributedContext.from_torch_distributed()
    with pytorch.init(**arguments) as context:
        trial = _trial(pytorch, workload, stopwatch)(context)
        if workload.aggregation > 1 and hasattr(context, "sync_when_accumulating"):
            context.sync_when_accumulating = False
        pytorch.Trainer(trial, context).fit(
            max_length=pytorch.Batch(workload.batches),
            validation_period=_period(pytorch, workload.validation_period),
            checkpoint_period=_period(pytorch, workload.checkpoint_period),
            checkpoint_policy="all" if workload.checkpoint_period else "none",
        )


def _period(pytorch: Any, batches: int) -> Any:
    return pytorch.Batch(batches) if batches else None


def _trial(pytorch: Any, workload: Workload, stopwatch: Stopwatch) -> type:
    class BenchmarkTrial(pytorch.PyTorchTrial):
        def __init__(self, context: Any) -> None:
            self.context = context
            models = workload.models()
            optimizers = workload.optimizers(models)
            self.models = [context.wrap_model(model) for model in models]
            self.optimizers = [context.wrap_optimizer(optimizer) for optimizer in optimizers]

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            stopwatch.tick()
            context = self.context
            return workload.train(
                self.models, self.optimizers, batch, context.backward, context.step_optimizer
            )

        def evaluate_batch(self, batch: Any) -> dict[str, Any]:
            return {"validation_loss": workload.loss(self.models, batch)}

        def build_training_data_loader(self) -> Any:
            return pytorch.DataLoader(
                workload.training_data(),
                batch_size=self.context.get_per_slot_batch_size(),
                shuffle=True,
                num_workers=workload.workers,
                drop_last=True,
            )

        def build_validation_data_loader(self) -> Any:
            batch_size = self.context.get_per_slot_batch_size()
            return pytorch.DataLoader(workload.validation_data(), batch_size=batch_size)

    return BenchmarkTrial


CONTENDERS: dict[str, Contender] = {
    "plain PyTorch": plain,
    "lean Lightning": lean_lightning,
    "usual Lightning": usual_lightning,
    "determined 0.38.1": determined,
    "to_lightning": to_lightning,
    "pytorch.Trainer": det_compat_trainer,
}


def run(contender: str, workload: Workload) -> Stopwatch:
    """Train once; the stopwatch has what came out."""
    stopwatch = Stopwatch(workload.warm_up, workload.batches - 1)
    torch.manual_seed(0)
    CONTENDERS[contender](workload, stopwatch)
    return stopwatch

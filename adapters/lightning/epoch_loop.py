"""Lightning's loops over batches, without what nobody is there to notice.

For a model of one layer, Lightning 2.6.6 spends three times as long between two batches as in one:
it calls a dozen hooks that do nothing, each in a profiler's context, collects what nobody logged,
inspects the signature of ``training_step``, and under DDP waits for a broadcast over all ranks.
Lightning has had no public way to give a Trainer another loop since 2.0; so the methods of its
loop objects that run for each batch are replaced here while a trial runs on them, and nowhere else,
and only in a Lightning that ``known.py`` knows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.profilers import PassThroughProfiler
from pytorch_lightning.strategies import Strategy
from pytorch_lightning.utilities.exceptions import SIGTERMException

from det_compat.adapters.data.batch_stream import BatchStream
from det_compat.adapters.lightning.door import (
    EvaluationInsides,
    LoopInsides,
    TrainingInsides,
    check_training,
    check_validation,
    loops_over_batches,
    next_batch,
    training_loop,
    validation_loops,
)
from det_compat.adapters.lightning.known import is_known

_TRAINING = ("on_train_batch_start", "on_train_batch_end")
_VALIDATION = ("on_validation_batch_start", "on_validation_batch_end")
_TRANSFER = ("on_before_batch_transfer", "on_after_batch_transfer")
_NOTHING = contextlib.nullcontext("")


class NoProfiler(PassThroughProfiler):
    """Lightning's default profiler, without a new context for each of 13 actions a batch."""

    def profile(self, action_name: str) -> Any:
        """A context in which nothing happens."""
        return _NOTHING


def cut_overhead(trainer: pl.Trainer) -> None:
    """Replace the Trainer's default profiler; one that the user gave is left alone."""
    flags: Any = trainer
    if is_known() and type(flags.profiler) is PassThroughProfiler:
        flags.profiler = NoProfiler()


def shorten_training(trainer: pl.Trainer, known: type) -> None:
    """Replace what the training loop does for each batch, if nothing depends on what is left out.

    ``known`` is the class of modules whose steps and hooks are known.

    Raises:
        InvalidExperimentException: Lightning would reduce gradients twice.
    """
    check_training(trainer)
    restore_loops(trainer)
    hooks = (*_TRAINING, "training_step", "on_validation_model_zero_grad")
    loop = training_loop(trainer)
    if (
        _is_plain(trainer, loop, known, hooks)
        and isinstance(trainer.train_dataloader, BatchStream)
        and not replaces(trainer.strategy, Strategy, _TRAINING[0])
    ):
        shorter = _Training(trainer, loop)
        shorter.put_in_place(shorter.advance)


def shorten_validation(trainer: pl.Trainer, known: type) -> None:
    """Likewise, for the loop of the validation that is about to start.

    Raises:
        InvalidExperimentException: it is a validation that a trial would not be the same after.
    """
    check_validation(trainer)
    for loop in validation_loops(trainer):
        LoopInsides.take_out(loop)
        if _is_plain(trainer, loop, known, (*_VALIDATION, "validation_step")):
            shorter = _Validation(trainer, loop)
            shorter.put_in_place(shorter.step)


def restore_loops(trainer: pl.Trainer) -> None:
    """Undo it all."""
    for loop in loops_over_batches(trainer):
        LoopInsides.take_out(loop)


def _is_plain(trainer: pl.Trainer, loop: Any, known: type, hooks: tuple[str, ...]) -> bool:
    flags: Any = trainer
    module = trainer.lightning_module
    return (
        is_known()
        and LoopInsides.can_stand_in(loop)
        and type(flags.profiler) in (PassThroughProfiler, NoProfiler)
        and flags.datamodule is None
        and not replaces(trainer.strategy, Strategy, "batch_to_device")
        and not any(replaces(module, known, name) for name in (*hooks, *_TRANSFER))
    )


def replaces(found: object, base: type, name: str) -> bool:
    """Whether ``found``, an object or its class, has another method ``name`` than ``base``."""
    method = getattr(found, name, None)
    return getattr(method, "__func__", None) is not getattr(base, name)


class Listeners:
    """What a Trainer's callbacks have for a pair of hooks, in the order of the callbacks.

    Args:
        trainer: the Trainer.
        hooks: the names of the hooks.
    """

    def __init__(self, trainer: pl.Trainer, hooks: tuple[str, str]) -> None:
        self._trainer: Any = trainer
        self._hooks = hooks
        self._callbacks: list[pl.Callback] = []
        self._methods: dict[str, list[Callable[..., Any]]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look at the callbacks again."""
        self._callbacks = [*self._trainer.callbacks]
        self._methods = {
            hook: [
                getattr(callback, hook)
                for callback in self._callbacks
                if replaces(callback, pl.Callback, hook)
            ]
            for hook in self._hooks
        }

    def tell(self, hook: str, *args: Any) -> None:
        """Call what the callbacks have for ``hook``, as Lightning does."""
        if self._trainer.callbacks != self._callbacks:
            self.refresh()
        if methods := self._methods[hook]:
            module = self._trainer.lightning_module
            LoopInsides.call(module, hook, self._tell_all, methods, module, args)

    def _tell_all(self, methods: list[Callable[..., Any]], module: Any, args: Any) -> None:
        for method in methods:
            method(self._trainer, module, *args)


class _Training(TrainingInsides):
    """What Lightning 2.6.6's training epoch loop does for a batch."""

    def __init__(self, trainer: pl.Trainer, loop: Any) -> None:
        super().__init__(trainer, loop)
        self._listeners = Listeners(trainer, _TRAINING)

    def advance(self, data_fetcher: Any) -> None:
        """Train on one batch, and go on while nothing else can be due after it.

        Raises:
            StopIteration: the epoch has no more batches.
        """
        if self.is_resuming():
            self.own_method(data_fetcher)
            return
        self._train(data_fetcher)
        while not self._may_be_due():
            self.count()
            self._train(data_fetcher)

    def _train(self, data_fetcher: Any) -> None:
        told, progress, strategy = self._listeners, self.progress, self.trainer.strategy
        module = strategy.lightning_module
        batch, is_last = next_batch(data_fetcher)
        batch_idx = progress.current.ready
        if batch_idx == 0:
            told.refresh()
        progress.is_last_batch = is_last
        batch = _moved(batch, strategy, module)
        progress.increment_ready()
        self.begin(batch)
        told.tell(_TRAINING[0], batch, batch_idx)
        progress.increment_started()
        self.call(module, "training_step", strategy.training_step, batch, batch_idx)
        strategy.post_training_step()
        progress.increment_processed()
        told.tell(_TRAINING[1], {}, batch, batch_idx)
        self.call(module, _TRAINING[1], module.on_train_batch_end, {}, batch, batch_idx)
        self.end()

    def _may_be_due(self) -> bool:
        """Whether Lightning may have to validate, or to end the epoch or the training."""
        return (
            self.is_over()
            or self.trainer.should_stop
            or self.trainer.received_sigterm
            or self._may_validate()
        )

    def _may_validate(self) -> bool:
        trainer, progress = self.trainer, self.progress
        period = trainer.val_check_batch
        if period is None:  # it is a time
            return True
        if period == float("inf"):
            return isinstance(trainer.limit_train_batches, int)
        counts_on = trainer.check_val_every_n_epoch is None
        batches = progress.total.ready if counts_on else progress.current.ready
        return bool(batches % period == 0)


class _Validation(EvaluationInsides):
    """What Lightning 2.6.6's evaluation loops do for a batch."""

    def __init__(self, trainer: pl.Trainer, loop: Any) -> None:
        super().__init__(trainer, loop)
        self._listeners = Listeners(trainer, _VALIDATION)

    def step(self, batch: Any, batch_idx: int, *_: Any) -> None:
        """Evaluate one batch.

        Raises:
            SIGTERMException: SIGTERM has come, and Lightning is to act on it.
        """
        trainer, told, progress = self.trainer, self._listeners, self.progress
        strategy, module = trainer.strategy, trainer.lightning_module
        batch = _moved(batch, strategy, module)
        progress.increment_ready()
        self.begin(batch)
        told.tell(_VALIDATION[0], batch, batch_idx)
        progress.increment_started()
        output = self.call(module, "validation_step", strategy.validation_step, batch, batch_idx)
        progress.increment_processed()
        told.tell(_VALIDATION[1], output, batch, batch_idx)
        self.end()
        if trainer.received_sigterm and not progress.is_last_batch:
            raise SIGTERMException


def _moved(batch: Any, strategy: Any, module: Any) -> Any:
    batch = strategy.precision_plugin.convert_input(batch)
    return module.transfer_batch_to_device(batch, strategy.root_device, 0)

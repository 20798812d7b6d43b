"""Lightning's loops over batches, without what nobody is there to notice.

For a model of one layer, Lightning 2.6.6 spends three times as long between two batches as in one:
it calls a dozen hooks that do nothing, each in a profiler's context, collects what nobody logged,
inspects the signature of ``training_step``, and under DDP waits for a broadcast over all ranks.
Lightning has had no public way to give a Trainer another loop since 2.0; so the methods of its
loop objects that run for each batch are replaced here while a trial runs on them, and nowhere else.
"""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.profilers import PassThroughProfiler
from pytorch_lightning.strategies import Strategy
from pytorch_lightning.utilities.exceptions import SIGTERMException

from det_compat.adapters.data.batch_stream import BatchStream
from det_compat.adapters.lightning.listeners import Listeners, is_overridden
from det_compat.adapters.lightning.overhead import NoProfiler

_TRAINING = ("on_train_batch_start", "on_train_batch_end")
_VALIDATION = ("on_validation_batch_start", "on_validation_batch_end")
_TRANSFER = ("on_before_batch_transfer", "on_after_batch_transfer")


def shorten_training(trainer: pl.Trainer, known: type) -> None:
    """Replace what the training loop does for each batch, if nothing depends on what is left out.

    ``known`` is the class of modules whose steps and hooks are known.
    """
    restore_loops(trainer)
    hooks = (*_TRAINING, "training_step", "on_validation_model_zero_grad")
    if (
        isinstance(trainer.train_dataloader, BatchStream)
        and not is_overridden(trainer.strategy, Strategy, _TRAINING[0])
        and _is_plain(trainer, known, hooks)
    ):
        shorter = _Training(trainer)
        loop: Any = trainer.fit_loop.epoch_loop
        loop.__dict__.update(advance=shorter.advance)


def shorten_validation(trainer: pl.Trainer, known: type) -> None:
    """Likewise, for the loop of the validation that is about to start."""
    for loop in _validation_loops(trainer):
        vars(loop).pop("_evaluation_step", None)
        if _is_plain(trainer, known, (*_VALIDATION, "validation_step")):
            vars(loop)["_evaluation_step"] = _Validation(trainer, loop).step


def restore_loops(trainer: pl.Trainer) -> None:
    """Undo it all."""
    loop: Any = trainer.fit_loop.epoch_loop
    loop.__dict__.pop("advance", None)
    for loop in _validation_loops(trainer):
        vars(loop).pop("_evaluation_step", None)


def _validation_loops(trainer: pl.Trainer) -> tuple[Any, Any]:
    return trainer.fit_loop.epoch_loop.val_loop, trainer.validate_loop


def _is_plain(trainer: pl.Trainer, known: type, hooks: tuple[str, ...]) -> bool:
    flags: Any = trainer
    module = trainer.lightning_module
    return (
        type(flags.profiler) in (PassThroughProfiler, NoProfiler)
        and flags.datamodule is None
        and not is_overridden(trainer.strategy, Strategy, "batch_to_device")
        and not any(is_overridden(module, known, name) for name in (*hooks, *_TRANSFER))
    )


class _Training:
    """Methods of Lightning 2.6's training epoch loop."""

    def __init__(self, trainer: pl.Trainer) -> None:
        self._trainer: Any = trainer
        self._loop: Any = trainer.fit_loop.epoch_loop
        self._listeners = Listeners(trainer, _TRAINING)

    def advance(self, data_fetcher: Any) -> None:
        """Train on one batch, and go on while nothing else can be due after it.

        Raises:
            StopIteration: the epoch has no more batches.
        """
        loop = self._loop
        if loop.restarting:
            type(loop).advance(loop, data_fetcher)
            return
        self._train(data_fetcher)
        while not self._may_be_due():
            loop._batches_that_stepped += 1
            self._train(data_fetcher)

    def _train(self, data_fetcher: Any) -> None:
        loop, trainer, told = self._loop, self._trainer, self._listeners
        batch = _next_batch(data_fetcher)
        progress, strategy = loop.batch_progress, trainer.strategy
        module = strategy.lightning_module
        batch_idx = progress.current.ready
        if batch_idx == 0:
            told.refresh()
        progress.is_last_batch = data_fetcher.done
        batch = _moved(batch, strategy, module)
        progress.increment_ready()
        if trainer._logger_connector._first_loop_iter is not False:
            trainer._logger_connector.on_batch_start(batch)
        else:  # the same, for a batch that is not one of an epoch's first two
            loop._results.batch, loop._results.batch_size = batch, None
        told.tell(_TRAINING[0], batch, batch_idx)
        progress.increment_started()
        before, module._current_fx_name = module._current_fx_name, "training_step"
        strategy.training_step(batch, batch_idx)
        module._current_fx_name = before
        strategy.post_training_step()
        progress.increment_processed()
        told.tell(_TRAINING[1], {}, batch, batch_idx)
        module._current_fx_name = _TRAINING[1]
        module.on_train_batch_end({}, batch, batch_idx)
        module._current_fx_name = before
        if loop._results:
            trainer._logger_connector.on_batch_end()
        progress.increment_completed()
        if loop._results:
            trainer._logger_connector.update_train_step_metrics()
        loop._results.batch = None

    def _may_be_due(self) -> bool:
        """Whether Lightning may have to validate, or to end the epoch or the training."""
        loop, trainer = self._loop, self._trainer
        return (
            loop._num_ready_batches_reached()
            or trainer.should_stop
            or trainer.received_sigterm
            or -1 < loop.max_steps <= loop.global_step
            or self._may_validate()
        )

    def _may_validate(self) -> bool:
        trainer, progress = self._trainer, self._loop.batch_progress
        period = trainer.val_check_batch
        if period is None:  # it is a time
            return True
        if period == float("inf"):
            return isinstance(trainer.limit_train_batches, int)
        counts_on = trainer.check_val_every_n_epoch is None
        batches = progress.total.ready if counts_on else progress.current.ready
        return bool(batches % period == 0)


class _Validation:
    """The method of Lightning 2.6's evaluation loops."""

    def __init__(self, trainer: pl.Trainer, loop: Any) -> None:
        self._trainer: Any = trainer
        self._loop = loop
        self._listeners = Listeners(trainer, _VALIDATION)

    def step(self, batch: Any, batch_idx: int, *_: Any) -> None:
        """Evaluate one batch.

        Raises:
            SIGTERMException: SIGTERM has come, and Lightning is to act on it.
        """
        loop, trainer, told = self._loop, self._trainer, self._listeners
        progress, strategy, module = loop.batch_progress, trainer.strategy, trainer.lightning_module
        batch = _moved(batch, strategy, module)
        progress.increment_ready()
        trainer._logger_connector.on_batch_start(batch)
        told.tell(_VALIDATION[0], batch, batch_idx)
        progress.increment_started()
        before, module._current_fx_name = module._current_fx_name, "validation_step"
        output = strategy.validation_step(batch, batch_idx)
        module._current_fx_name = before
        progress.increment_processed()
        told.tell(_VALIDATION[1], output, batch, batch_idx)
        if loop._results:
            trainer._logger_connector.on_batch_end()
        progress.increment_completed()
        loop._has_run = True
        if loop._results:
            seen = loop._seen_batches_per_dataloader[0]
            trainer._logger_connector.update_eval_step_metrics(seen)
        loop._seen_batches_per_dataloader[0] += 1
        loop._results.batch = None
        if trainer.received_sigterm and not progress.is_last_batch:
            raise SIGTERMException


def _next_batch(data_fetcher: Any) -> Any:
    """The next batch of the only loader, past what would combine it with others."""
    if data_fetcher.length is None or data_fetcher.batches or data_fetcher.done:
        return next(data_fetcher)[0]
    [loader] = data_fetcher.combined_loader.flattened
    batch = next(loader)
    data_fetcher.fetched += 1
    data_fetcher.done = data_fetcher.fetched >= data_fetcher.length
    return batch


def _moved(batch: Any, strategy: Any, module: Any) -> Any:
    batch = strategy.precision_plugin.convert_input(batch)
    return module.transfer_batch_to_device(batch, strategy.root_device, 0)

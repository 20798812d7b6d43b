"""Where Lightning's loops are in a run, put in terms of batches trained.

Lightning 2.6.6 takes up a run at the last batch that it knows to be complete, and leaves out the
validation and the end of the epoch that may have been due right after it. The batches that the
trial has trained on say where the run is; the loops are placed there. The keys are those of
``trainer.fit_loop.state_dict()``.
"""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl


def place(trainer: pl.Trainer, batches: int, epoch_len: int, *, epoch_is_over: bool) -> None:
    """Have the fit loop go on after ``batches`` batches.

    ``epoch_is_over`` says, of a run at the end of an epoch, that Lightning's own end of it, with
    ``on_train_epoch_end``, is done.
    """
    epochs, in_epoch = divmod(batches, epoch_len)
    if batches > 0 and in_epoch == 0 and not epoch_is_over:
        epochs, in_epoch = epochs - 1, epoch_len
    begun = epochs + (in_epoch > 0)
    fit_loop = trainer.fit_loop
    state = {key: _zeroed(value) for key, value in fit_loop.state_dict().items()}
    for span in ("total", "current"):
        state["epoch_progress"][span].update(
            ready=begun, started=begun, processed=epochs, completed=epochs
        )
    progress = state["epoch_loop.batch_progress"]
    for span, count in (("total", batches), ("current", in_epoch)):
        progress[span].update(ready=count, started=count, processed=count, completed=count)
    progress["is_last_batch"] = in_epoch == epoch_len
    steps = state["epoch_loop.manual_optimization.optim_step_progress"]["total"]
    steps.update(ready=batches, completed=batches)
    fit_loop.load_state_dict(state)
    if in_epoch == 0:
        # Otherwise Lightning takes a run with max_steps to be inside of an epoch.
        fit_loop.epoch_loop.restarting = False
    trainer.fit_loop.epoch_loop.on_load_checkpoint({"_batches_that_stepped": batches})


def _zeroed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _zeroed(item) for key, item in value.items()}
    return type(value)()


def ended_epoch(loops: dict[str, Any] | None) -> bool:
    """Whether Lightning's ``loops`` of a checkpoint have ended the epoch that they were in."""
    if loops is None:
        return True
    epoch = loops["fit_loop"]["epoch_progress"]["current"]
    has_not_begun = epoch["started"] < epoch["ready"]
    return bool(has_not_begun or epoch["processed"] == epoch["ready"])


def begin_next_epoch(trainer: pl.Trainer) -> None:
    """Have the epoch loop begin anew, where it has found nothing to do in a resumed epoch."""
    trainer.fit_loop.epoch_loop.restarting = False


def validation_was_due(trainer: pl.Trainer) -> bool:
    """Whether Lightning would have validated after the batch that the loops are placed after."""
    epoch_loop = trainer.fit_loop.epoch_loop
    in_epoch = epoch_loop.batch_progress.current.ready
    interval, every = trainer.val_check_batch, trainer.check_val_every_n_epoch
    if in_epoch == 0 or interval is None or not trainer.enable_validation:
        return False
    if every is not None and (trainer.current_epoch + 1) % every != 0:
        return False
    if interval == float("inf"):
        return epoch_loop.batch_progress.is_last_batch
    count = epoch_loop.batch_progress.total.ready if every is None else in_epoch
    return count % interval == 0


def validate_now(trainer: pl.Trainer) -> None:
    """Validate in the middle of fitting."""
    connector = trainer._logger_connector
    # What the training loop collects goes on where it was, as after a validation that Lightning
    # 2.6.6 runs inside of an epoch.
    first_loop_iter = connector._first_loop_iter
    trainer.validating = True
    trainer.fit_loop.epoch_loop.val_loop.run()
    trainer.training = True
    connector._first_loop_iter = first_loop_iter


def note_validation_done(trainer: pl.Trainer) -> None:
    """Make up for a step that Lightning counts for loggers when it leaves a validation out."""
    epoch_loop = trainer.fit_loop.epoch_loop
    batches = epoch_loop.batch_progress.total.ready
    epoch_loop.on_load_checkpoint({"_batches_that_stepped": batches - 1})

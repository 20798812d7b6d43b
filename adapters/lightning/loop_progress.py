"""Where Lightning's loops are in a run, put in terms of batches trained.

Lightning 2.6.6 takes up a run at the last batch that it knows to be complete, and leaves out the
validation and the end of the epoch that may have been due right after it. The batches that the
trial has trained on say where the run is, and Lightning's loops are told to go on from there.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from det_compat.adapters.lightning import door
from det_compat.adapters.lightning.known import needed, refusal
from det_compat.adapters.lightning.package import pl

_BATCH = ("ready", "started", "processed", "completed")
_STEP = ("ready", "completed")


def loop_state(
    *,
    batches: int = 0,
    in_epoch: int = 0,
    epochs: int = 0,
    begun: int = 0,
    is_last_batch: bool = False,
    steps_of_lightning: int = 0,
    steps_of_module: int | None = None,
) -> dict[str, Any]:
    """What ``trainer.fit_loop.state_dict()`` is, ``in_epoch`` batches into an epoch.

    Of the epochs ``begun``, ``epochs`` are over. ``steps_of_lightning`` counts what Lightning has
    stepped by itself, as it does for a module with automatic optimization; ``steps_of_module``
    what another has, which is one in each batch if it is not given.
    """
    epoch = {"ready": begun, "started": begun, "processed": epochs, "completed": epochs}
    optimizer = {
        "step": _counts(_STEP, steps_of_lightning),
        "zero_grad": _counts(("ready", "started", "completed"), steps_of_lightning),
    }
    loop = "epoch_loop."
    return {
        "state_dict": {},
        "epoch_progress": {"total": epoch, "current": {**epoch}},
        f"{loop}state_dict": {door.LOGGED_STEPS: batches},
        f"{loop}batch_progress": {
            **_counts(_BATCH, batches, in_epoch),
            "is_last_batch": is_last_batch,
        },
        f"{loop}scheduler_progress": _counts(_STEP),
        f"{loop}automatic_optimization.state_dict": {},
        f"{loop}automatic_optimization.optim_progress": {"optimizer": optimizer},
        f"{loop}manual_optimization.state_dict": {},
        f"{loop}manual_optimization.optim_step_progress": _counts(
            _STEP, batches if steps_of_module is None else steps_of_module
        ),
        f"{loop}val_loop.state_dict": {},
        f"{loop}val_loop.batch_progress": {**_counts(_BATCH), "is_last_batch": False},
    }


def _counts(names: tuple[str, ...], total: int = 0, current: int = 0) -> dict[str, Any]:
    return {"total": dict.fromkeys(names, total), "current": dict.fromkeys(names, current)}


def go_on_after(trainer: pl.Trainer, batches: int, epoch_len: int, *, epoch_is_over: bool) -> None:
    """Have the fit loop go on after ``batches`` batches.

    ``epoch_is_over`` says, of a run at the end of an epoch, that Lightning's own end of it, with
    ``on_train_epoch_end``, is done.

    Raises:
        InvalidExperimentException: this Lightning's loops cannot be told so.
    """
    epochs, in_epoch = divmod(batches, epoch_len)
    if batches > 0 and in_epoch == 0 and not epoch_is_over:
        epochs, in_epoch = epochs - 1, epoch_len
    state = loop_state(
        batches=batches,
        in_epoch=in_epoch,
        epochs=epochs,
        begun=epochs + (in_epoch > 0),
        is_last_batch=in_epoch == epoch_len,
    )
    _load(trainer, state)


def _load(trainer: pl.Trainer, state: dict[str, Any]) -> None:
    """Have the loops go on from ``state``.

    Raises:
        InvalidExperimentException: Lightning's state is made of something else.
    """
    with needed("the state of the loops"):
        found = {*_paths(trainer.fit_loop.state_dict())} - {"state_dict/combined_loader"}
        if unknown := found ^ {*_paths(state)}:
            raise refusal(f"a run cannot be resumed with {min(unknown)} in the state of the loops")
        trainer.fit_loop.load_state_dict(state)
        progress = state["epoch_loop.batch_progress"]
        if progress["current"]["ready"] == 0:
            # Otherwise Lightning takes a run with max_steps to be inside of an epoch.
            begin_next_epoch(trainer)
    loaded = (trainer.current_epoch, trainer.global_step, trainer.fit_loop.total_batch_idx + 1)
    batches = progress["total"]["ready"]
    if loaded != (state["epoch_progress"]["current"]["processed"], batches, batches):
        raise refusal(f"its loops do not go on after batch {batches}, but after {loaded}")


def _paths(state: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in state.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from _paths(value, f"{prefix}{key}/")


def begin_next_epoch(trainer: pl.Trainer) -> None:
    """Have the epoch loop begin an epoch, where it would go on in one that a checkpoint names."""
    door.training_loop(trainer).restarting = False


def ended_epoch(loops: dict[str, Any] | None) -> bool:
    """Whether Lightning's ``loops`` of a checkpoint have ended the epoch that they were in."""
    if loops is None:
        return True
    with needed("the count of epochs in the checkpoint"):
        epoch = loops["fit_loop"]["epoch_progress"]["current"]
        has_not_begun = epoch["started"] < epoch["ready"]
        return bool(has_not_begun or epoch["processed"] == epoch["ready"])


def validation_was_due(trainer: pl.Trainer) -> bool:
    """Whether Lightning would have validated after the batch that the loops go on after."""
    progress = _batch_progress(trainer)
    in_epoch = progress.current.ready
    with needed("val_check_batch, which says when to validate,"):
        interval, every = trainer.val_check_batch, trainer.check_val_every_n_epoch
    if in_epoch == 0 or interval is None or not trainer.enable_validation:
        return False
    if every is not None and (trainer.current_epoch + 1) % every != 0:
        return False
    if interval == float("inf"):
        return bool(progress.is_last_batch)
    count = progress.total.ready if every is None else in_epoch
    return bool(count % interval == 0)


def _batch_progress(trainer: pl.Trainer) -> Any:
    """How many batches Lightning has trained, and whether the last was the last of its epoch."""
    return door.training_loop(trainer).batch_progress


def note_validation_done(trainer: pl.Trainer) -> None:
    """Make up for a step that Lightning counts for loggers when it leaves a validation out."""
    batches = _batch_progress(trainer).total.ready - 1
    door.training_loop(trainer).on_load_checkpoint({door.LOGGED_STEPS: batches})

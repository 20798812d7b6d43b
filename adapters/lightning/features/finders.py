"""``Tuner``, ``LearningRateFinder`` and ``BatchSizeFinder`` for trials.

Lightning's own searches train the module itself and put its weights back. A trial reads its
hyperparameters while it is built, and draws random numbers from then on; so each value is tried
with a trial of its own. The searches take the same steps as Lightning 2.6.6.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from det_compat.adapters.data.loaders import UNSIZED
from det_compat.adapters.lightning import door
from det_compat.adapters.lightning.features.attempts import Attempt, Attempts
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.lightning.strategy import callbacks_of
from det_compat.errors import InvalidExperimentException
from det_compat.util.metrics import is_numerical_scalar

logger = logging.getLogger("det_compat")

#: Finders with their places among the callbacks of a Trainer.
Finders = list[tuple[int, pl.Callback]]

_FINDERS = (pl.callbacks.LearningRateFinder, pl.callbacks.BatchSizeFinder)

# The loss of a search is smoothed with this share of what it was before.
_SMOOTHING = 0.98


def take_finders(trainer: pl.Trainer) -> Finders:
    """Take the finders from a Trainer's callbacks: they do not go about it as a trial needs.

    Raises:
        InvalidExperimentException: one of them is the user's own, or could not search.
    """
    callbacks = callbacks_of(trainer)
    taken = [pair for pair in enumerate(callbacks) if isinstance(pair[1], _FINDERS)]
    for _, finder in taken:
        if type(finder) not in _FINDERS:
            raise InvalidExperimentException(
                f"{type(finder).__name__} does not go with a PyTorchTrial, which reads its "
                f"hyperparameters once, before training: use {type(finder).__mro__[1].__name__}"
            )
        if trainer.ckpt_path is not None:
            raise InvalidExperimentException(
                f"{type(finder).__name__} does not go with a checkpoint to go on from, which has "
                "been trained with hyperparameters of its own: remove the finder, or ckpt_path"
            )
    callbacks[:] = [callback for callback in callbacks if not isinstance(callback, _FINDERS)]
    return taken


def give_back_finders(trainer: pl.Trainer, taken: Finders) -> None:
    """Put finders back in their places."""
    for index, finder in taken:
        callbacks_of(trainer).insert(index, finder)


def find(attempts: Attempts, finders: Finders, save: Callable[[dict[str, Any]], None]) -> None:
    """Search with each of the finders, and change the hyperparameters of the source.

    ``save`` is told those that a checkpoint keeps.
    """
    for _, finder in finders:
        asked = door.settings_of(finder)
        # Lightning 2.6.6 sets it from outside of the class.
        if attempts.trainer.fast_dev_run:  # type: ignore[attr-defined]
            logger.warning(f"{type(finder).__name__} is left out under fast_dev_run")
        elif isinstance(finder, pl.callbacks.LearningRateFinder):
            finder.optimal_lr = _find_rate(attempts, asked)
        else:
            assert isinstance(finder, pl.callbacks.BatchSizeFinder)
            finder.optimal_batch_size = _find_size(attempts, asked)
        save({"hparams": attempts.source.saved_hparams()})
        if asked["early_exit"]:
            door.end_quietly()


# Hyperparameters, which may be in dicts of dicts


def _named(hparams: dict[str, Any], names: list[str]) -> str:
    """The first of ``names`` that there is, where ``a.b`` is ``b`` in the dict ``a``."""
    for name in names:
        inner: Any = hparams
        *path, last = name.split(".")
        for key in path:
            inner = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and last in inner:
            return name
    raise InvalidExperimentException(
        f"the trial has no hyperparameter {' or '.join(names)} to set to what is found, but "
        f"{', '.join(hparams) or 'none'}: give its name, such as attr_name='optimizer.lr' or "
        "batch_arg_name='batch'"
    )


def _changed(hparams: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    key, _, rest = name.partition(".")
    return {**hparams, key: _changed(hparams[key], rest, value) if rest else value}


# Learning rates


def _find_rate(attempts: Attempts, asked: dict[str, Any]) -> Any:
    name = None
    hparams = attempts.source.hparams
    if asked["update_attr"]:
        name = _named(
            hparams, [asked["attr_name"]] if asked["attr_name"] else ["lr", "learning_rate"]
        )
    mode, least, most = asked["mode"], asked["min_lr"], asked["max_lr"]
    steps, threshold = asked["num_training_steps"], asked["early_stop_threshold"]
    with attempts.attempt() as attempt:
        before = attempt.optimizer_settings()
        rates = _rates(mode, least, most, steps)
        curve = [*_losses(attempt, rates, threshold)]
    if len(curve) < steps:
        logger.info(f"the search for a learning rate ended after {len(curve)} steps: it diverged")
    found = door.learning_rates(mode, least, most, steps, curve)
    suggested = found.suggestion()
    if name is not None and suggested is not None:
        changed = _changed(hparams, name, suggested)
        attempts.source.change_hparams(changed)
        logger.info(f"the hyperparameter {name} is {suggested} now")
        with attempts.attempt() as attempt:
            if changed != hparams and attempt.optimizer_settings() == before:
                logger.warning(
                    f"the trial makes the same optimizer with {name}={suggested} as before, and "
                    "trains as it would have without the search: read the hyperparameter where "
                    "the optimizer is made, or name the one that is read there, such as "
                    "attr_name='optimizer.lr'"
                )
    return found


def _rates(mode: str, least: float, most: float, steps: int) -> Iterator[float]:
    """The learning rates that Lightning 2.6.6 tries; the second is two steps from the first."""
    for step in range(steps):
        part = (step + 1) / steps if step else 0.0
        if mode == "linear":
            yield least + part * (most - least)
        else:
            yield least * (most / least) ** part


def _losses(
    attempt: Attempt, rates: Iterator[float], threshold: float | None
) -> Iterator[tuple[float, float]]:
    """Each learning rate with the smoothed loss of its step, until the loss diverges."""
    if len(attempt.run.context.optimizers) != 1:
        raise InvalidExperimentException(
            f"a learning rate is found for one optimizer, and the trial has "
            f"{len(attempt.run.context.optimizers)}: try its learning rates with det-compat search"
        )
    [optimizer] = attempt.run.context.optimizers
    average, best = 0.0, float("inf")
    for step, rate in enumerate(rates, 1):
        metrics: dict[str, Any] = {}
        for _ in range(attempt.batches_a_step):
            # A scheduler of the trial may have set another since.
            for group in optimizer.param_groups:
                group["lr"] = rate
            metrics = attempt.train_batch()
        average = _SMOOTHING * average + (1 - _SMOOTHING) * _loss_of(metrics)
        smoothed = average / (1 - _SMOOTHING ** (step + 1))
        yield rate, smoothed
        if threshold is not None and step > 1 and smoothed > threshold * best:
            return
        best = min(best, smoothed)


def _loss_of(metrics: dict[str, Any]) -> float:
    named = {name: value for name, value in metrics.items() if is_numerical_scalar(value)}
    loss = named.get("loss", next(iter(named.values())) if len(named) == 1 else None)
    if loss is None:
        raise InvalidExperimentException(
            f"a learning rate is found by the metric 'loss', and train_batch() returns "
            f"{', '.join(metrics) or 'none'}: return it under that name"
        )
    return float(loss)


# Batch sizes


def _find_size(attempts: Attempts, asked: dict[str, Any]) -> int:
    given, hparams = asked["batch_arg_name"], attempts.source.hparams
    name = _named(hparams, ["global_batch_size", given] if given == "batch_size" else [given])
    trains = attempts.trainer.state.fn == pl.trainer.states.TrainerFn.FITTING

    seen: dict[_Shape, int] = {}

    def tried(size: int) -> bool | None:
        changed = _changed(hparams, name, size)
        shape = _shape(attempts, changed, asked["steps_per_trial"], trains=trains)
        if shape is None:
            return None
        if shape in seen:
            raise InvalidExperimentException(
                f"the trial has batches of {shape.rows} rows, {shape.batches} of them, with {name}="
                f"{size} as with {seen[shape]}: give the loader a batch size that is read from it, "
                "as context.get_per_slot_batch_size() is from global_batch_size, or name the "
                "hyperparameter that is read there: batch_arg_name='batch'"
            )
        if shape.rows is not None and 1 < shape.batches < UNSIZED:
            seen[shape] = size
        return shape.batches > 1

    size = _largest(tried, asked)
    attempts.source.change_hparams(_changed(hparams, name, size))
    logger.info(f"the hyperparameter {name} is {size} now")
    return size


class _Shape(NamedTuple):
    """How many batches there are, and the rows in one, where they are known.

    With a single batch, larger ones would be the same.
    """

    batches: int
    rows: int | None


def _shape(
    attempts: Attempts, hparams: dict[str, Any], steps: int, *, trains: bool
) -> _Shape | None:
    """What batches there are with these hyperparameters; None if they do not fit into memory."""
    pl.utilities.memory.garbage_collection_cuda()
    try:
        with attempts.attempt(hparams, trains=trains) as attempt:
            if trains:
                for _ in range(steps):
                    attempt.train_batch()
            else:
                attempt.evaluate(steps)
            return _Shape(attempt.length(of_training=trains), attempt.rows)
    except RuntimeError as error:
        if not pl.utilities.memory.is_oom_error(error):
            raise
    pl.utilities.memory.garbage_collection_cuda()
    return None


def _largest(tried: Callable[[int], bool | None], asked: dict[str, Any]) -> int:
    """The largest size that fits: by doubling, and then, if asked for, by halving the rest."""
    most, bisects = asked["max_val"], asked["mode"] == "binsearch"
    size, fits, too_large = min(asked["init_val"], most), 0, None
    for _ in range(asked["max_trials"]):
        can_grow = tried(size)
        if can_grow is None:
            too_large = size
        else:
            fits = size
        if can_grow is False:
            break
        following = _next_size(fits, too_large, most, bisects)
        if following in (0, fits, too_large):
            break
        size = following
    if not fits:
        raise InvalidExperimentException(
            f"no batch size from {asked['init_val']} down to {size} fits into memory"
        )
    return max(1, int(fits * (1 - asked["margin"]))) if bisects else fits


def _next_size(fits: int, too_large: int | None, most: int, bisects: bool) -> int:
    if too_large is None:
        return min(2 * fits, most)
    return (fits + too_large) // 2 if bisects or not fits else fits

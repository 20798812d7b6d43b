"""The one door to Lightning's insides.

Every name of Lightning that is private stands here and in no other module, with the reason why
nothing public would do. Its loops, whose classes are private, have names without an underscore,
too: those that ``epoch_loop.py`` and ``loop_progress.py`` need stand there. All were read in
Lightning 2.6.6. What is done for speed alone is done only in a Lightning that ``known.py`` knows.
What a trial cannot do without is tried with any: where a name is gone, the run is refused, since it
could train other weights, and ``unknown/checks.py`` looks at what came of it.
"""

import contextlib
import functools
import importlib
import inspect
import time
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from det_compat.adapters.lightning.known import is_known, needed, refusal
from det_compat.adapters.lightning.package import MODULE, pl

#: The key in the state of the epoch loop for the batches that loggers have heard of.
LOGGED_STEPS = "_batches_that_stepped"

# A bar cannot say when so many batches will be over.
_MOST_SHOWN = 2**31


class PlainAttributes:
    """Sets the name of the hook that runs, ``_current_fx_name``, as any object sets attributes.

    Lightning sets it 20 times a batch, and ``nn.Module`` looks each time whether it is a parameter,
    a module or a buffer. In a Lightning without it, nothing is different.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_current_fx_name":
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)


# Batches: what the shorter loops of epoch_loop.py do in a Lightning that is known

#: The methods of the loops over batches that train on a batch, and that evaluate all of them.
ADVANCE, EVALUATION = "advance", "run"


def begin_batch(trainer: Any, loop: Any, batch: Any) -> None:
    """Let ``log`` know of the batch that it is called in."""
    metrics, results = trainer._logger_connector, loop._results
    # It is None before an epoch's first batch, True in that one, and False in the others.
    metrics._first_loop_iter = metrics._first_loop_iter is None
    results.batch, results.batch_size, results.dataloader_idx = batch, None, None


def end_batch(trainer: Any, loop: Any) -> None:
    """Pass on what was logged in a batch of training."""
    metrics, results = trainer._logger_connector, loop._results
    if results:
        metrics.on_batch_end()
        metrics.update_train_step_metrics()
    results.batch = None


def end_batch_of_evaluation(trainer: Any, loop: Any) -> None:
    """Pass on what was logged in a batch of an evaluation."""
    results, seen = loop._results, loop._seen_batches_per_dataloader
    loop._has_run = True
    if results:
        metrics = trainer._logger_connector
        metrics.on_batch_end()
        metrics.update_eval_step_metrics(seen[0])
    seen[0] += 1
    results.batch = None


def count_batches(loop: Any, begun: int, ended: int) -> None:
    """Count batches of an evaluation that were not counted when they began and ended."""
    for counts in (loop.batch_progress.total, loop.batch_progress.current):
        counts.ready += begun
        counts.started += begun
        counts.processed += ended
        counts.completed += ended


def loaders(loop: Any) -> list[Any]:
    """The loaders of an evaluation, once it has them."""
    return [*loop._combined_loader.flattened]


def begin_evaluation(loop: Any) -> None:
    """Begin an evaluation."""
    loop._has_run = False
    loop.batch_progress.reset_on_run()


def logged_in_batches(trainer: Any, loop: Any) -> dict[str, Any]:
    """What was logged in the batches of an evaluation, which are over."""
    metrics = trainer._logger_connector
    metrics.epoch_end_reached()
    return {**metrics.update_eval_epoch_metrics()} if loop._results else {}


def log_evaluation(trainer: Any, loop: Any, logged: dict[str, Any]) -> None:
    """Add to ``logged`` what was logged since, and pass it on."""
    if loop._results:
        metrics = trainer._logger_connector
        metrics.on_epoch_end()
        logged.update(metrics.update_eval_epoch_metrics())
        metrics.log_eval_end_metrics(logged)


def end_evaluation(trainer: Any, loop: Any, logged: dict[str, Any]) -> None:
    """End an evaluation, and print what was logged if the loop is one that does so."""
    metrics = trainer._logger_connector
    # It is what `reset_results` does, once that has found out which loop is running.
    loop._results.reset()
    metrics._first_loop_iter = metrics._current_fx = None
    if loop.verbose and trainer.is_global_zero:
        loop._print_results([logged], loop._stage.value)
    trainer._last_val_time = time.monotonic()


def call_hook(module: Any, hook: str, method: Callable[..., Any], *args: Any) -> None:
    """Call a method under the name of a hook, which ``log`` goes by."""
    # A module that is asked to set an attribute looks at more than these, twice for each hook.
    attributes = vars(module)
    before, attributes["_current_fx_name"] = attributes["_current_fx_name"], hook
    method(*args)
    attributes["_current_fx_name"] = before


def count_batch_for_loggers(loop: Any) -> None:
    """Count a batch for loggers, as ``on_advance_end`` of the training epoch loop does."""
    loop._batches_that_stepped += 1


def leave_out_next_validation(loop: Any) -> None:
    """Have the training epoch loop leave out the validation that is due after this batch."""
    loop._skip_next_val = True


def training_is_over(loop: Any) -> bool:
    """Whether the last batch was the last of the epoch or of all."""
    return bool(loop._num_ready_batches_reached()) or -1 < loop.max_steps <= loop.global_step


def next_batch(data_fetcher: Any) -> tuple[Any, bool]:
    """The next batch of the only loader, past what would combine it with others, and if it is last.

    Raises:
        StopIteration: there is none.
    """
    if data_fetcher.length is None or data_fetcher.batches or data_fetcher.done:
        batch = next(data_fetcher)[0]
    else:
        [loader] = data_fetcher.combined_loader.flattened
        batch = next(loader)
        data_fetcher.fetched += 1
        data_fetcher.done = data_fetcher.fetched >= data_fetcher.length
    return batch, data_fetcher.done


# Lightning's handlers of SIGTERM, and of the signal by which SLURM ends a job to requeue it.
_HANDLERS = ("_sigterm_notifier_fn", "_slurm_sigusr_handler_fn")


def requeue_signal(trainer: pl.Trainer) -> Any:
    """The signal at which a job of SLURM is to go into the queue again; None for no such job."""
    connector = getattr(trainer, "_accelerator_connector", None)
    environment: Any = getattr(connector, "cluster_environment", None)
    return (getattr(environment, "auto_requeue", False) and environment.requeue_signal) or None


def has_had_requeue(trainer: pl.Trainer) -> bool:
    """Whether that signal has come before the run's own handler was in place."""
    return bool(getattr(getattr(trainer, "_signal_connector", None), "received_requeue", False))


def requeue_path(trainer: pl.Trainer) -> str:
    """The checkpoint that Lightning goes on from when its job of SLURM runs again."""
    return str(trainer._checkpoint_connector.hpc_save_path(trainer.default_root_dir))


def leave_to_trial(trainer: pl.Trainer) -> None:
    """Set what flags of the Trainer say in general, and a trial needs in particular.

    ``unknown/checks.py`` looks whether Lightning has taken it.
    """
    _try_to_set(trainer, "num_sanity_val_steps", 0)
    _let_signals_be_noted(trainer)
    for loop in validation_loops(trainer):
        _try_to_set(loop, "inference_mode", False)
    if isinstance(trainer.strategy, pl.strategies.DDPStrategy):
        # Each model of the trial is in its own DistributedDataParallel already.
        _try_to_set(trainer.strategy, "configure_ddp", _no_outer_ddp)


def _try_to_set(owner: Any, name: str, value: Any) -> None:
    with contextlib.suppress(AttributeError):
        setattr(owner, name, value)


def _let_signals_be_noted(trainer: Any) -> None:
    """Have Lightning's handlers note signals alone, until the run's own are in place.

    They would wait for the other ranks, even from within what they exchange: all would hang.
    """
    signals: Any = getattr(trainer, "_signal_connector", None)

    def note_end(number: int, frame: Any) -> None:
        signals.received_sigterm = True

    def note_requeue(number: int, frame: Any) -> None:
        signals.received_requeue = True

    for name, note in zip(_HANDLERS, (note_end, note_requeue), strict=True):
        if hasattr(signals, name):
            setattr(signals, name, note)


def group_timeout(trainer: pl.Trainer) -> Any:
    """How long an operation of the process group may take; None if the strategy does not say."""
    return getattr(trainer.strategy, "_timeout", None)


def _no_outer_ddp(*_: Any, **__: Any) -> None:
    pass


def release_trainer(trainer: pl.Trainer) -> None:
    """Undo what ``leave_to_trial`` changed in the strategy, and for signals."""
    vars(trainer.strategy).pop("configure_ddp", None)
    for name in (*_HANDLERS, "received_requeue"):
        with contextlib.suppress(AttributeError):
            delattr(trainer._signal_connector, name)


def changes_of(tensor: torch.Tensor) -> int:
    """How often torch has seen the tensor changed in place."""
    return tensor._version


def validates_by_time(trainer: pl.Trainer) -> bool:
    """Whether a time, and no number of batches, says when to validate."""
    return getattr(trainer, "_val_check_time_interval", None) is not None


def validation_loops(trainer: pl.Trainer) -> list[Any]:
    """The loops that validate in ``fit``, ``validate`` and ``test``, where they are still there."""
    return _found(trainer, "fit_loop.epoch_loop.val_loop", "validate_loop", "test_loop")


def loops_over_batches(trainer: pl.Trainer) -> list[Any]:
    """The loops that train and validate, where they are still there."""
    return [*_found(trainer, "fit_loop.epoch_loop"), *validation_loops(trainer)]


def _found(trainer: pl.Trainer, *paths: str) -> list[Any]:
    def part(owner: Any, name: str) -> Any:
        return getattr(owner, name, None)

    found = (functools.reduce(part, path.split("."), trainer) for path in paths)
    return [loop for loop in found if loop is not None]


def training_loop(trainer: pl.Trainer) -> Any:
    """The loop that trains the batches of an epoch."""
    with needed("the training epoch loop"):
        return trainer.fit_loop.epoch_loop


# What DDPStrategy was made with: it has no public way to its arguments.


def ddp_kwargs(trainer: pl.Trainer) -> dict[str, Any]:
    """The keyword arguments that the user gave ``DDPStrategy`` for DistributedDataParallel."""
    strategy = trainer.strategy
    if not isinstance(strategy, pl.strategies.DDPStrategy):
        return {}
    with needed("what DDPStrategy keeps for DistributedDataParallel"):
        return dict(strategy._ddp_kwargs)


def comm_hook(trainer: pl.Trainer) -> tuple[Any, Any] | None:
    """The state and the communication hook that the user gave ``DDPStrategy``; None without."""
    strategy = trainer.strategy
    if not isinstance(strategy, pl.strategies.DDPStrategy):
        return None
    with needed("the communication hook that DDPStrategy keeps"):
        hook, wrapper = strategy._ddp_comm_hook, strategy._ddp_comm_wrapper
        state = strategy._ddp_comm_state
    if hook is None:
        return None
    return state, hook if wrapper is None else wrapper(hook)


# Validations, limits and searches


def settings_of(finder: pl.Callback) -> dict[str, Any]:
    """What a LearningRateFinder or BatchSizeFinder was made with, which has no public names."""
    return {name.removeprefix("_"): value for name, value in vars(finder).items()}


def learning_rates(
    mode: str, least: float, most: float, steps: int, curve: list[tuple[float, float]]
) -> Any:
    """What ``Tuner.lr_find`` returns, of a curve of learning rates and losses."""
    with needed("the result of LearningRateFinder"):
        tuner = importlib.import_module(f"{MODULE}.tuner.lr_finder")
        found = tuner._LRFinder(mode, least, most, steps)
        found.results.update(lr=[rate for rate, _ in curve], loss=[loss for _, loss in curve])
    return found


def has_data_of_its_own(trainer: pl.Trainer) -> bool:
    """Whether ``fit`` was given training data."""
    with needed("the source of the training data"):
        return trainer.fit_loop._data_source.instance is not trainer.lightning_module


def end_quietly() -> NoReturn:
    """Leave the loops of a Trainer, from within a hook; its ``fit`` tears down and returns."""
    # It is what Lightning's own tuners raise; nothing public makes `fit` return at once.
    raise pl.utilities.exceptions._TunerExitException


def validate_now(trainer: pl.Trainer) -> None:
    """Validate in the middle of fitting, for which the Trainer has no public method."""
    if is_known():
        validate_after_batch(trainer, trainer.fit_loop.epoch_loop)
        return
    with needed("the validation loop"):
        loop = trainer.fit_loop.epoch_loop
        inspect.signature(loop.val_loop.run).bind()
    with needed("what says whether a batch is logged,"):
        _ = trainer._logger_connector._first_loop_iter
    watch = getattr(trainer.lightning_module, "watch", None)
    with contextlib.nullcontext() if watch is None else watch.validation_asked_for():
        validate_after_batch(trainer, loop)


def validate_after_batch(trainer: Any, loop: Any) -> None:
    """Validate after a batch of the training epoch loop."""
    logged = trainer._logger_connector
    first_loop_iter = logged._first_loop_iter
    trainer.validating = True
    loop.val_loop.run()
    trainer.training = True
    # Lightning, too, puts it back when it has validated inside of an epoch.
    logged._first_loop_iter = first_loop_iter


def shown_metrics(trainer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metrics that callbacks read, and those of the progress bar, to be added to."""
    # The properties return these, too, once they have looked for what is logged at the moment.
    if is_known():
        shown = trainer._logger_connector
        return shown._callback_metrics, shown._progress_bar_metrics
    return trainer.callback_metrics, trainer.progress_bar_metrics


def show_epochs(trainer: pl.Trainer, epochs: int) -> None:
    """Let the progress bar show ``epochs`` epochs; -1 for no limit."""
    _try_to_set(trainer.fit_loop, "max_epochs", epochs)


def saves_by_the_time(callback: pl.Callback) -> bool:
    """Whether a callback for checkpoints has a ``train_time_interval``."""
    return getattr(callback, "_train_time_interval", None) is not None


def leave_lengths_open(trainer: pl.Trainer) -> None:
    """Let bars, profilers and callbacks know that data of unknown length have no length.

    The loaders have one all the same: without it, Lightning fetches a batch ahead, for which random
    numbers may be drawn before the batch that is trained draws its own.
    """
    loops = [(loop, "_max_batches") for loop in validation_loops(trainer)]
    for loop, name in [(trainer.fit_loop, "max_batches"), *loops]:
        batches = getattr(loop, name, 0)
        opened = [*map(_open, batches)] if isinstance(batches, list) else _open(batches)
        if opened != batches:
            _try_to_set(loop, name, opened)


def _open(batches: int | float) -> int | float:
    return batches if batches < _MOST_SHOWN else float("inf")


def lift_limits(trainer: pl.Trainer) -> None:
    """Let the trial say when training is over, whatever ``max_epochs`` and ``max_steps`` were."""
    _try_to_set(trainer.fit_loop, "max_epochs", -1)
    _try_to_set(training_loop(trainer), "max_steps", -1)
    if (trainer.max_epochs, trainer.max_steps) != (-1, -1):
        raise refusal("max_epochs and max_steps cannot be taken back once the Trainer is made")

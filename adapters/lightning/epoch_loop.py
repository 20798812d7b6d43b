"""Lightning's loops over batches, without what nobody is there to notice.

For a model of one layer, Lightning 2.6.6 spends three times as long between two batches as in one:
it calls a dozen hooks that do nothing, each in a profiler's context, collects what nobody logged,
inspects the signature of ``training_step``, and under DDP waits for a broadcast over all ranks.
Lightning has had no public way to give a Trainer another loop since 2.0; so the methods of its
loop objects that run over batches are replaced here while a trial runs on them, and nowhere else,
and only in a Lightning that ``known.py`` knows.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Generator, Iterator
from typing import Any

import torch

from det_compat.adapters.data.batch_stream import BatchStream
from det_compat.adapters.data.loaders import UNSIZED, ValidationBatches, WholeDataset
from det_compat.adapters.lightning import door
from det_compat.adapters.lightning.known import is_known
from det_compat.adapters.lightning.package import MODULE, pl
from det_compat.adapters.lightning.unknown import checks

_TRAINING = ("on_train_batch_start", "on_train_batch_end")
_TRANSFER = ("on_before_batch_transfer", "on_after_batch_transfer")


def shorten_training(trainer: pl.Trainer, known: type) -> None:
    """Replace what the training loop does for each batch, if nothing depends on what is left out.

    ``known`` is the class of modules whose steps and hooks are known.

    Raises:
        InvalidExperimentException: Lightning would reduce gradients twice.
    """
    checks.check_training(trainer)
    hooks = (*_TRAINING, "training_step", "on_validation_model_zero_grad")
    loop = door.training_loop(trainer)
    _restore(loop)
    if (
        _is_plain(trainer, loop, known, hooks)
        and isinstance(trainer.train_dataloader, BatchStream)
        and not replaces(trainer.strategy, pl.strategies.Strategy, _TRAINING[0])
    ):
        vars(loop)[door.ADVANCE] = ShortTraining(trainer, loop).advance


def shorten_evaluations(trainer: pl.Trainer, known: type) -> None:
    """Replace how loops evaluate, where nothing depends on what is left out: they look first."""
    if is_known():
        for loop in door.validation_loops(trainer):
            _restore(loop)
            vars(loop)[door.EVALUATION] = ShortEvaluation(trainer, loop, known).run


def restore_loops(trainer: pl.Trainer) -> None:
    """Let the loops use their own methods again."""
    for loop in door.loops_over_batches(trainer):
        _restore(loop)


def _restore(loop: Any) -> None:
    for name, value in [*vars(loop).items()]:
        if _is_ours(value):
            del vars(loop)[name]


def _is_ours(value: Any) -> bool:
    return isinstance(getattr(value, "__self__", None), (ShortTraining, ShortEvaluation))


def _is_plain(trainer: pl.Trainer, loop: Any, known: type, hooks: tuple[str, ...]) -> bool:
    flags: Any = trainer
    module = trainer.lightning_module
    return (
        is_known()
        and _is_lightnings_own(loop)
        and type(flags.profiler) is pl.profilers.PassThroughProfiler
        and flags.datamodule is None
        and not replaces(trainer.strategy, pl.strategies.Strategy, "batch_to_device")
        and not any(replaces(module, known, name) for name in (*hooks, *_TRANSFER))
    )


def _is_lightnings_own(loop: Any) -> bool:
    """Whether the class of the loop and all its methods are Lightning's own."""
    others = (name for name, value in vars(loop).items() if not _is_ours(value))
    is_lightnings = type(loop).__module__.startswith(f"{MODULE}.")
    return is_lightnings and not any(hasattr(type(loop), name) for name in others)


def _own_step(strategy: Any, step: str) -> Callable[..., Any] | None:
    """The module's method ``step``, where the strategy does nothing else; None where it does."""
    precision, module = strategy.precision_plugin, strategy.lightning_module
    is_plain = (
        type(precision).forward_context is pl.plugins.precision.Precision.forward_context
        and all(
            getattr(type(precision), name) is getattr(pl.plugins.precision.Precision, name)
            for name in ("train_step_context", "val_step_context", "test_step_context")
        )
        and getattr(type(strategy), step) is getattr(pl.strategies.Strategy, step)
        and not {step, "forward_context"} & {*vars(strategy), *vars(precision)}
        and strategy.model is module
    )
    method: Callable[..., Any] = getattr(module, step)
    return method if is_plain else None


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
        self.hooks = hooks
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
            for hook in self.hooks
        }

    def __bool__(self) -> bool:
        """Whether a callback has anything for one of the hooks."""
        return any(self._methods.values())

    def have_changed(self) -> bool:
        """Whether other callbacks are there than when they were last looked at."""
        return bool(self._trainer.callbacks != self._callbacks)

    def tell(self, hook: str, *args: Any) -> None:
        """Call what the callbacks have for ``hook``, as Lightning does."""
        if self.have_changed():
            self.refresh()
        if methods := self._methods[hook]:
            module = self._trainer.lightning_module
            door.call_hook(module, hook, self._tell_all, methods, module, args)

    def _tell_all(self, methods: list[Callable[..., Any]], module: Any, args: Any) -> None:
        for method in methods:
            method(self._trainer, module, *args)


class ShortTraining:
    """What Lightning 2.6.6's training loop does for a batch that nobody else watches.

    Args:
        trainer: the Trainer.
        loop: the loop that it works for.
    """

    def __init__(self, trainer: pl.Trainer, loop: Any) -> None:
        self._trainer: Any = trainer
        self._loop = loop
        self._progress = loop.batch_progress
        own = _own_step(trainer.strategy, "training_step")
        self._take_step = own or trainer.strategy.training_step
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
        while self._goes_on():
            door.count_batch_for_loggers(loop)
            self._train(data_fetcher)

    def _train(self, data_fetcher: Any) -> None:
        trainer, told, progress = self._trainer, self._listeners, self._progress
        start, end = _TRAINING
        strategy = trainer.strategy
        module = strategy.lightning_module
        batch, is_last = door.next_batch(data_fetcher)
        batch_idx = progress.current.ready
        if batch_idx == 0:
            told.refresh()
        progress.is_last_batch = is_last
        batch = strategy.precision_plugin.convert_input(batch)
        batch = module.transfer_batch_to_device(batch, strategy.root_device, 0)
        progress.increment_ready()
        door.begin_batch(trainer, self._loop, batch)
        told.tell(start, batch, batch_idx)
        progress.increment_started()
        door.call_hook(module, "training_step", self._take_step, batch, batch_idx)
        strategy.post_training_step()
        progress.increment_processed()
        told.tell(end, {}, batch, batch_idx)
        door.call_hook(module, end, module.on_train_batch_end, {}, batch, batch_idx)
        progress.increment_completed()
        door.end_batch(trainer, self._loop)

    def _goes_on(self) -> bool:
        """Validate if it is due, and say whether the next batch is all that comes then.

        Where it is not, Lightning ends the epoch or the training, or looks whether to validate.
        """
        if self._may_end():
            return False
        trainer, progress = self._trainer, self._progress
        period = trainer.val_check_batch
        if period is None:  # Lightning validates by the clock.
            return False
        if period == float("inf"):
            return not isinstance(trainer.limit_train_batches, int)
        if trainer.check_val_every_n_epoch is not None:
            return bool(progress.current.ready % period)
        if progress.total.ready % period or not trainer.limit_val_batches:
            return True
        door.validate_after_batch(trainer, self._loop)
        if self._may_end():
            door.leave_out_next_validation(self._loop)
            return False
        return True

    def _may_end(self) -> bool:
        """Whether Lightning may have to end the epoch or the training."""
        return (
            door.training_is_over(self._loop)
            or self._trainer.should_stop
            or self._trainer.received_sigterm
        )


class ShortEvaluation:
    """What Lightning 2.6.6's evaluation loop does where nobody else watches its batches.

    Args:
        trainer: the Trainer.
        loop: the loop that it works for.
        known: the class of modules whose steps and hooks are known.
    """

    def __init__(self, trainer: pl.Trainer, loop: Any, known: type) -> None:
        self._trainer: Any = trainer
        self._loop = loop
        self._known = known

    @functools.cached_property
    def _is_plain(self) -> bool:
        strategy = self._trainer.strategy
        return all(
            _is_plain(self._trainer, self._loop, self._known, (f"{stage}_step", *_hooks(stage)))
            and not replaces(strategy, pl.strategies.Strategy, f"on_{stage}_start")
            and not replaces(strategy, pl.strategies.Strategy, f"on_{stage}_end")
            for stage in ("validation", "test")
        )

    def run(self) -> Any:
        """Evaluate, and return what was logged for each loader.

        Raises:
            SIGTERMException: SIGTERM has come, and Lightning is to act on it.
        """
        loop = self._loop
        if self._is_plain and not loop.restarting:
            with torch.no_grad():
                loop.setup_data()
                limits = loop.max_batches
                if not sum(limits):
                    return []
                [loader, *others] = door.loaders(loop)
                if not others and isinstance(loader, (ValidationBatches, WholeDataset)):
                    [limit] = limits
                    # A hook has said that a loader without a length has no limit.
                    return self._run(loader, int(limit if limit < UNSIZED else len(loader)))
        return type(loop).run(loop)

    def _run(self, loader: ValidationBatches | WholeDataset, length: int) -> Any:
        trainer, loop = self._trainer, self._loop
        stage = "test" if loop is trainer.test_loop else "validation"
        module = trainer.strategy.lightning_module
        door.begin_evaluation(loop)
        door.call_hook(module, f"on_{stage}_model_eval", getattr(module, f"on_{stage}_model_eval"))
        self._call(f"on_{stage}_start")
        self._call(f"on_{stage}_epoch_start")
        self._evaluate(stage, itertools.islice(loader, length), length)
        logged = door.logged_in_batches(trainer, loop)
        self._call(f"on_{stage}_epoch_end")
        door.log_evaluation(trainer, loop, logged)
        self._call(f"on_{stage}_end")
        door.end_evaluation(trainer, loop, logged)
        door.call_hook(
            module, f"on_{stage}_model_train", getattr(module, f"on_{stage}_model_train")
        )
        return [logged]

    def _call(self, hook: str) -> None:
        """Call a hook of the callbacks and of the module, as Lightning does."""
        trainer = self._trainer
        module = trainer.strategy.lightning_module
        door.call_hook(module, hook, self._call_all, hook, module)

    def _call_all(self, hook: str, module: Any) -> None:
        for callback in self._trainer.callbacks:
            getattr(callback, hook)(self._trainer, module)
        getattr(module, hook)()

    @functools.cached_property
    def _own_steps(self) -> dict[str, bool]:
        steps = ("validation_step", "test_step")
        return {step: _own_step(self._trainer.strategy, step) is not None for step in steps}

    def _evaluate(self, stage: str, loader: Iterator[Any], length: int) -> None:
        strategy, step = self._trainer.strategy, f"{stage}_step"
        module = strategy.lightning_module
        told = Listeners(self._trainer, _hooks(stage))
        with contextlib.closing(self._batches(told, self._on_device(loader), length)) as batches:
            if self._own_steps[step]:
                door.call_hook(module, step, module.validation_steps, batches)
                return
            for index, batch in enumerate(batches):
                door.call_hook(module, step, getattr(strategy, step), batch, index)

    def _on_device(self, loader: Iterator[Any]) -> Iterator[Any]:
        strategy = self._trainer.strategy
        convert, device = strategy.precision_plugin.convert_input, strategy.root_device
        to_device = strategy.lightning_module.transfer_batch_to_device
        for batch in loader:
            yield to_device(convert(batch), device, 0)

    def _batches(self, told: Listeners, batches: Iterator[Any], length: int) -> Generator[Any]:
        """The batches, of which callbacks hear before and after.

        Where none listens, they are counted once, when they are over.

        Raises:
            SIGTERMException: SIGTERM has come before the last batch.
        """
        trainer, loop = self._trainer, self._loop
        begun = ended = 0
        try:
            for begun, batch in enumerate(() if told else batches, 1):
                door.begin_batch(trainer, loop, batch)
                yield batch
                ended = begun
                door.end_batch_of_evaluation(trainer, loop)
                self._check_sigterm(ended == length)
                if told.have_changed():
                    break
        finally:
            loop.batch_progress.is_last_batch = begun == length
            door.count_batches(loop, begun, ended)
        yield from self._heard(told, batches, begun, length)

    def _check_sigterm(self, is_last_batch: bool) -> None:
        if self._trainer.received_sigterm and not is_last_batch:
            raise pl.utilities.exceptions.SIGTERMException

    def _heard(
        self, told: Listeners, batches: Iterator[Any], first: int, length: int
    ) -> Iterator[Any]:
        trainer, loop, progress = self._trainer, self._loop, self._loop.batch_progress
        start, end = told.hooks
        for index, batch in enumerate(batches, first):
            progress.is_last_batch = index + 1 == length
            progress.increment_ready()
            door.begin_batch(trainer, loop, batch)
            told.tell(start, batch, index)
            progress.increment_started()
            yield batch
            progress.increment_processed()
            told.tell(end, None, batch, index)
            progress.increment_completed()
            door.end_batch_of_evaluation(trainer, loop)
            self._check_sigterm(progress.is_last_batch)


def _hooks(stage: str) -> tuple[str, str]:
    return f"on_{stage}_batch_start", f"on_{stage}_batch_end"

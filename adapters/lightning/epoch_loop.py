"""Lightning's loops over batches, without what nobody is there to notice.

For a model of one layer, Lightning 2.6.6 spends three times as long between two batches as in one:
it calls a dozen hooks that do nothing, each in a profiler's context, collects what nobody logged,
inspects the signature of ``training_step``, and under DDP waits for a broadcast over all ranks.
Lightning has had no public way to give a Trainer another loop since 2.0; so the methods of its
loop objects that run for each batch are replaced here while a trial runs on them, and nowhere else,
and only in a Lightning that ``known.py`` knows.
"""

from collections.abc import Callable, Iterator
from typing import Any

from det_compat.adapters.data.batch_stream import BatchStream
from det_compat.adapters.lightning import door
from det_compat.adapters.lightning.known import is_known
from det_compat.adapters.lightning.package import MODULE, pl
from det_compat.adapters.lightning.unknown import checks

_TRAINING = ("on_train_batch_start", "on_train_batch_end")
_VALIDATION = ("on_validation_batch_start", "on_validation_batch_end")
_TRANSFER = ("on_before_batch_transfer", "on_after_batch_transfer")


def shorten_training(trainer: pl.Trainer, known: type) -> None:
    """Replace what the training loop does for each batch, if nothing depends on what is left out.

    ``known`` is the class of modules whose steps and hooks are known.

    Raises:
        InvalidExperimentException: Lightning would reduce gradients twice.
    """
    checks.check_training(trainer)
    restore_loops(trainer)
    hooks = (*_TRAINING, "training_step", "on_validation_model_zero_grad")
    loop = door.training_loop(trainer)
    if (
        _is_plain(trainer, loop, known, hooks)
        and isinstance(trainer.train_dataloader, BatchStream)
        and not replaces(trainer.strategy, pl.strategies.Strategy, _TRAINING[0])
    ):
        vars(loop)[door.ADVANCE] = ShortLoop(trainer, loop, _TRAINING).advance


def shorten_validation(trainer: pl.Trainer, known: type) -> None:
    """Replace what the loop of the validation that is about to start does for each batch.

    Raises:
        InvalidExperimentException: it is a validation that a trial would not be the same after.
    """
    checks.check_validation(trainer)
    for loop in door.running_validations(trainer):
        _restore(loop)
        if _is_plain(trainer, loop, known, (*_VALIDATION, "validation_step")):
            short = ShortLoop(trainer, loop, _VALIDATION)
            vars(loop)[door.EVALUATION_STEP] = short.evaluate
            vars(loop)[door.SIGNATURE_CHECK] = short.check_signatures


def restore_loops(trainer: pl.Trainer) -> None:
    """Let the loops use their own methods again."""
    for loop in door.loops_over_batches(trainer):
        _restore(loop)


def _restore(loop: Any) -> None:
    for name, value in [*vars(loop).items()]:
        if isinstance(getattr(value, "__self__", None), ShortLoop):
            del vars(loop)[name]


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
    is_lightnings = type(loop).__module__.startswith(f"{MODULE}.")
    return is_lightnings and not any(hasattr(type(loop), name) for name in vars(loop))


def _own_step(strategy: Any, step: str) -> Callable[..., Any] | None:
    """The module's method ``step``, where the strategy does nothing else; None where it does."""
    precision, module = strategy.precision_plugin, strategy.lightning_module
    is_plain = (
        type(precision).forward_context is pl.plugins.precision.Precision.forward_context
        and all(
            getattr(type(precision), name) is getattr(pl.plugins.precision.Precision, name)
            for name in ("train_step_context", "val_step_context")
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

    @property
    def are_none(self) -> bool:
        """Whether no callback has either of the hooks."""
        self._look_again()
        return not any(self._methods.values())

    @property
    def are_others(self) -> bool:
        """Whether the Trainer has other callbacks than when they were looked at."""
        return bool(self._trainer.callbacks != self._callbacks)

    def _look_again(self) -> None:
        if self.are_others:
            self.refresh()

    def tell(self, hook: str, *args: Any) -> None:
        """Call what the callbacks have for ``hook``, as Lightning does."""
        self._look_again()
        if methods := self._methods[hook]:
            module = self._trainer.lightning_module
            door.call_hook(module, hook, self._tell_all, methods, module, args)

    def _tell_all(self, methods: list[Callable[..., Any]], module: Any, args: Any) -> None:
        for method in methods:
            method(self._trainer, module, *args)


class ShortLoop:
    """What Lightning 2.6.6's loops over batches do for a batch that nobody else watches.

    Args:
        trainer: the Trainer.
        loop: the loop that it works for.
        hooks: the names of the hooks at the start and the end of a batch.
    """

    def __init__(self, trainer: pl.Trainer, loop: Any, hooks: tuple[str, str]) -> None:
        self._trainer: Any = trainer
        self._loop = loop
        self._progress = loop.batch_progress
        self._hooks = hooks
        self._trains = hooks == _TRAINING
        self._step = "training_step" if self._trains else "validation_step"
        own = _own_step(trainer.strategy, self._step)
        self._is_direct = own is not None
        self._take_step = own or getattr(trainer.strategy, self._step)
        self._listeners = Listeners(trainer, hooks)
        self._begun = self._done = 0

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
            door.count_batch_for_loggers(loop)
            self._train(data_fetcher)

    def _train(self, data_fetcher: Any) -> None:
        batch, is_last = door.next_batch(data_fetcher)
        batch_idx = self._progress.current.ready
        if batch_idx == 0:
            self._listeners.refresh()
        self._progress.is_last_batch = is_last
        self._run(batch, batch_idx, {})

    def evaluate(self, batch: Any, batch_idx: int, *_: Any) -> None:
        """Evaluate a batch, and those that are left while nobody is to hear of any.

        Raises:
            SIGTERMException: SIGTERM has come, and Lightning is to act on it.
        """
        self._run(batch, batch_idx, None)
        trainer, loop = self._trainer, self._loop
        if self._is_direct and self._listeners.are_none and door.can_go_on(trainer, loop):
            module = trainer.strategy.lightning_module
            self._begun = self._done = 0
            steps, left = module.validation_steps, self._left()
            try:
                door.call_hook(module, self._step, steps, left, batch_idx + 1)
            finally:
                door.count_evaluated(trainer, loop, self._begun, self._done)
        if trainer.received_sigterm and not self._progress.is_last_batch:
            raise pl.utilities.exceptions.SIGTERMException

    def check_signatures(self) -> None:
        """Check what the module's hooks take, but for one loader, which has been done once."""
        if self._loop.num_dataloaders != 1:
            getattr(type(self._loop), door.SIGNATURE_CHECK)(self._loop)

    def _left(self) -> Iterator[Any]:
        """The batches that are left to evaluate, on the device, up to one that has an effect."""
        trainer, loop = self._trainer, self._loop
        strategy = trainer.strategy
        convert, device = strategy.precision_plugin.convert_input, strategy.root_device
        to_device = strategy.lightning_module.transfer_batch_to_device
        logged = door.logged_in(loop)
        for batch in door.batches_left(loop):
            self._begun += 1
            batch = to_device(convert(batch), device, 0)
            door.show_batch(loop, batch)
            yield batch
            self._done += 1
            if logged or trainer.received_sigterm or self._listeners.are_others:
                return

    def _run(self, batch: Any, batch_idx: int, outputs: dict[str, Any] | None) -> None:
        trainer, told, progress = self._trainer, self._listeners, self._progress
        start, end = self._hooks
        strategy = trainer.strategy
        module = strategy.lightning_module
        batch = strategy.precision_plugin.convert_input(batch)
        batch = module.transfer_batch_to_device(batch, strategy.root_device, 0)
        progress.increment_ready()
        door.begin_batch(trainer, self._loop, batch)
        told.tell(start, batch, batch_idx)
        progress.increment_started()
        door.call_hook(module, self._step, self._take_step, batch, batch_idx)
        if self._trains:
            strategy.post_training_step()
        progress.increment_processed()
        told.tell(end, outputs, batch, batch_idx)
        door.call_hook(module, end, getattr(module, end), outputs, batch, batch_idx)
        door.end_batch(trainer, self._loop, trains=self._trains)

    def _may_be_due(self) -> bool:
        """Whether Lightning may have to validate, or to end the epoch or the training."""
        return (
            door.training_is_over(self._loop)
            or self._trainer.should_stop
            or self._trainer.received_sigterm
            or self._may_validate()
        )

    def _may_validate(self) -> bool:
        trainer, progress = self._trainer, self._progress
        period = trainer.val_check_batch
        if period is None:  # Lightning validates by the clock.
            return True
        if period == float("inf"):
            return isinstance(trainer.limit_train_batches, int)
        counts_on = trainer.check_val_every_n_epoch is None
        batches = progress.total.ready if counts_on else progress.current.ready
        return bool(batches % period == 0)

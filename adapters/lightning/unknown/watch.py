"""Looks, where Lightning is not known, whether it lets a trial train what Determined trained.

Lightning calls the hooks of a module and asks for batches. In between it must leave alone what
weights depend on, and call what is due. A change is refused, as far as it shows: the batch or the
hook after which it was found is named.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from det_compat.adapters.data.loaders import UNSIZED
from det_compat.adapters.lightning.door import validates_by_time
from det_compat.adapters.lightning.known import refusal
from det_compat.adapters.lightning.package import MODULE, pl
from det_compat.adapters.lightning.unknown.checks import check_saved
from det_compat.adapters.lightning.unknown.surroundings import (
    DTYPE,
    SETTINGS,
    Surroundings,
    difference,
    hooks_of,
    numbers_of,
    state_of,
    surroundings,
)

if TYPE_CHECKING:
    from det_compat.adapters.lightning.run_module import RunModule
    from det_compat.adapters.run.trial_run import TrialRun

# The hooks from whose end to the beginning of the next Lightning is on its own.
_HOOKS = (
    *(
        "configure_model",
        "configure_optimizers",
        "on_fit_start",
        "train_dataloader",
        "val_dataloader",
    ),
    *("on_train_start", "training_step", "on_train_batch_end", "on_train_epoch_end"),
    *("on_validation_model_eval", "on_validation_start", "validation_step"),
    *("on_validation_epoch_end", "on_validation_end", "transfer_batch_to_device"),
    *("on_save_checkpoint", "on_load_checkpoint", "load_state_dict", "on_train_end"),
    "on_fit_end",
)
# Those of them that a fit has once.
_ONCE = {"on_fit_start", "on_train_start", "on_train_end", "on_fit_end"}
# Callbacks of Lightning 2.6.6 that change nothing of a trial and draw no random numbers.
_QUIET = {
    *("EarlyStopping", "LearningRateMonitor", "ModelCheckpoint", "ModelSummary", "ProgressBar"),
    *("RichModelSummary", "RichProgressBar", "TQDMProgressBar", "DeviceStatsMonitor", "Timer"),
}
# In so many batches at the start of training numbers are looked at, which takes time.
_BY_NUMBERS = 8
# What stands for a batch that was trained on or evaluated.
_USED = object()
_QUIET_LOGGERS = {"CSVLogger", "TensorBoardLogger"}


class Watch:
    """Keeps what was when Lightning went on, and compares it when it comes back.

    Args:
        module: the module that is fitted.
    """

    def __init__(self, module: RunModule) -> None:
        self._module = module
        self._left: Surroundings | None = None
        self._after = ""
        self._own_depth = 0
        self._is_asked = False
        self._trains = False
        self._is_due: bool | None = None
        self._batch: Any = _USED
        self._evaluated = 0
        self._is_validating = False
        self._begun_after: int | None = None
        self._has_loaded = False
        self._called: set[str] = set()

    @functools.cached_property
    def is_alone(self) -> bool:
        """Whether nothing of the user's runs in Lightning, which may do as it likes."""
        trainer: Any = self._module.trainer
        callbacks = {type(callback) for callback in trainer.callbacks}
        loggers = {type(logger) for logger in trainer.loggers}
        return all(_is_quiet(kind, _QUIET) for kind in callbacks) and all(
            _is_quiet(kind, _QUIET_LOGGERS) for kind in loggers
        )

    def call(self, name: str, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call what is ours, for Lightning: a hook of this name, or what gives data."""
        if self._own_depth:
            # Lightning was asked for something by a hook, in which the trial may do as it likes.
            return own(*args, **kwargs)
        self._comes_back(name, (*args, *kwargs.values()))
        self._own_depth += 1
        result = None
        try:
            result = own(*args, **kwargs)
        finally:
            self._own_depth -= 1
            self._goes_on(name, result)
        return result

    def data(self, data: Any) -> Any:
        """The trial's ``data``, watched while Lightning iterates over them."""
        return _Data(data, self)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the hooks of the module, from the one on in which Lightning was not known."""
        own = vars(self._module)
        own.update((name, self._watched(name)) for name in _HOOKS)
        self._keep("setup")
        try:
            yield
        finally:
            for name in _HOOKS:
                own.pop(name, None)

    def _watched(self, name: str) -> Callable[..., Any]:
        hook = getattr(self._module, name)

        @functools.wraps(hook)
        def called(*args: Any, **kwargs: Any) -> Any:
            return self.call(name, hook, *args, **kwargs)

        return called

    def saves(self, checkpoint: dict[str, Any]) -> None:
        """Lightning writes this, in a fit or after it."""
        if self.is_alone:
            check_saved(checkpoint, self._module.models, self._module.run.steering)

    @contextlib.contextmanager
    def validation_asked_for(self) -> Iterator[None]:
        """Lightning validates when it is asked to, and not of its own accord."""
        depth, self._own_depth, self._is_asked = self._own_depth, 0, True
        self._keep("the call for a validation")
        try:
            yield
            self._compare("the end of a validation")
            self._check_validation_is_over("the end of a validation")
        finally:
            self._own_depth, self._is_asked, self._left = depth, False, None

    def _comes_back(self, name: str, args: tuple[Any, ...]) -> None:
        self._compare(name)
        if name in _ONCE:
            if name in self._called:
                self._refuse(f"calls {name} twice", name)
            self._called.add(name)
        if name == "transfer_batch_to_device":
            self._check_fetched(args[0])
        if name in ("training_step", "validation_step"):
            self._check_batch(name, args[0])
        if name == "on_validation_epoch_end":
            self._check_number()
        if name in ("training_step", "on_train_epoch_end") and self._is_due:
            self._refuse("does not validate when it is due", name)
        if name == "on_train_start":
            self._check_start()
        if name == "training_step" and self._has_to_stop():
            self._refuse("goes on when it is told to stop", name)
        if name == "on_train_end":
            self._check_end()
        if name == "on_fit_end" and self._trains:
            self._refuse("does not say that training has ended", name)
        if name == "on_validation_start" and self._is_due is False and not self._is_asked:
            self._refuse("validates when it is not due", name)
        if name in ("on_validation_end", "training_step", "on_train_epoch_end", "on_train_end"):
            self._check_validation_is_over(name)
        if name == "on_train_epoch_end":
            self._check_epoch()
        if name in ("on_validation_start", "training_step"):
            self._is_due, self._evaluated = None, 0
        if name == "on_validation_start":
            self._is_validating = True

    def _goes_on(self, name: str, result: Any) -> None:
        if name == "on_load_checkpoint":
            self._has_loaded = True
        if name == "on_train_start":
            self._trains = True
        if name == "on_train_end":
            self._trains = False
        if name in ("next()", "transfer_batch_to_device"):
            self._batch = result
        if name == "on_train_batch_end":
            self._is_due = _validation_is_due(self._module.trainer, self._module.run)
        self._keep(name)

    def _keep(self, name: str) -> None:
        self._left, self._after = self._seen(), name

    def _compare(self, name: str) -> None:
        left, self._left = self._left, None
        if left is not None and (changed := difference(left, self._seen())) is not None:
            for words, setting in SETTINGS.items():
                setting.set(left.get(words, setting.get()))
            self._refuse(changed, name)

    def _seen(self) -> Surroundings:
        trainer: Any = self._module.trainer
        found = surroundings() if self.is_alone else {}
        if getattr(trainer, "precision", None) != "32-true":
            # It is a plugin's way to compute that way.
            found.pop(DTYPE, None)
        module = self._module
        if self.is_alone:
            found.update(hooks_of(module.models, module.context.optimizers))
        if self.is_alone and self._trains:
            found.update(state_of(module.models, module.context.optimizers))
        since = module.run.state.batches_trained - (self._begun_after or 0)
        if self.is_alone and not (self._trains and since > _BY_NUMBERS):
            found.update(numbers_of(module.models))
        return found

    def _check_fetched(self, batch: Any) -> None:
        own = type(self._module).on_before_batch_transfer
        is_plain = getattr(self._module.trainer, "precision", None) == "32-true"
        is_plain = is_plain and own is pl.LightningModule.on_before_batch_transfer
        if is_plain and batch is not self._batch:
            self._refuse("changes batches", "transfer_batch_to_device")

    def _check_batch(self, name: str, batch: Any) -> None:
        own = type(self._module).on_after_batch_transfer
        expected, self._batch = self._batch, _USED
        self._evaluated += 1
        if own is pl.LightningModule.on_after_batch_transfer and batch is not expected:
            self._refuse("hands on another batch than the loader's next one", name)
        device = self._module.device.type
        if torch.is_autocast_enabled(device) and self._module.trainer.precision == "32-true":
            self._refuse("turns on autocast", name)
        if name == "training_step" and not torch.is_grad_enabled():
            self._refuse("turns off gradients", name)

    def _check_number(self) -> None:
        self._is_validating = False
        data, limit = self._module.run.validation.data, self._module.trainer.limit_val_batches
        if data is None:
            return
        expected = min(limit, len(data)) if isinstance(limit, int) else int(limit * len(data))
        if self._evaluated != expected and expected < UNSIZED:
            self._refuse(f"evaluates {self._evaluated} batches and not {expected}", "their end")

    def _check_start(self) -> None:
        self._begun_after = self._module.run.state.batches_trained
        if self._module.trainer.ckpt_path is not None and not self._has_loaded:
            self._refuse("does not load the checkpoint that it was given", "on_train_start")

    def _check_validation_is_over(self, name: str) -> None:
        if self._is_validating:
            self._refuse("does not end the validation that it has started", name)

    def _check_epoch(self) -> None:
        """Look whether an epoch has all its batches, where nothing has ended it."""
        run, trainer = self._module.run, self._module.trainer
        is_over = self._is_told_to_stop() or getattr(trainer, "max_steps", 0) >= 0
        batches = run.state.batches_trained % run.epoch_len if run.epoch_len else 0
        if batches and not is_over and run.epoch_len < UNSIZED:
            what = f"ends an epoch after {batches} of {run.epoch_len} batches"
            self._refuse(what, "on_train_epoch_end")

    def _has_to_stop(self) -> bool:
        trainer: Any = self._module.trainer
        least = getattr(trainer, "min_epochs", None) or getattr(trainer, "min_steps", None)
        return self._is_told_to_stop() and not least

    def _is_told_to_stop(self) -> bool:
        return self._module.run.is_stopping or getattr(self._module.trainer, "should_stop", False)

    def _check_end(self) -> None:
        """Look whether as many batches were trained as flags say, where nothing has stopped it."""
        run, trainer = self._module.run, self._module.trainer
        if self._begun_after is None or self._is_told_to_stop():
            return
        # In a Lightning that has other names for them nobody knows.
        with contextlib.suppress(AttributeError):
            epochs, steps = trainer.max_epochs, trainer.max_steps
            limits = [steps] if steps >= 0 else []
            if epochs is not None and epochs >= 0:
                limits.append(epochs * run.epoch_len)
            end = max(min(limits), self._begun_after) if limits else UNSIZED
            if run.state.batches_trained != end and end < UNSIZED:
                self._refuse(f"trains {run.state.batches_trained} batches and not {end}", "the end")
            if not limits:
                self._refuse("ends training, which nothing has told it to", "the end")

    def _refuse(self, what: str, name: str) -> None:
        batches = self._module.run.state.batches_trained
        raise refusal(
            f"it {what} (after {batches} batches, between {self._after or 'its start'} and {name})"
        )


class _Data:
    """Data whose iteration is ours, in which loaders may draw random numbers."""

    def __init__(self, data: Any, watch: Watch) -> None:
        self._data = data
        self._watch = watch

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Any]:
        return _DataIterator(self._watch.call("iter()", iter, self._data), self._watch)

    def state_dict(self) -> dict[str, Any]:
        """Return nothing, as streams do, which Lightning asks."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing."""


class _DataIterator:
    def __init__(self, iterator: Iterator[Any], watch: Watch) -> None:
        self._iterator = iterator
        self._watch = watch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._watch.call("next()", next, self._iterator)


def without_hooks(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a module without the hooks that are watched, for a copy of it."""
    return {name: value for name, value in state.items() if name not in _HOOKS}


def _is_quiet(kind: type, names: set[str]) -> bool:
    own = kind.__module__.startswith("det_compat.")
    return own or (kind.__module__.startswith(f"{MODULE}.") and kind.__name__ in names)


def _validation_is_due(trainer: Any, run: TrialRun) -> bool | None:
    """Whether flags want a validation after this batch, as Lightning 2.6.6 reads them.

    None where it depends on more than the batch.
    """
    if validates_by_time(trainer):
        return None
    # In a Lightning that has other names for them nobody knows.
    with contextlib.suppress(AttributeError):
        every, epochs = trainer.val_check_interval, trainer.check_val_every_n_epoch
        batches, epoch_len = run.state.batches_trained, run.epoch_len
        if isinstance(every, float):
            every = max(1, int(epoch_len * every)) if epoch_len < UNSIZED else None
        if trainer.should_stop or not isinstance(every, int):
            return None
        if not trainer.enable_validation:
            return False
        if epochs is None:
            return bool(batches % every == 0)
        epoch, in_epoch = divmod(batches - 1, epoch_len)
        return bool((epoch + 1) % epochs == 0 and (in_epoch + 1) % every == 0)
    return None

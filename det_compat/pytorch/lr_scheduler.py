"""The learning rate schedulers that the trainer steps."""

import copy
import enum
import functools
import numbers
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec

P = ParamSpec("P")

# The step mode for each keyword that PEDL and early Determined 0.12 had.
_EARLY = {"step_every_batch": "STEP_EVERY_BATCH", "step_every_epoch": "STEP_EVERY_EPOCH"}


def _takes_early_keywords(init: Callable[P, None]) -> Callable[P, None]:
    """Let ``LRScheduler.__init__`` take the keywords that PEDL and early 0.12 had.

    Neither of them true is MANUAL_STEP: the trial steps the scheduler itself.
    """

    @functools.wraps(init)
    def with_early_keywords(*args: Any, **kwargs: Any) -> None:
        given = {key: kwargs.pop(key) for key in _EARLY if key in kwargs}
        if given:
            step_mode = _early_step_mode(given)
            if len(args) > 2 or "step_mode" in kwargs:
                raise TypeError(
                    f"LRScheduler got a step_mode and also {', '.join(given)}: give step_mode alone"
                )
            kwargs["step_mode"] = step_mode
        init(*args, **kwargs)

    return with_early_keywords


def _early_step_mode(given: dict[str, bool]) -> Any:
    asked = [_EARLY[key] for key, is_asked in given.items() if is_asked]
    if len(asked) > 1:
        raise TypeError(
            "LRScheduler got step_every_batch=True and step_every_epoch=True: choose one"
        )
    return LRScheduler.StepMode[asked[0] if asked else "MANUAL_STEP"]


class LRScheduler:
    """A scheduler and when the trainer is to step it, as in Determined 0.38.1.

    ``scheduler`` is torch's or anything with ``step``, ``get_last_lr``, ``state_dict`` and
    ``load_state_dict``. ``frequency`` counts in the units of ``step_mode``.

    Raises:
        TypeError: ``step_mode`` is no StepMode or ``frequency`` no number.
        ValueError: ``frequency`` is 0.
    """

    class StepMode(enum.Enum):
        """What the trainer steps a scheduler after; MANUAL_STEP leaves it to the trial."""

        STEP_EVERY_EPOCH = 1
        STEP_EVERY_BATCH = 2
        MANUAL_STEP = 3
        STEP_EVERY_OPTIMIZER_STEP = 4

    @_takes_early_keywords
    def __init__(self, scheduler: Any, step_mode: StepMode, frequency: int = 1) -> None:
        self._scheduler = scheduler
        self._step_mode = as_step_mode(step_mode)
        if self._step_mode is not LRScheduler.StepMode.MANUAL_STEP:
            _check_frequency(frequency)
        self._frequency = frequency

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Step the scheduler."""
        self._scheduler.step(*args, **kwargs)

    def get_last_lr(self) -> list[Any]:
        """The learning rate of each parameter group."""
        last_lr: list[Any] = self._scheduler.get_last_lr()
        return last_lr

    def state_dict(self) -> dict[Any, Any]:
        """The scheduler's state."""
        state: dict[Any, Any] = self._scheduler.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[Any, Any]) -> None:
        """Take back what ``state_dict`` returned."""
        self._scheduler.load_state_dict(state_dict)


class Stepping(NamedTuple):
    """What a wrapper wraps; ``step_mode`` is a StepMode of det_compat or of the real determined."""

    scheduler: Any
    step_mode: Any
    frequency: int


def stepping_of(wrapper: Any) -> Stepping:
    """What an LRScheduler wraps, one of the real determined's or of early releases, too.

    Raises:
        TypeError: ``wrapper`` is no LRScheduler.
    """
    if not hasattr(wrapper, "_step_mode"):
        raise TypeError(
            f"expected an LRScheduler(scheduler, step_mode=...), got {type(wrapper).__name__}"
        )
    return Stepping(wrapper._scheduler, wrapper._step_mode, getattr(wrapper, "_frequency", 1))


def step_what_is_due(
    wrappers: Sequence[Any], batch_idx: int, epoch_len: int, aggregation: int
) -> None:
    """Step LR schedulers after a batch, as Determined 0.38.1 does.

    Nothing steps on batches that only accumulate gradients; what became due on them is caught up on
    the batch that steps the optimizers. ``frequency`` of STEP_EVERY_OPTIMIZER_STEP counts batches.

    Args:
        wrappers: LRSchedulers, of the real determined's or of early releases, too.
        batch_idx: the batch, counted from the start of training.
        epoch_len: batches in an epoch.
        aggregation: batches over which gradients are accumulated.
    """
    if (batch_idx + 1) % aggregation != 0:
        return
    for wrapper in wrappers:
        for _ in range(_steps_due(wrapper, batch_idx, epoch_len, aggregation)):
            wrapper.step()


def _steps_due(wrapper: Any, batch_idx: int, epoch_len: int, aggregation: int) -> int:
    _, step_mode, frequency = stepping_of(wrapper)
    mode = step_mode.name
    if mode == "STEP_EVERY_BATCH":
        return _multiples(batch_idx + 1 - aggregation, batch_idx + 1, frequency)
    if mode == "STEP_EVERY_OPTIMIZER_STEP":
        return _multiples(batch_idx, batch_idx + 1, frequency)
    if mode == "STEP_EVERY_EPOCH":
        epochs_done = batch_idx // epoch_len
        epochs_done_next = (batch_idx + aggregation) // epoch_len
        return _multiples(epochs_done, epochs_done_next, frequency)
    return 0


def _multiples(above: int, up_to: int, of: int) -> int:
    """How many multiples of ``of`` are greater than ``above`` and not greater than ``up_to``."""
    return up_to // of - above // of


def settings_of(optimizer: Any) -> list[dict[str, Any]]:
    """What each group of an optimizer is set to, its learning rate among it."""
    return [
        {name: copy.copy(value) for name, value in group.items() if name != "params"}
        for group in getattr(optimizer, "param_groups", ())
    ]


def as_step_mode(value: Any) -> LRScheduler.StepMode:
    """``value``, or the member with the name of ``value`` where that is the real determined's.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, enum.Enum) and value.name in LRScheduler.StepMode.__members__:
        return LRScheduler.StepMode[value.name]
    names = ", ".join(LRScheduler.StepMode.__members__)
    raise TypeError(
        f"step_mode must be a member of LRScheduler.StepMode ({names}), "
        f"got {type(value).__name__} {value!r}"
    )


def _check_frequency(frequency: Any) -> None:
    if not isinstance(frequency, numbers.Real):
        raise TypeError(f"frequency must be an int, got {type(frequency).__name__} {frequency!r}")
    if frequency == 0:
        raise ValueError("frequency must be at least 1, got 0: use MANUAL_STEP to step yourself")

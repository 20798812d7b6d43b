"""What a trial can ask its context about configuration and progress, and what it can set there."""

import logging
from collections.abc import Callable
from typing import Any

from det_compat.errors import InvalidExperimentException, NotThereYetError
from det_compat.pytorch.context.amp import grad_scaler
from det_compat.script.task import current_task

logger = logging.getLogger("determined.pytorch")


def experiment_seed(exp_conf: dict[str, Any] | None) -> int | None:
    """``reproducibility.experiment_seed`` of an experiment config, None if it has none."""
    seed: int | None = ((exp_conf or {}).get("reproducibility") or {}).get("experiment_seed")
    return seed


def checked_hparams(hparams: Any) -> dict[str, Any]:
    """``hparams``, or an empty dict for None.

    Raises:
        TypeError: they are no dict.
    """
    if hparams is not None and not isinstance(hparams, dict):
        raise TypeError(
            f"hparams must be a dict of values by name, got {hparams!r} ({type(hparams).__name__})"
        )
    return hparams or {}


def split_global_batch_size(
    hparams: dict[str, Any] | None, slots: int
) -> tuple[int | None, int | None]:
    """``(per slot, global)`` batch size in records, or two Nones if hparams have no global one.

    Raises:
        InvalidExperimentException: ``global_batch_size`` is no positive integer, or does not divide
            by the number of slots (where Determined 0.38.1 warned and trained on fewer records).
    """
    size = checked_hparams(hparams).get("global_batch_size")
    if not size:
        return None, None
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InvalidExperimentException(
            "the hyperparameter global_batch_size must be an integer of at least 1, got "
            f"{size!r} ({type(size).__name__})"
        )
    if size < slots or size % slots:
        raise InvalidExperimentException(
            f"the hyperparameter global_batch_size={size} does not divide by the number of slots "
            f"(ranks), {slots}. Set it to a multiple of {slots}, for example "
            f"{max(size - size % slots, slots)}."
        )
    return size // slots, size


def _given(value: dict[str, Any] | None, what: str, argument: str) -> dict[str, Any]:
    if value is None:
        raise ValueError(
            f"the trial asks for {what} given: pass {argument}={{...}} to "
            "pytorch.init() or to the module"
        )
    return value


class TrialSettings:
    """The hyperparameters, experiment config, batch size and seed, as in Determined 0.38.1."""

    def __init__(
        self,
        hparams: dict[str, Any] | None,
        exp_conf: dict[str, Any] | None,
        trial_seed: int | None,
        steps_completed: int,
        slots: int,
    ) -> None:
        self._hparams = hparams
        self._exp_conf = exp_conf
        self._trial_seed = trial_seed
        self._steps_completed = steps_completed
        self._told_initial_batch = False
        self._per_slot_batch_size, self._global_batch_size = split_global_batch_size(hparams, slots)

    def get_global_batch_size(self) -> int:
        """The number of records in a batch over all slots.

        Raises:
            ValueError: the hyperparameters have no ``global_batch_size``.
        """
        return self._batch_size(self._global_batch_size, "get_global_batch_size")

    def get_per_slot_batch_size(self) -> int:
        """The number of records in a batch of one slot: the global one divided by the slots.

        Raises:
            ValueError: the hyperparameters have no ``global_batch_size``.
        """
        return self._batch_size(self._per_slot_batch_size, "get_per_slot_batch_size")

    def _batch_size(self, size: int | None, method: str) -> int:
        if size is None:
            raise ValueError(
                f"context.{method}() needs the hyperparameter global_batch_size, and "
                f"{self._hparams_seen()}. Add it to the hparams given to pytorch.init() or to the "
                "module."
            )
        return size

    def _hparams_seen(self) -> str:
        if self._hparams is None:
            return "no hparams were given"
        return f"the hparams have only {sorted(map(str, self._hparams))}"

    def get_experiment_config(self) -> dict[str, Any]:
        """The experiment config given as ``exp_conf``.

        Raises:
            ValueError: none was given.
        """
        return _given(self._exp_conf, "its experiment config, and none was", "exp_conf")

    def get_data_config(self) -> dict[str, Any]:
        """The ``data`` section of the experiment config, ``{}`` if it has none."""
        data: dict[str, Any] = self.get_experiment_config().get("data", {})
        return data

    def get_hparams(self) -> dict[str, Any]:
        """All hyperparameters.

        Raises:
            ValueError: none were given.
        """
        return _given(self._hparams, "hyperparameters, and none were", "hparams")

    def get_hparam(self, name: str) -> Any:
        """The hyperparameter ``name``.

        Raises:
            ValueError: there is none of that name.
        """
        hparams = self.get_hparams()
        if name not in hparams:
            raise ValueError(
                f"Could not find name '{name}' in experiment hyperparameters. Please check your "
                "experiment configuration 'hyperparameters' section, which has "
                f"{sorted(map(str, hparams))}"
            )
        if name == "global_batch_size":
            logger.warning(
                "Please use `context.get_per_slot_batch_size()` and "
                "`context.get_global_batch_size()` instead of accessing `global_batch_size` "
                "directly."
            )
        return hparams[name]

    def get_trial_seed(self) -> int:
        """The seed of the trial.

        Raises:
            NotThereYetError: the run has none.
        """
        if self._trial_seed is None:
            raise NotThereYetError(
                "this run has no trial seed: set reproducibility.experiment_seed in exp_conf"
            )
        return self._trial_seed

    def get_initial_batch(self) -> int:
        """The number of batches that were trained before this run began."""
        self._told_initial_batch = self._told_initial_batch or self._steps_completed > 0
        return self._steps_completed

    def get_experiment_id(self) -> int:
        """Return 0: only a Determined cluster numbers experiments."""
        return 0

    def get_trial_id(self) -> int:
        """The number of the trial in the search that det_compat runs, from 1; 0 without one."""
        task = current_task()
        return 0 if task is None else task.trial_id


class TrialProgress:
    """The current batch and epoch, and the request to stop, as Determined 0.38.1 has them."""

    _epoch_len: int | None = None
    _count_epoch: Callable[[], int] | None = None
    _current_batch_idx: int | None = None
    _stop_requested = False

    def is_epoch_start(self) -> bool:
        """Whether the current batch is the first of its epoch."""
        return self.current_train_batch() % self._epoch_length() == 0

    def is_epoch_end(self) -> bool:
        """Whether the current batch is the last of its epoch."""
        length = self._epoch_length()
        return self.current_train_batch() % length == length - 1

    def current_train_epoch(self) -> int:
        """The index of the current epoch."""
        return self.current_train_batch() // self._epoch_length()

    def current_train_batch(self) -> int:
        """The index of the current batch since the start of training.

        Raises:
            NotThereYetError: training has not started.
        """
        if self._current_batch_idx is None:
            raise NotThereYetError("training has not started, so there is no current batch")
        return self._current_batch_idx

    def _epoch_length(self) -> int:
        if self._epoch_len is None and self._count_epoch is not None:
            self._epoch_len = self._count_epoch()
        if self._epoch_len is None:
            raise NotThereYetError("the training data loader is not built yet")
        return self._epoch_len

    def get_stop_requested(self) -> bool:
        """Whether the trial was asked to stop."""
        return self._stop_requested

    def set_stop_requested(self, stop_requested: bool) -> None:
        """Ask the trial to checkpoint and stop when the current period ends."""
        if not isinstance(stop_requested, bool):
            raise AssertionError(f"stop_requested must be a bool, got {stop_requested!r}")
        logger.info("stop requested: the trial stops at the end of the current period")
        self._stop_requested = stop_requested


class PyTorchExperimentalContext:
    """The settings that a trial makes in its ``__init__``: Determined 0.38.1's ``experimental``."""

    def __init__(self, parent: Any) -> None:
        self._parent = parent
        self._auto_amp = False
        self._data_repro_checks_disabled = False
        self._auto_to_device = True

    def use_amp(self) -> None:
        """Train in float16 with a gradient scaler that ``backward`` and ``step_optimizer`` use.

        Call it before ``wrap_model``. On devices other than CUDA training stays in float32.

        Raises:
            InvalidExperimentException: called twice, after ``wrap_scaler`` or after ``wrap_model``.
        """
        self._parent.wrap_scaler(grad_scaler(self._parent.device))
        self._auto_amp = True

    def wrap_reducer(self, *args: Any, **kwargs: Any) -> Any:
        """``context.wrap_reducer``, under its name of Determined 0.13 to 0.17."""
        return self._parent.wrap_reducer(*args, **kwargs)

    def disable_dataset_reproducibility_checks(self) -> None:
        """Let the trial return loaders that are not ``det_compat.pytorch.DataLoader``.

        Sharding, repeating, shuffling and skipping are then the trial's own business;
        ``det_compat.pytorch.samplers`` has the parts.
        """
        self._data_repro_checks_disabled = True
        logger.info("disabled dataset reproducibility checks")

    def disable_auto_to_device(self) -> None:
        """Leave batches where the loader put them; ``context.to_device`` moves them."""
        self._auto_to_device = False
        logger.info("disabled automatically moving data to device")

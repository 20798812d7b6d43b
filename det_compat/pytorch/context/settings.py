"""What a trial can ask its context about its configuration."""

from __future__ import annotations

import logging
from typing import Any

from det_compat.errors import InternalException, InvalidExperimentException

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


class TrialSettings:
    """Hyperparameters, experiment config, batch size and seed, as in Determined 0.38.1."""

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
        """Records in a batch over all slots.

        Raises:
            ValueError: the hyperparameters have no ``global_batch_size``.
        """
        return self._batch_size(self._global_batch_size, "get_global_batch_size")

    def get_per_slot_batch_size(self) -> int:
        """Records in a batch of one slot: the global batch size divided by the number of slots.

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
        if self._exp_conf is None:
            raise ValueError(
                "the trial asks for its experiment config, and none was given: pass exp_conf={...} "
                "to pytorch.init() or to the module"
            )
        return self._exp_conf

    def get_data_config(self) -> dict[str, Any]:
        """The ``data`` section of the experiment config, ``{}`` if it has none."""
        data: dict[str, Any] = self.get_experiment_config().get("data", {})
        return data

    def get_hparams(self) -> dict[str, Any]:
        """All hyperparameters.

        Raises:
            ValueError: none were given.
        """
        if self._hparams is None:
            raise ValueError(
                "the trial asks for hyperparameters, and none were given: pass hparams={...} to "
                "pytorch.init() or to the module"
            )
        return self._hparams

    def get_hparam(self, name: str) -> Any:
        """The hyperparameter ``name``.

        Raises:
            ValueError: there is none of that name.
        """
        hparams = self.get_hparams()
        if name not in hparams:
            raise ValueError(
                f"there is no hyperparameter {name!r}; the hparams have {sorted(map(str, hparams))}"
            )
        if name == "global_batch_size":
            logger.warning(
                "Use context.get_per_slot_batch_size() and context.get_global_batch_size() in "
                "place of the hyperparameter global_batch_size."
            )
        return hparams[name]

    def get_trial_seed(self) -> int:
        """The seed of the trial.

        Raises:
            InternalException: the run has none.
        """
        if self._trial_seed is None:
            raise InternalException(
                "this run has no trial seed: set reproducibility.experiment_seed in exp_conf"
            )
        return self._trial_seed

    def get_initial_batch(self) -> int:
        """Batches that were trained before this run began."""
        self._told_initial_batch = self._told_initial_batch or self._steps_completed > 0
        return self._steps_completed

    def get_experiment_id(self) -> int:
        """0: only a Determined cluster numbers experiments."""
        return 0

    def get_trial_id(self) -> int:
        """0: only a Determined cluster numbers trials."""
        return 0

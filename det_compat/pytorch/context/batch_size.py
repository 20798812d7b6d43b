"""The batch size of one slot."""

from __future__ import annotations

from typing import Any

from det_compat.errors import InvalidExperimentException


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

"""The batch size of one slot."""

from __future__ import annotations

from typing import Any

from det_compat.errors import InvalidExperimentException


def split_global_batch_size(
    hparams: dict[str, Any] | None, slots: int
) -> tuple[int | None, int | None]:
    """``(per slot, global)`` batch size in records, or two Nones if hparams have no global one.

    Raises:
        InvalidExperimentException: ``global_batch_size`` is no integer, or does not divide by the
            number of slots (where Determined 0.38.1 warned and trained on fewer records).
    """
    size = (hparams or {}).get("global_batch_size")
    if not size:
        return None, None
    if not isinstance(size, int) or isinstance(size, bool):
        raise InvalidExperimentException(
            f"the hyperparameter global_batch_size must be an integer, got {size!r} "
            f"({type(size).__name__})"
        )
    if size < slots or size % slots:
        raise InvalidExperimentException(
            f"the hyperparameter global_batch_size={size} does not divide by the number of slots "
            f"(ranks), {slots}. Set it to a multiple of {slots}, for example "
            f"{max(size - size % slots, slots)}."
        )
    return size // slots, size

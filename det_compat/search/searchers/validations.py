"""When a trial of a search validates."""

import sys
from collections.abc import Callable, Container, Sequence

from det_compat.config.lengths import Length, Unit
from det_compat.pytorch.schedule import in_batches, is_due
from det_compat.pytorch.train_unit import TrainUnit


class RungsToo(Container[int]):
    """The batches after which a trial validates: those of its own period, and those of the rungs.

    Args:
        period: the trial's own validation period.
        rungs: the rungs of its bracket; those in a unit of the script's own are left to the script.
        batch_size: records in a batch over all processes, if that is known.
        epoch_batches: returns the batches in an epoch, which are known when training starts; None
            where the data do not say.
        records_per_epoch: what counts epochs then.
    """

    def __init__(
        self,
        period: TrainUnit,
        rungs: Sequence[Length],
        batch_size: int | None,
        epoch_batches: Callable[[], int | None],
        records_per_epoch: int | None = None,
    ) -> None:
        self._period = period
        self._rungs = [rung for rung in rungs if rung.unit is not Unit.CUSTOM]
        self._batch_size = batch_size
        self._epoch_batches = epoch_batches
        self._records_per_epoch = records_per_epoch
        self._at: frozenset[int] = frozenset()

    def __contains__(self, batches: object) -> bool:
        if not isinstance(batches, int):
            return False
        epoch, records = self._epoch_batches(), self._records_per_epoch
        if not self._at:
            self._at = frozenset(
                rung.batches(self._batch_size, epoch_batches=epoch, records_per_epoch=records)
                for rung in self._rungs
            )
        period = self._period
        if epoch is None:
            period = in_batches(period, "validation_period", records, self._batch_size)
        return batches in self._at or is_due(period, batches, epoch or sys.maxsize)

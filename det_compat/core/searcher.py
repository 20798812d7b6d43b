"""How long a task is to train, as the searcher of Determined told scripts."""

from __future__ import annotations

import enum
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from det_compat.core.distributed import DistributedContext
from det_compat.util.json_encoding import json_encode

logger = logging.getLogger("determined.core")

_MISSING = (
    "SearcherContext was not created because your experiment config does not have the "
    "searcher.max_length set.  Both the searcher.max_length and the SearcherContext are "
    "deprecated.  Instead, you should specify your training length directly in your "
    "training code and avoid all calls to core_context.searcher."
)


class Unit(enum.Enum):
    """What a ``searcher.max_length`` counts."""

    EPOCHS = "EPOCHS"
    RECORDS = "RECORDS"
    BATCHES = "BATCHES"


class SearcherMode(enum.Enum):
    """Who iterates over ``operations()``: all ranks in step, or the chief alone."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHEIF_ONLY"  # This is Determined's spelling.


class Reports(Protocol):
    """Where an operation reports to."""

    def progress(self, length: float, whole: int) -> None:
        """``length`` of ``whole`` are trained."""

    def completed(self, searcher_metric: Any) -> None:
        """The operation is completed."""


class LoggedReports:
    """Reports of an operation that are logged, in Determined's words off a cluster."""

    def progress(self, length: float, whole: int) -> None:
        """Log how much is trained."""
        logger.info(f"progress report: {length}/{whole}")

    def completed(self, searcher_metric: Any) -> None:
        """Log the metric, as JSON."""
        try:
            metric = json_encode(searcher_metric)
        except TypeError:
            metric = json.dumps(str(searcher_metric))
        logger.info(f"SearcherOperation Complete: searcher_metric={metric}")


class SessionReports:
    """Reports of an operation to a session with a Determined master."""

    def __init__(self, session: Any, trial_id: int) -> None:
        self._session = session
        self._path = f"/api/v1/trials/{trial_id}/progress"

    def progress(self, length: float, whole: int) -> None:
        """Post the share that is trained."""
        progress = min(1.0, max(0.0, length / whole))
        self._session.post(self._path, data=json.dumps({"progress": progress, "is_raw": True}))

    def completed(self, searcher_metric: Any) -> None:
        """Do nothing: the master knows by the end of the process."""


class SearcherOperation:
    """A length to train to, and the reports on it, as in Determined 0.38.1.

    Args:
        session: what has a ``post`` method.
        trial_id: the trial.
        length: to how many units the task trains, from its start on.
        is_chief: whether this process may report.
    """

    def __init__(self, session: Any, trial_id: int, length: int, is_chief: bool) -> None:
        self._reports: Reports = SessionReports(session, trial_id)
        self._length = length
        self._is_chief = is_chief
        self._completed = False

    @property
    def length(self) -> int:
        """To how many units the task trains: from its very start, not from now."""
        return self._length

    def report_progress(self, length: float) -> None:
        """Report that ``length`` units are trained.

        Raises:
            RuntimeError: this is not the chief, or the operation is completed.
        """
        if not self._is_chief:
            raise RuntimeError("you must only call op.report_progress() from the chief worker")
        if self._completed and length != self._length:
            raise RuntimeError("you must not call op.report_progress() after op.report_completed()")
        self._reports.progress(length, self._length)

    def report_completed(self, searcher_metric: Any) -> None:
        """End the operation.

        Raises:
            RuntimeError: this is not the chief, or the operation has ended.
        """
        if not self._is_chief:
            raise RuntimeError("you must only call op.report_completed() from the chief worker")
        if self._completed:
            raise RuntimeError("you may only call op.report_completed() once")
        self._completed = True
        self._reports.completed(searcher_metric)


class DummySearcherOperation(SearcherOperation):
    """An operation off a cluster, whose reports are logged."""

    def __init__(self, length: int, is_chief: bool, reports: Reports | None = None) -> None:
        super().__init__(None, 0, length, is_chief)
        self._reports = reports or LoggedReports()


class SearcherContext:
    """One operation, of ``searcher.max_length``; deprecated in Determined 0.38.0.

    Args:
        session: what has a ``post`` method.
        dist: the ranks.
        trial_id: the trial.
        max_length: the length of the operation.
        units: what the length counts.
    """

    def __init__(
        self,
        session: Any,
        dist: DistributedContext,
        trial_id: int,
        max_length: int,
        units: Unit | None = None,
    ) -> None:
        self._session = session
        self._dist = dist
        self._length = max_length
        self._units = units
        self._operation: Callable[[int, bool], SearcherOperation] = lambda length, is_chief: (
            SearcherOperation(session, trial_id, length, is_chief)
        )

    def operations(
        self,
        searcher_mode: SearcherMode = SearcherMode.WorkersAskChief,
        auto_ack: bool = True,
    ) -> Iterator[SearcherOperation]:
        """Yield the one operation; it has to be completed before the next step.

        Args:
            searcher_mode: who iterates.
            auto_ack: has no effect.

        Raises:
            RuntimeError: the operation was not completed, or this rank may not iterate.
        """
        warnings.warn(
            "SearcherContext.operations() was deprecated in Determined 0.38.0 and will be removed "
            "in a future version.  Instead, you should set your training length directly in your "
            "training code.",
            FutureWarning,
            stacklevel=2,
        )
        mode = SearcherMode(searcher_mode)
        if self._dist.rank == 0:
            yield from self._operations_of_chief(mode)
        elif mode is not SearcherMode.WorkersAskChief:
            raise RuntimeError(
                "you cannot call searcher.operations(searcher_mode=ChiefOnly) "
                "from a non-chief worker."
            )
        else:
            while (length := self._dist.broadcast(None)) is not None:
                yield self._operation(length, False)

    def _operations_of_chief(self, mode: SearcherMode) -> Iterator[SearcherOperation]:
        operation = self._operation(self._length, True)
        if mode is SearcherMode.WorkersAskChief:
            self._dist.broadcast(operation.length)
        yield operation
        if not operation._completed:
            raise RuntimeError("you must call op.report_completed() on each operation")
        if mode is SearcherMode.WorkersAskChief:
            self._dist.broadcast(None)

    def acknowledge_out_of_ops(self) -> None:
        """Do nothing, as in Determined 0.38.1."""

    def get_configured_units(self) -> Unit | None:
        """What the length counts, None if the config does not say."""
        return self._units


class DummySearcherContext(SearcherContext):
    """One operation of length 1, an epoch, unless another length is given.

    Args:
        dist: the ranks.
        length: the length of the operation.
        units: what it counts.
        reports: where the operation reports to; by default, to the log.
    """

    def __init__(
        self,
        dist: DistributedContext,
        length: int = 1,
        *,
        units: Unit | None = Unit.EPOCHS,
        reports: Reports | None = None,
    ) -> None:
        super().__init__(None, dist, 0, length, units)
        self._operation = lambda whole, is_chief: DummySearcherOperation(whole, is_chief, reports)


class SearcherContextMissing(SearcherContext):
    """What there is where the config has no ``searcher.max_length``: every use is an error."""

    def __init__(self) -> None:
        pass

    def operations(
        self,
        searcher_mode: SearcherMode = SearcherMode.WorkersAskChief,
        auto_ack: bool = True,
    ) -> Iterator[SearcherOperation]:
        """Raise ValueError."""
        raise ValueError(_MISSING)

    def acknowledge_out_of_ops(self) -> None:
        """Raise ValueError."""
        raise ValueError(_MISSING)

    def get_configured_units(self) -> Unit | None:
        """Raise ValueError."""
        raise ValueError(_MISSING)


def configured_length(config: Mapping[str, Any]) -> tuple[int | None, Unit | None]:
    """The ``searcher.max_length`` of an experiment config and its unit, None for what it lacks."""
    searcher = config.get("searcher") or {}
    length = searcher.get("max_length")
    unit = searcher.get("unit")
    if isinstance(length, Mapping):
        (key, length), *_ = [*length.items(), (None, None)]
        unit = unit or key
    units = {one.name.lower(): one for one in Unit}
    return length, units.get(str(unit))

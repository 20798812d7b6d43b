"""The trials of a search, as Ray Tune asks for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ray.tune.search import Searcher

from det_compat.search.errors import SearchError
from det_compat.search.records import SearchFolder, Status
from det_compat.search.searchers.creation_order import CreationOrder
from det_compat.search.searchers.plan import SearchPlan
from det_compat.shared.masking import without_secrets

if TYPE_CHECKING:
    from det_compat.search.tune.losses import Losses


class Suggestions(Searcher):
    """Suggests the trials of ``plan`` in the order of Determined's searchers.

    A search that was interrupted goes on with the trials that its records call unfinished.

    Args:
        plan: the search.
        folder: its records.
        losses: knows of trials that start again; None where none can.
        places: how many trials there may be at once, as of now; None if that is Tune's affair.

    Raises:
        SearchError: the records are not those of this search.
    """

    def __init__(
        self,
        plan: SearchPlan,
        folder: SearchFolder,
        losses: Losses | None = None,
        places: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(metric=plan.searcher.metric, mode=plan.mode)
        self._losses, self._places = losses, places
        self._draw = plan.hparams
        self._folder = folder
        self._order = CreationOrder(plan.brackets, replaces_invalid=plan.points is None)
        self._running: dict[str, tuple[int, int]] = {}
        begun = {record: record.about() for record in folder.trials()}
        for number, (record, about) in enumerate(begun.items()):
            if about["index"] != number or not 0 <= about["bracket"] < len(plan.brackets):
                raise SearchError(
                    f"{record.folder}: trial {number} is missing in {folder.path}, or is not of "
                    "this search: start a new one in another folder (--run-dir)"
                )
        ended = [record for record in begun if record.status is not Status.UNFINISHED]
        ended.sort(key=lambda record: record.ended_at)
        self._order.go_on(
            [about["bracket"] for about in begun.values()],
            [(begun[r]["bracket"], r.status is Status.INVALID_HP) for r in ended],
        )
        self._unfinished = deque(begun[record] for record in begun if record not in ended)

    def suggest(self, trial_id: str) -> Any:
        if self._places is not None and len(self._running) >= self._places():
            return None
        if self._unfinished:
            about = self._unfinished.popleft()
            return self._suggested(trial_id, about["index"], about["bracket"], about["hparams"])
        created = self._order.next()
        if created is None:
            return str(Searcher.FINISHED) if self._order.is_over else None
        index, bracket = created
        hparams = self._draw(index)
        self._folder.trial(index).begin(index, bracket, hparams)
        return self._suggested(trial_id, index, bracket, hparams)

    def _suggested(self, trial_id: str, index: int, bracket: int, hparams: dict[str, Any]) -> Any:
        self._running[trial_id] = index, bracket
        return {"hparams": without_secrets(hparams), "trial": {"index": index, "bracket": bracket}}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        if trial_id in self._running:
            index, bracket = self._running.pop(trial_id)
            record = self._folder.trial(index)
            if error and self._losses is not None and self._losses.take(index):
                self._unfinished.append(record.about())
                return
            if error and not (self._losses is not None and index in self._losses.given_up):
                if self._losses is not None and (told := self._losses.told[index]):
                    record.note_error(told)  # The trial may not have come to do so.
                record.finish(Status.ERROR, record.last_error())
            self._order.ended(bracket, is_invalid=record.status is Status.INVALID_HP)

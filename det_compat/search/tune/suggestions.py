"""The trials of a search, as Ray Tune asks for them."""

from collections import deque
from typing import Any

from ray.tune.search import Searcher

from det_compat.search.errors import SearchError
from det_compat.search.records import SearchFolder, Status
from det_compat.search.searchers.creation_order import CreationOrder
from det_compat.search.searchers.plan import SearchPlan
from det_compat.shared.masking import without_secrets


class Suggestions(Searcher):
    """Suggests the trials of ``plan`` in the order of Determined's searchers.

    A search that was interrupted goes on with the trials that its records call unfinished.

    Raises:
        SearchError: the records are not those of this search.
    """

    def __init__(self, plan: SearchPlan, folder: SearchFolder) -> None:
        super().__init__(metric=plan.searcher.metric, mode=plan.mode)
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
            if error:
                record.finish(Status.ERROR, record.last_error())
            self._order.ended(bracket, is_invalid=record.status is Status.INVALID_HP)

"""The trials of a search, as Ray Tune asks for them."""

import pickle
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher

from det_compat.search.records import SearchFolder, Status
from det_compat.search.searchers.creation_order import CreationOrder
from det_compat.search.searchers.plan import SearchPlan


class Suggestions(Searcher):
    """Suggests the trials of ``plan`` in the order of Determined's searchers."""

    def __init__(self, plan: SearchPlan, folder: SearchFolder) -> None:
        super().__init__(metric=plan.searcher.metric, mode=plan.mode)
        self._draw = plan.hparams
        self._folder = folder
        self._order = CreationOrder(plan.brackets, replaces_invalid=plan.points is None)
        self._running: dict[str, tuple[int, int]] = {}

    def suggest(self, trial_id: str) -> Any:
        created = self._order.next()
        if created is None:
            return str(Searcher.FINISHED) if self._order.is_over else None
        self._running[trial_id] = index, bracket = created
        hparams = self._draw(index)
        self._folder.trial(index).begin(index, bracket, hparams)
        return {"hparams": hparams, "trial": {"index": index, "bracket": bracket}}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        if trial_id in self._running:
            index, bracket = self._running.pop(trial_id)
            record = self._folder.trial(index)
            if error:
                record.finish(Status.ERROR, record.last_error())
            self._order.ended(bracket, is_invalid=record.status is Status.INVALID_HP)

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).write_bytes(pickle.dumps((self._order, self._running)))

    def restore(self, checkpoint_path: str) -> None:
        self._order, self._running = pickle.loads(Path(checkpoint_path).read_bytes())

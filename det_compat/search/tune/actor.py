"""The actors in which Ray Tune runs trials of one process, one trial after the other."""

from __future__ import annotations

import pickle
from typing import Any

from det_compat.search.forks.client import Request
from det_compat.search.forks.forks import Forks
from det_compat.search.records import Report
from det_compat.search.tune.attempt import imports_of
from det_compat.search.tune.trial import tune_result
from det_compat.shared.importing import large_imports

# An actor begins with this module, and imports most of what it ever does here.
with large_imports("ray.tune"):
    from ray import cloudpickle
    from ray.tune import Trainable
    from ray.tune.result import RESULT_DUPLICATE

    from det_compat.search.tune.mirror import Mirror, arrive

_RUN = "det_compat.search.tune.trial:run"
_PATIENCE = 10.0  # seconds that a trial has to end once it is stopped


class TrialActor(Trainable):
    """Has each trial run in a process of its own, which is a fork wherever that is exact."""

    def setup(
        self,
        config: dict[str, Any],
        task: bytes = b"",
        keeper: Any = None,
        template: str = "",
    ) -> None:
        """Start the process that forks, while Tune goes on.

        Args:
            config: Ray Tune's.
            task: what all trials are given, pickled.
            keeper: of the search's folder, for other machines; see ``mirror``.
            template: the address of a process that has imported what trials do.
        """
        scratch = arrive(keeper)
        self._mirror = Mirror(pickle.loads(task), keeper, scratch, config["trial"]["index"])
        self._task = self._mirror.task
        self._payload = cloudpickle.dumps(self._task)
        self._running: Request | None = None
        self._is_new = True
        self._forks = Forks(imports_of(self._task), template)

    def step(self) -> dict[str, Any]:
        """The trial's next validation.

        Raises:
            RuntimeError: the trial has failed.
        """
        if self._running is None or self._is_new:
            self._end()
            self._is_new = False
            self._mirror.pull(self.config["trial"]["index"])
            self._running = self._forks.start(_RUN, pickle.dumps((self._payload, self.config)))
        else:
            self._running.answer(True)
        try:
            said = self._running.receive()
        finally:
            self._mirror.push()
        if said is None:
            return {RESULT_DUPLICATE: True}
        return tune_result(Report(**said), self._task.plan.searcher.metric)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Be ready for another trial.

        Tune gives up a trial that an actor is lost for before it has begun, so the last one is
        ended when this one has.
        """
        self._is_new = True
        return True

    def cleanup(self) -> None:
        """End everything."""
        self._end()
        self._forks.close()
        self._mirror.close()

    def _end(self) -> None:
        if self._running is not None:
            self._running.end(_PATIENCE)
            self._running = None

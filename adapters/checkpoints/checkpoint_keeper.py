"""Which checkpoints a run writes after validations, and which of those it has written it keeps."""

from pathlib import Path
from typing import Any

from det_compat.core.retention import CheckpointPolicy, RetainedCheckpoints, RetentionPolicy
from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.shared.spelling import did_you_mean


class CheckpointKeeper:
    """Applies a checkpoint policy, and on the chief a retention policy too.

    Args:
        policy: after which validations a checkpoint is due.
        metric: the validation metric that both go by; None for none.
        retained: deletes what is no longer needed; None where all is kept, and off the chief.
        owns_start: whether the checkpoint that the run starts from, and those before it, are its
            own to delete: where it is the same run that goes on.
    """

    def __init__(
        self,
        policy: CheckpointPolicy,
        metric: str | None = None,
        retained: RetainedCheckpoints | None = None,
        *,
        owns_start: bool = False,
    ) -> None:
        self._policy = policy
        self._metric = metric
        self._retained = retained
        self._owns_start = owns_start
        #: The last checkpoint that was written or started from: a UUID, or a path.
        self.latest: str | None = None

    def validated(self, batches: int, metrics: dict[str, Any]) -> bool:
        """Take note of a validation; whether a checkpoint is due after it.

        Raises:
            ValueError: the policy is "best", and the metric that it goes by is missing.
        """
        value = None if self._metric is None else _number(metrics.get(self._metric))
        if self._retained is not None:
            self._retained.validated(batches, value)
        try:
            return self._policy.is_due(value)
        except ValueError as error:
            raise ValueError(f"{error}. {not_validated(self._metric, metrics)}") from None

    def saved(self, name: str, batches: int) -> None:
        """Take note of a complete checkpoint, by its UUID."""
        self.latest = name
        if self._retained is not None:
            self._retained.saved(name, batches)

    def finish(self) -> None:
        """The run is over: keep what the retention policy says."""
        if self._retained is not None:
            self._retained.finish()

    def best(self) -> str | None:
        """The best checkpoint that is kept, if there is a metric to tell."""
        found = None if self._retained is None else self._retained.best()
        return None if found is None else found.uuid

    def state_dict(self) -> dict[str, Any]:
        """What is known, in plain types."""
        retained = None if self._retained is None else self._retained.state_dict()
        return {"policy": self._policy.state_dict(), "retained": retained}

    def resume(self, continuation: dict[str, Any], checkpoint: str | None, batches: int) -> None:
        """Go on from what ``continuation`` has of ``state_dict``, written into ``checkpoint``."""
        state = continuation.get("checkpoints")
        if state is not None:
            self._policy.load_state_dict(state["policy"])
            if self._owns_start and checkpoint is not None and state["retained"] is not None:
                if self._retained is not None:
                    self._retained.load_state_dict(state["retained"])
                self.saved(Path(checkpoint).name, batches)
        self.latest = checkpoint


def not_validated(metric: str | None, metrics: dict[str, Any]) -> str:
    """What to say where validations have no metric that the config's searcher goes by."""
    names = sorted(set(map(str, metrics)) - {"batches", "epochs"})
    meant = "" if metric is None else did_you_mean(metric, names)
    return (
        f"searcher.metric is {metric!r}, and the trial's validation metrics are "
        f"{', '.join(names) or 'none'}: set searcher.metric to one of them{meant}"
    )


def checkpoint_keeper(
    context: PyTorchTrialContext, policy: str, *, owns_start: bool = False
) -> CheckpointKeeper:
    """The keeper for a run of ``context``, by the experiment config that it was given.

    The settings are Determined's: ``checkpoint_storage.save_experiment_best``, ``save_trial_best``
    and ``save_trial_latest``, ``searcher.metric`` and ``searcher.smaller_is_better``. Without
    ``checkpoint_storage`` in the config, all is kept.
    """
    steering = Steering(context)
    conf = steering.exp_conf or {}
    storage, searcher = conf.get("checkpoint_storage"), conf.get("searcher") or {}
    metric, smaller_is_better = searcher.get("metric"), searcher.get("smaller_is_better", True)
    retained = None
    if storage is not None and metric is not None and context.distributed.rank == 0:
        delete = steering.core.checkpoint.delete
        retained = RetainedCheckpoints(delete, RetentionPolicy.from_config(conf))
    return CheckpointKeeper(
        CheckpointPolicy(policy, smaller_is_better), metric, retained, owns_start=owns_start
    )


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None

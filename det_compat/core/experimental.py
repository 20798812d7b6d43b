"""What links a task to checkpoints and model versions of a cluster's registry."""

from typing import Any


class ExperimentalCoreContext:
    """``core_context.experimental``: without a cluster, there is nothing to link to."""

    def report_task_using_checkpoint(self, checkpoint: Any) -> None:
        """Do nothing, as in Determined 0.38.1 off a cluster."""

    def report_task_using_model_version(self, model_version: Any) -> None:
        """Do nothing, as in Determined 0.38.1 off a cluster."""


class DummyExperimentalCoreContext(ExperimentalCoreContext):
    """The same, by the name that Determined has for it."""

"""A run as Python has it: what was trained, how well, and where the checkpoints are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from det_compat.runs.summary import Summary, summary_of
from det_compat.script.run_paths import METRICS

if TYPE_CHECKING:
    from det_compat.config.storage import CheckpointStorage


@dataclass(frozen=True)
class RunCheckpoint:
    """A complete checkpoint of a run.

    Attributes:
        location: its directory, or its URL.
        batches: the batches that had been trained; None if its metadata do not tell.
        value: the searcher's metric in the validation after as many batches; None without one.
    """

    location: str
    batches: int | None
    value: float | None


class Run:
    """A run in its folder, as ``det_compat.fit`` returns it.

    What it tells is read when it is asked for, so it may be of a run that goes on.

    Args:
        path: the folder of a run of ``fit`` or ``det-compat fit``, or of a trial of a search.
        storage: where the checkpoints are; by default where the run's config says.

    Raises:
        FileNotFoundError: there is no run.

    Example:
        ``pandas.DataFrame(Run("runs/mine/001").validations)`` is a table of all validations.
    """

    def __init__(
        self, path: str | os.PathLike[str], storage: CheckpointStorage | None = None
    ) -> None:
        #: The folder, absolute.
        self.path = Path(os.path.abspath(path))
        self._storage = storage
        self._summary()

    def _summary(self) -> Summary:
        found = summary_of(self.path)
        if found is None or found.kind != "run":
            raise FileNotFoundError(f"{self.path} is no folder of a run")
        return found

    @property
    def name(self) -> str:
        """The name in the config."""
        return self._summary().name

    @property
    def state(self) -> str:
        """``running``, ``done``, ``stopped``, ``failed``, ``killed`` or ``unknown``."""
        return self._summary().state.state.value

    @property
    def resume_by(self) -> str:
        """The command that goes on with the run."""
        return self._summary().state.resume

    @property
    def hparams(self) -> dict[str, Any]:
        """The config's hyperparameters, by dotted name."""
        return self._summary().hparams

    @property
    def batches(self) -> int:
        """The batches that were trained, as far as something was reported."""
        return self._summary().batches

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """All that was reported: a row for each, with ``group``, ``batches`` and the metrics.

        The group is ``training``, whose metrics are averages since the row before, or
        ``validation``. After a resume, rows of batches that were trained once more are there twice.
        """
        return [*_rows(self.path / METRICS)]

    @property
    def validations(self) -> list[dict[str, Any]]:
        """A row for each validation, with ``batches`` and the metrics; of equal ones, the last."""
        found = self._summary().validations
        return [{"batches": one.batches, **one.metrics} for one in found]

    @property
    def best(self) -> dict[str, Any] | None:
        """The validation with the best value of the searcher's metric; None without any."""
        summary = self._summary()
        if summary.best is None:
            return None
        return next(row for row in self.validations if row["batches"] == summary.best[1])

    @property
    def checkpoints(self) -> list[RunCheckpoint]:
        """The complete checkpoints, the best first.

        Raises:
            OSError: their storage cannot be read.
        """
        from det_compat.config.storage import storage_of
        from det_compat.experiment.checkpoints import checkpoints_of
        from det_compat.experiment.run_folder import RunFolder

        summary = self._summary()
        storage = self._storage or storage_of(summary.record)
        store = checkpoints_of(storage, RunFolder(self.path))
        values = {one.batches: summary.value_of(one) for one in summary.validations}
        found = [
            RunCheckpoint(store.location(one.uuid), steps, values.get(steps or 0))
            for one in store.of_run()
            for steps in (one.steps_completed,)
        ]
        return sorted(found, key=lambda one: summary.rank(one.value))

    @property
    def best_checkpoint(self) -> str | None:
        """The directory or URL of the kept checkpoint with the best validation; None for none."""
        return next((one.location for one in self.checkpoints if one.value is not None), None)

    @property
    def latest_checkpoint(self) -> str | None:
        """The directory or URL of the checkpoint after most batches; None for none."""
        latest = max(self.checkpoints, key=lambda one: one.batches or 0, default=None)
        return None if latest is None else latest.location

    def __repr__(self) -> str:
        summary = self._summary()
        told = [repr(str(self.path)), summary.state.state.value, f"{summary.batches} batches"]
        if summary.best is not None:
            value, batches = summary.best
            told.append(f"best {summary.metric} {value:.6g} after batch {batches}")
        return f"Run({', '.join(told)})"


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    if not file.exists():
        return
    for line in file.read_text("utf-8", errors="replace").splitlines():
        try:
            report = json.loads(line)
            group, batches, metrics = (
                report[name] for name in ("group", "steps_completed", "metrics")
            )
            # What is counted goes first: validations report it under the same name.
            yield {"group": group, "batches": batches, **{**metrics, "batches": batches}}
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # A killed process has cut it off.

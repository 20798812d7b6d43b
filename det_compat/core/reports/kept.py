"""``core_context.train`` that keeps what it is told: metrics, metadata, TensorBoard files."""

from __future__ import annotations

import enum
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_compat.core.reports.event_files import EventFiles
from det_compat.core.reports.search_line import SearchLine, as_number
from det_compat.core.train import EarlyExitReason, TrainContext
from det_compat.script.reported import reports
from det_compat.script.run_paths import METRICS
from det_compat.shared.durable_files import append_line, write_durably

logger = logging.getLogger("determined.core")

#: What ``set_metadata`` was given.
RUN_METADATA = "run_metadata.json"


class TensorboardMode(enum.Enum):
    """Whether reported metrics go to TensorBoard files by themselves (AUTO), or not (MANUAL)."""

    AUTO = "AUTO"
    MANUAL = "MANUAL"


@dataclass(frozen=True)
class Goal:
    """The metric that an experiment is about.

    Attributes:
        metric: its name.
        smaller_is_better: whether the smallest is the best.
    """

    metric: str
    smaller_is_better: bool = True

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Goal | None:
        """The goal of an experiment config, None if it names none."""
        searcher = config.get("searcher") or {}
        name = searcher.get("metric")
        return cls(name, bool(searcher.get("smaller_is_better", True))) if name else None

    def best(self, values: Iterator[float]) -> float | None:
        """The best of ``values``, None if there are none."""
        numbers = [value for value in values if math.isfinite(value)]
        return (min if self.smaller_is_better else max)(numbers, default=None)


class KeptTrainContext(TrainContext):
    """Keeps what a task reports in a directory, which is made when there is something to keep.

    Metrics go to ``metrics.jsonl`` in it and, unless the mode is MANUAL, to TensorBoard files;
    metadata go to ``run_metadata.json``.

    Args:
        folder: the directory.
        tensorboard_path: where TensorBoard files go.
        mode: whether metrics go there, too.
    """

    def __init__(
        self, folder: Path, tensorboard_path: Path, mode: TensorboardMode = TensorboardMode.AUTO
    ) -> None:
        super().__init__(tensorboard_path)
        self._folder = folder
        self._mode = TensorboardMode(mode)
        self._events = EventFiles(tensorboard_path)
        self._odd_types: set[str] = set()

    def set_metadata(self, metadata: dict[str, Any]) -> dict[str, Any] | None:
        """Set the metadata of the run, in place of what was set before; returns it.

        Raises:
            TypeError: JSON cannot hold them.
        """
        logger.info(f"set_metadata({metadata})")
        file = self._folder / RUN_METADATA
        self._folder.mkdir(parents=True, exist_ok=True)
        write_durably(file, json.dumps(metadata, indent=2), temporary=file.with_suffix(".partial"))
        return self.get_metadata()

    def get_metadata(self) -> dict[str, Any] | None:
        """The metadata of the run, those of earlier processes of it included; None for none."""
        try:
            found: dict[str, Any] = json.loads((self._folder / RUN_METADATA).read_text("utf-8"))
        except FileNotFoundError:
            return None
        return found

    def _report(
        self,
        group: str,
        steps_completed: int,
        metrics: dict[str, Any],
        batch_metrics: list[dict[str, Any]] | None,
    ) -> None:
        if not isinstance(metrics, Mapping):
            # Off a cluster, Determined 0.38.1 takes anything for metrics and numbers of batches.
            logger.warning(f"metrics of {group} are no dictionary, and are not kept: {metrics!r}")
            return
        steps = plain_value(steps_completed)
        if isinstance(steps, float) and steps.is_integer():
            steps = int(steps)
        numbers = {str(name): plain_value(value) for name, value in metrics.items()}
        line: dict[str, Any] = {
            "group": group,
            "steps_completed": steps,
            "time": time.time(),
            "metrics": numbers,
        }
        if batch_metrics is not None:
            line["batch_metrics"] = batch_metrics
        self._append(line)
        is_step = isinstance(steps, (int, float)) and -(2**63) <= steps < 2**63
        if self._mode is TensorboardMode.AUTO and is_step:
            try:
                self._events.write(group, numbers, int(steps))
            except ImportError as error:
                logger.warning(f"metrics are kept in {self._folder / METRICS} only: {error}")
                self._mode = TensorboardMode.MANUAL

    def measured(self, group: str, metrics: dict[str, Any]) -> None:
        """Keep the machine's load, which goes by the time and not by batches."""
        self._append({"group": group, "time": time.time(), "metrics": metrics})

    def _append(self, line: dict[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            text = json.dumps(line, default=self._plain)
        except (TypeError, ValueError, RecursionError):
            # A dictionary in it has keys that are none in JSON, or it has itself in it.
            text = json.dumps({name: self._shown(value) for name, value in line.items()})
        append_line(self._folder / METRICS, text)

    def _plain(self, value: Any) -> Any:
        plain = plain_value(value)
        return self._as_text(value) if plain is value else plain

    def _shown(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {str(name): self._shown_metric(metric) for name, metric in value.items()}
        return self._shown_metric(value)

    def _shown_metric(self, value: Any) -> Any:
        is_plain = value is None or isinstance(value, (str, int, float))
        return value if is_plain else self._as_text(value)

    def _as_text(self, value: Any) -> str:
        kind = type(value).__name__
        if kind not in self._odd_types:
            self._odd_types.add(kind)
            logger.warning(f"JSON has no such value, so that its text is kept: {value!r} ({kind})")
        return repr(value)

    def close(self) -> None:
        self._events.close()


class TaskTrainContext(KeptTrainContext):
    """Keeps the reports of a script that ``det-compat fit`` or ``search`` runs in its folder.

    It is as strict as a cluster was: a validation metric of None, progress that is no share, and
    files that are uploaded by hand though the mode is AUTO are errors.

    Args:
        run_dir: the run's folder.
        goal: the metric of the experiment.
        mode: whether metrics go to TensorBoard files by themselves.
        line: to the search that runs the trial, None without one.
        once_counted: calls what it is given, once it is known how much the script has trained at a
            validation after so many batches, with what the search is told of that.
        checkpoint_at: the checkpoint of so many batches, None if there is none yet.
        asks: whether the script asks ``should_preempt()``, by which it hears that it is stopped.
    """

    def __init__(
        self,
        run_dir: Path,
        goal: Goal | None,
        mode: TensorboardMode = TensorboardMode.AUTO,
        *,
        line: SearchLine | None = None,
        once_counted: Callable[[int, Callable[[dict[str, Any]], None]], None] | None = None,
        checkpoint_at: Callable[[int], str | None] = lambda steps: None,
        asks: Callable[[], bool] = bool,
    ) -> None:
        super().__init__(run_dir, run_dir / "tensorboard", mode)
        self._goal = goal
        self._line = line
        self._once_counted = once_counted
        self._judged: int | None = None
        self._checkpoint_at = checkpoint_at
        self._asks = asks

    def _report(
        self,
        group: str,
        steps_completed: int,
        metrics: dict[str, Any],
        batch_metrics: list[dict[str, Any]] | None,
    ) -> None:
        if not isinstance(metrics, Mapping):
            raise TypeError(f"metrics of {group} have to be a dictionary, got {metrics!r}")
        if group == "validation":
            metrics = _reportable(metrics)
        super()._report(group, steps_completed, metrics, batch_metrics)
        if group == "validation" and self._line is not None:
            line, steps = self._line, int(steps_completed)
            has_goal = self._goal is None or self._goal.metric in metrics
            if not has_goal and steps == self._judged:
                return  # The search has heard of this validation; these are more metrics of it.
            self._judged = steps if has_goal else None
            if self._once_counted is None or "epochs" in metrics:  # The script itself says it.
                self._tell(line, steps, metrics)
            else:
                self._once_counted(
                    steps, lambda known: self._tell(line, steps, {**known, **metrics})
                )

    def _tell(self, line: SearchLine, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Tell the search of a validation, and let it stop the trial.

        Raises:
            SystemExit: the search has stopped the trial, which does not ask, or has not listened.
        """
        was_stopped = line.is_stopped
        if not was_stopped:
            line.validated(steps_completed, metrics, self._checkpoint_at(steps_completed))
        if line.is_stopped and (was_stopped or not self._asks()):
            raise SystemExit("the search has stopped the trial")

    def report_progress(self, progress: float) -> None:
        """Log the share of the training that is done.

        Raises:
            ValueError: it is not between 0 and 1.
        """
        if progress < 0 or progress > 1:
            raise ValueError(f"Progress should be between 0 and 1, not {progress}")
        super().report_progress(progress)

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        """Log why the trial stops before its end, and tell the search, if there is one."""
        super().report_early_exit(EarlyExitReason(reason))
        if self._line is not None and reason is EarlyExitReason.INVALID_HP:
            self._line.early_exit(reason.name)

    def upload_tensorboard_files(
        self,
        selector: Callable[[Path], bool] = lambda _: True,
        mangler: Callable[[Path, int], Path] = lambda path, _: path,
    ) -> None:
        """Log the call: the files are in the run's folder.

        Raises:
            RuntimeError: the mode is AUTO.
        """
        if self._mode is TensorboardMode.AUTO:
            raise RuntimeError("upload_tensorboard_files can only be used in MANUAL mode")
        super().upload_tensorboard_files(selector, mangler)

    def get_experiment_best_validation(self) -> float | None:
        """The best ``searcher.metric`` that was reported so far, by any trial of the experiment."""
        if self._goal is None:
            return None
        # The trials of a search have their folders side by side.
        folders = [self._folder] if self._line is None else [*self._folder.parent.iterdir()]
        metric = self._goal.metric
        found = (value for folder in folders for _, value in reported_values(folder, metric))
        return self._goal.best(found)


class RunReports(TrainContext):
    """Keeps averages of training and metrics of validations, a JSON object a line.

    The run goes on if they cannot be written.

    Args:
        folder: the run's.
        tensorboard_path: where TensorBoard files go.
    """

    def __init__(self, folder: Path, tensorboard_path: Path | None) -> None:
        super().__init__(tensorboard_path)
        self._file = folder / METRICS
        self._has_warned = False

    def _report(
        self,
        group: str,
        steps_completed: int,
        metrics: dict[str, Any],
        batch_metrics: list[dict[str, Any]] | None,
    ) -> None:
        values = {str(name): plain_value(value) for name, value in metrics.items()}
        line = {
            "group": group,
            "steps_completed": steps_completed,
            "time": time.time(),
            "metrics": values,
        }
        try:
            # The directory is not made again if somebody has deleted it.
            append_line(self._file, json.dumps(line, default=str))
        except (OSError, ValueError) as error:
            if not self._has_warned:
                logger.warning(f"cannot keep metrics in {self._file}: {error}")
            self._has_warned = True


def reported_values(folder: Path, metric: str) -> Iterator[tuple[int, float]]:
    """The values of a validation metric that a run has reported, each with its batches."""
    try:
        lines = (folder / METRICS).read_bytes().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return
    for report in reports(lines):
        value = report["metrics"].get(metric) if report["group"] == "validation" else None
        if isinstance(value, (int, float)):
            yield report["steps_completed"], float(value)


def _reportable(metrics: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a validation that are no bytes.

    Raises:
        RuntimeError: one is None.
    """
    for name, value in metrics.items():
        if value is None:
            raise RuntimeError(f"Validation metric '{name}' returned an invalid scalar value: None")
    kept = {name: it for name, it in metrics.items() if not isinstance(it, (bytes, bytearray))}
    if removed := metrics.keys() - kept.keys():
        logger.warning(f"Removed non serializable metrics: {', '.join(sorted(removed))}")
    return kept


def plain_value(value: Any) -> Any:
    """``value`` in types that JSON has, as far as there are any."""
    if callable(getattr(value, "numel", None)):  # a tensor, of a type that NumPy may not have
        value = value.detach()
        return value.item() if value.numel() == 1 else value.tolist()
    value = as_number(value)
    if isinstance(value, (bytes, bytearray)):
        return repr(bytes(value))
    return value.tolist() if hasattr(value, "tolist") else value

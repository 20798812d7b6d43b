"""What is known of a run or a search, from the small files in its folder."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from det_compat.config.storage import storage_of
from det_compat.experiment.run_folder import RECORD
from det_compat.experiment.run_state import RunState, State, read_state
from det_compat.script.reported import reports
from det_compat.script.run_paths import METRICS, RunPaths
from det_compat.search.errors import SearchError
from det_compat.search.records import SEARCH, SearchFolder, Status, TrialRecord
from det_compat.shared.data_files import object_in
from det_compat.shared.masking import without_secrets
from det_compat.shared.nested import by_dotted_name

_VALIDATION = '"validation"'
_STATES = {
    Status.COMPLETED: State.DONE,
    Status.STOPPED: State.DONE,
    Status.ERROR: State.FAILED,
    Status.INVALID_HP: State.FAILED,
}


@dataclass(frozen=True)
class Validation:
    """The metrics of one validation, and the batches that had been trained."""

    batches: int
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint in the folder of a run.

    Attributes:
        path: its directory.
        batches: the batches that had been trained; None if its metadata do not tell.
        value: the searcher's metric in the validation after as many batches; None without one.
    """

    path: Path
    batches: int | None
    value: float | None


@dataclass(frozen=True)
class Summary:
    """A run, or a trial of a search, or a search.

    Attributes:
        path: its folder, absolute.
        kind: "run" or "search".
        state: whether it goes on, or how it ended.
        record: what it noted when it began; empty if that cannot be read.
    """

    path: Path
    kind: str
    state: RunState
    record: dict[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        """The name in the config."""
        return str(self.record.get("name") or self.path.parent.name)

    @property
    def metric(self) -> str | None:
        """The searcher's metric."""
        name = self._searcher.get("metric")
        return None if name is None else str(name)

    @property
    def smaller_is_better(self) -> bool:
        """Which values of it are the best."""
        return bool(self._searcher.get("smaller_is_better", True))

    @property
    def _searcher(self) -> dict[str, Any]:
        found = self.record.get("searcher")
        return found if isinstance(found, dict) else {}

    @property
    def hparams(self) -> dict[str, Any]:
        """The hyperparameters, by dotted name; ranges of a search as the config has them."""
        found = self.record.get("hyperparameters")
        if not isinstance(found, dict):
            return {}
        flat = by_dotted_name(found, whole="type")
        return {name: _without_const(value) for name, value in flat}

    @property
    def length(self) -> str:
        """How long it is to train, as the config says."""
        length = self._searcher.get("max_length")
        if isinstance(length, dict) and len(length) == 1:
            return " ".join(str(part) for pair in length.items() for part in reversed(pair))
        return "" if length is None else str(length)

    @cached_property
    def validations(self) -> list[Validation]:
        """The validations so far; reports of equal numbers of batches are one, the last counts."""
        if self.kind == "search":
            return []
        found: dict[int, dict[str, Any]] = {}
        for one in _validations(self.path / METRICS):
            found.setdefault(one.batches, {}).update(one.metrics)
        return [Validation(batches, found[batches]) for batches in sorted(found)]

    @cached_property
    def trials(self) -> list[Summary]:
        """The trials of a search that have begun."""
        if self.kind != "search":
            return []
        return [_trial(record, self.state) for record in SearchFolder(self.path).trials()]

    @property
    def batches(self) -> int:
        """The batches trained, as far as something was reported; of a search, in all trials."""
        if self.kind == "search":
            return sum(trial.batches for trial in self.trials)
        return max((step for step in _steps(self.path / METRICS)), default=0)

    @cached_property
    def best(self) -> tuple[float, int] | None:
        """The best value of the searcher's metric, and the batches it was reached with."""
        if self.kind == "search":
            found = [trial.best for trial in self.trials if trial.best is not None]
        else:
            values = ((self.value_of(one), one.batches) for one in self.validations)
            found = [(value, batches) for value, batches in values if value is not None]
        return min(found, key=lambda pair: self.rank(pair[0]), default=None)

    def value_of(self, validation: Validation) -> float | None:
        """The searcher's metric in a validation; None if it is no number."""
        return None if self.metric is None else _number(validation.metrics.get(self.metric))

    def rank(self, value: float | None) -> tuple[bool, float]:
        """What values of the searcher's metric are ordered by, best first; none comes last."""
        return value is None, (value or 0) if self.smaller_is_better else -(value or 0)

    @property
    def config(self) -> dict[str, Any]:
        """The copy of its experiment config; empty if it cannot be read."""
        try:
            found = yaml.safe_load((self.path / "config.yaml").read_text("utf-8"))
        except (OSError, ValueError, yaml.YAMLError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @cached_property
    def checkpoints(self) -> list[Checkpoint]:
        """Its complete checkpoints on this machine, the best first."""
        if self.kind == "search":
            found = [one for trial in self.trials for one in trial.checkpoints]
        else:
            found = [*self._own_checkpoints()]
        return sorted(found, key=lambda one: (self.rank(one.value), -(one.batches or 0)))

    def _own_checkpoints(self) -> Iterator[Checkpoint]:
        values = {one.batches: self.value_of(one) for one in self.validations}
        paths = RunPaths(self.path)
        files = [*paths.checkpoints.glob("*/metadata.json")]
        if (folder := _path_of(self.storage or "")) is not None:
            # Other runs may have theirs there, too.
            names = dict.fromkeys(paths.begun_checkpoints())
            files += [folder / name / "metadata.json" for name in names]
        for file in filter(Path.is_file, files):
            batches = object_in(file).get("steps_completed")
            known = batches if isinstance(batches, int) else None
            yield Checkpoint(file.parent, known, None if known is None else values.get(known))

    @cached_property
    def storage(self) -> str | None:
        """The path or URL of its checkpoints; None if they are in its folder."""
        with contextlib.suppress(OSError):
            if chosen := RunPaths(self.path).chosen_storage():
                return chosen
        config = {"checkpoint_storage": self.record.get("checkpoint_storage") or {}}
        # A config was checked when the run began; a damaged record may have anything.
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            return storage_of(config).url
        return None

    @property
    def elsewhere(self) -> str:
        """What is to be said of checkpoints that are not in the folder; empty if there are none."""
        if self.storage is None:
            return ""
        names = [one.path.name for one in self.checkpoints if self.path not in one.path.parents]
        if names:
            return f"; its checkpoints {', '.join(names)} stay in {self.storage}"
        if _path_of(self.storage) is not None:
            return ""
        return f"; its checkpoints may be in {without_secrets(self.storage)}"

    def as_dict(self) -> dict[str, Any]:
        """All of it in types of JSON."""
        value, batches = self.best or (None, None)
        checkpoint = self.checkpoints[0].path if self.checkpoints else None
        names = ("kind", "name", "length", "batches", "metric", "smaller_is_better", "hparams")
        return {
            "path": str(self.path),
            **asdict(self.state),
            **{name: getattr(self, name) for name in names},
            "best": value,
            "best_batches": batches,
            "best_checkpoint": None if checkpoint is None else str(checkpoint),
            "trials": len(self.trials),
        }


def summary_of(folder: Path) -> Summary | None:
    """What lies in ``folder``; None if that is no run and no search."""
    record = TrialRecord(folder)
    if record.is_begun:
        return _trial(record, read_state(folder.absolute().parent.parent))
    for name, kind in ((SEARCH, "search"), (RECORD, "run")):
        file = folder / name
        if file.is_file():
            return Summary(folder.absolute(), kind, read_state(folder), object_in(file))
    return None


def _trial(record: TrialRecord, search: RunState) -> Summary:
    """A trial of a search, which has noted the trial's state."""
    folder = record.folder.absolute()
    state, about = read_state(folder), object_in(folder / RECORD)
    unfinished = State.STOPPED if search.state in (State.DONE, State.FAILED) else search.state
    # What something else than det_compat trains is no run of its own.
    with contextlib.suppress(OSError, SearchError):
        about = about or {"hyperparameters": without_secrets(record.about()["hparams"])}
        if state.state is State.UNKNOWN:
            status = record.status
            ended = None if status is Status.UNFINISHED else record.ended_at / 1e9
            state = replace(
                search,
                state=_STATES.get(status, unfinished),
                started=record.begun_at / 1e9,
                ended=ended,
                reason=record.reason,
                resume="",
            )
    return Summary(folder, "run", state, about)


def _path_of(location: str) -> Path | None:
    """The path of a storage; None for URLs of others than files, and for none."""
    scheme, separator, path = location.rpartition("://")
    return Path(path) if path and (scheme in ("file", "local") or not separator) else None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _counted(lines: list[str]) -> Iterator[dict[str, Any]]:
    """The reports that say how many batches were trained."""
    return (one for one in reports(lines) if isinstance(one.get("steps_completed"), int))


def _validations(file: Path) -> Iterator[Validation]:
    # Most lines are of training, and need not be parsed.
    for report in _counted([line for line in _lines(file) if _VALIDATION in line]):
        if report.get("group") == "validation":
            yield Validation(report["steps_completed"], report["metrics"])


def _steps(file: Path) -> Iterator[int]:
    # The last lines are of the last batches: none before them tells of more.
    for report in _counted(_lines(file)[-3:]):
        yield report["steps_completed"]


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and math.isfinite(value)
    return float(value) if is_number else None


def _without_const(value: Any) -> Any:
    is_const = isinstance(value, dict) and value.get("type") == "const"
    return value.get("val") if is_const else value

"""What a search keeps on the disk about its trials, so that a killed one can go on.

One folder a trial. Each file is written by one process, and none is ever changed: a process that is
killed leaves at worst a last line that is cut off, which is not read.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from det_compat.experiment.run_state import FILES
from det_compat.script.run_paths import TRACKED, TRACKING_LOG
from det_compat.search.errors import SearchError
from det_compat.shared.durable_files import append_line

#: What a search notes when it begins.
SEARCH = "search.json"
#: The validations of a trial, one JSON object a line.
REPORTS = "reports.jsonl"
#: By which a machine of a cluster finds out whether it sees the folder.
NONCE = ".nonce"
_DIED = "the trial's process died: it may have run out of memory, or not see the search's folder"


class Status(str, Enum):
    """How a trial ended, or that it has not."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    ERROR = "error"
    INVALID_HP = "invalid_hp"
    UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Report:
    """One validation of a trial.

    Attributes:
        batches: the batches trained so far.
        rungs: how many rungs of its bracket the trial has reached.
        metric: the searcher's metric; may be NaN.
        metrics: all scalar metrics.
        checkpoint: the path of a checkpoint of this moment, None without one.
    """

    batches: int
    rungs: int
    metric: float
    metrics: dict[str, Any]
    checkpoint: str | None = None

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint; retention may have deleted it, unless it is a URL."""
        return self.checkpoint is not None and (
            "://" in self.checkpoint or os.path.exists(self.checkpoint)
        )


def trial_number(folder: Path) -> int:
    """The number of the trial in a folder, from 1; 0 where no search has begun it."""
    record = TrialRecord(folder)
    return record.about()["index"] + 1 if record.is_begun else 0


def starts_of(folder: Path) -> int:
    """How often the trial in a folder has been started, on this machine if it is not shared."""
    return max(TrialRecord(folder).starts, 1)


class TrialRecord:
    """The folder of one trial.

    Args:
        folder: ``trials/<index>`` in the folder of the search.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._reports = folder / REPORTS
        self._end = folder / "end.json"
        self._error = folder / "error.txt"
        self._starts = folder / "starts.txt"

    def begin(self, index: int, bracket: int, hparams: dict[str, Any]) -> None:
        """Note what the trial is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(self.folder / "trial.json", {"index": index, "bracket": bracket, "hparams": hparams})

    @property
    def is_begun(self) -> bool:
        """Whether it is noted what the trial is."""
        return (self.folder / "trial.json").exists()

    def about(self) -> dict[str, Any]:
        """What ``begin`` noted.

        Raises:
            SearchError: the file holds something else.
        """
        return _read(self.folder / "trial.json", index=int, bracket=int, hparams=dict)

    def append(self, report: Report) -> None:
        """Note a validation."""
        noted = {**asdict(report), "checkpoint": self._within(report.checkpoint)}
        append_line(self._reports, json.dumps(noted, default=str))

    def reports(self) -> list[Report]:
        """The validations so far, each number of batches once: the last that was trained."""
        try:
            lines = self._reports.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        read = [self._report(number, line) for number, line in enumerate(lines, start=1)]
        found = {report.batches: report for report in read if report is not None}
        return sorted(found.values(), key=lambda report: report.batches)

    def _report(self, number: int, line: str) -> Report | None:
        where = f"{self._reports}:{number}"
        try:
            fields = json.loads(line)
        except ValueError:
            # A killed process has cut it off.
            return None
        except RecursionError as error:
            raise SearchError(f"{where}: no record of a search: {error}") from None
        kinds = {"batches": int, "rungs": int, "metric": (int, float), "metrics": dict}
        found = _checked(fields, where, **kinds, checkpoint=(str, type(None)))
        return Report(**{**found, "checkpoint": self._from_within(found["checkpoint"])})

    def _within(self, checkpoint: str | None) -> str | None:
        """How a checkpoint is noted: one in the folder goes where the folder goes."""
        is_here = checkpoint is not None and Path(checkpoint).is_relative_to(self.folder)
        return os.path.relpath(str(checkpoint), self.folder) if is_here else checkpoint

    def _from_within(self, noted: str | None) -> str | None:
        return noted if noted is None or "://" in noted else str(self.folder / noted)

    def start_again(self) -> None:
        """Count a start of the trial, and forget what an earlier one died of."""
        self._error.unlink(missing_ok=True)
        append_line(self._starts, str(time.time()))

    @property
    def starts(self) -> int:
        """How often the trial has been started."""
        return len(self._starts.read_text("utf-8").split()) if self._starts.exists() else 0

    def note_error(self, text: str) -> None:
        """Note the traceback of an exception that ends a process of the trial; the first counts."""
        with contextlib.suppress(FileExistsError), self._error.open("x", encoding="utf-8") as file:
            file.write(text)

    def last_error(self) -> str:
        """What the last start of the trial died of, in one line."""
        lines = self._error.read_text("utf-8").strip().splitlines() if self._error.exists() else []
        return lines[-1] if lines else _DIED

    def finish(self, status: Status, reason: str = "") -> None:
        """Note how the trial ended; what was noted first counts."""
        if self.status is Status.UNFINISHED:
            _write(self._end, {"status": status.value, "reason": reason})

    @property
    def status(self) -> Status:
        """How it ended.

        Raises:
            SearchError: the record of that holds something else.
        """
        try:
            return Status(self._ending()["status"])
        except ValueError as error:
            raise SearchError(f"{self._end}: {error}") from None

    @property
    def begun_at(self) -> int:
        """When it was begun, in nanoseconds; it has to have begun."""
        return (self.folder / "trial.json").stat().st_mtime_ns

    @property
    def ended_at(self) -> int:
        """When it ended, in nanoseconds; it has to have ended."""
        return self._end.stat().st_mtime_ns

    @property
    def reason(self) -> str:
        """Why it ended, "" if there is nothing to tell."""
        return str(self._ending()["reason"])

    def _ending(self) -> dict[str, Any]:
        if not self._end.exists():
            return {"status": Status.UNFINISHED, "reason": ""}
        return _read(self._end, status=str, reason=str)


class SearchFolder:
    """The folder of a search: its trials, Ray Tune's own files, the results."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        self._about = self.path / SEARCH
        self._lock = self.path / ".lock"
        self._config = self.path / "config.yaml"

    def begin(self, about: dict[str, Any], config: Mapping[str, Any]) -> None:
        """Make the folder, and note what is searched, with the config, which has no secrets."""
        import yaml

        self.path.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(json.loads(json.dumps(config, default=str)), sort_keys=False)
        self._config.write_text(text, "utf-8")
        _write(self._about, about)

    @property
    def is_free(self) -> bool:
        """Whether nothing is here, or only a search that has no trials yet."""
        own = {file.name for file in (self._about, self._lock, self._config)}
        own |= {TRACKED, TRACKING_LOG, NONCE, *FILES}
        return not self.path.exists() or all(file.name in own for file in self.path.iterdir())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and keep other searches out of it; a process that dies lets go of it.

        Raises:
            SearchError: another one is in it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with self._lock.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SearchError(
                    f"another search runs in {self.path}: wait for it, or choose another folder "
                    "(--run-dir)"
                ) from None
            yield

    @property
    def exists(self) -> bool:
        """Whether a search has begun here."""
        return self._about.exists()

    def about(self) -> dict[str, Any]:
        """What ``begin`` noted.

        Raises:
            SearchError: the file holds something else.
        """
        return _read(self._about, seed=int, config=str, file=(str, type(None)))

    def trial(self, index: int) -> TrialRecord:
        """The record of trial ``index``, which may not have begun."""
        return TrialRecord(self.path / "trials" / f"{index:04d}")

    def trials(self) -> list[TrialRecord]:
        """The records of the trials that have begun, by index."""
        found = self.path.glob("trials/*/trial.json")
        return [
            TrialRecord(file.parent) for file in sorted(found, key=lambda f: int(f.parent.name))
        ]


def _read(file: Path, /, **kinds: Any) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SearchError(f"{file}: no record of a search: {error}") from None
    return _checked(content, str(file), **kinds)


def _checked(content: Any, where: str, /, **kinds: Any) -> dict[str, Any]:
    """The fields of a record, which may come from elsewhere.

    Raises:
        SearchError: one is missing, or of another type.
    """
    for name, kind in kinds.items():
        value = content.get(name) if isinstance(content, dict) else None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise SearchError(f"{where}: no record of a search: it has no {name!r} of that type")
    return {name: content.get(name) for name in kinds}


def _write(file: Path, content: dict[str, Any]) -> None:
    part = file.with_name(f".{file.name}.{os.getpid()}")
    part.write_text(json.dumps(content, indent=2, default=str), "utf-8")
    part.replace(file)

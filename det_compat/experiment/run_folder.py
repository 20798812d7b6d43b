"""The directory of a run: its config, logs and, unless the config says otherwise, checkpoints."""

import contextlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from det_compat.experiment.errors import FitError
from det_compat.experiment.run_state import FILES
from det_compat.script.run_log import LOG
from det_compat.script.run_paths import TRACKED, TRACKING_LOG, RunPaths
from det_compat.shared.data_files import object_in
from det_compat.shared.durable_files import write_durably
from det_compat.shared.masking import without_secrets

RECORD = "det_compat_run.json"
_LONGEST_NAME = 64


class RunFolder(RunPaths):
    """A run's directory, and the record that a run was started there."""

    @property
    def holds_run(self) -> bool:
        """Whether a run has been started here."""
        return (self.path / RECORD).exists()

    @property
    def is_of_script(self) -> bool:
        """Whether a script that started by itself has its run here, which is none of ``fit``."""
        return self._record().get("started_by") == "script"

    def seed(self) -> int:
        """The seed of the run that has been started here.

        Raises:
            FitError: it cannot be read.
        """
        seed = self._record().get("seed")
        if not isinstance(seed, int) or not 0 <= seed < 2**32:
            raise FitError(
                f"cannot read the seed of the run in {self.path / RECORD}, found {seed!r}; set "
                "reproducibility.experiment_seed in the config, or start another run"
            )
        return seed

    def about(self) -> dict[str, Any]:
        """What tells the run from others, wherever its checkpoints are: its ``id`` and more.

        Empty where there is no run yet, or one of an earlier det_compat.
        """
        record = self._record()
        if not isinstance(record.get("id"), str):
            return {}
        told = {key: record.get(key) for key in ("id", "name", "seed", "launch")}
        return {**told, "folder": self.path.name}

    def _record(self) -> dict[str, Any]:
        return object_in(self.path / RECORD)

    def begin(
        self,
        config: Mapping[str, Any],
        *,
        seed: int,
        run_id: str | None = None,
        launch: Sequence[str] = (),
        is_of_script: bool = False,
    ) -> None:
        """Take the directory for a run of ``config``, of which a copy without secrets is kept.

        Args:
            config: the experiment config.
            seed: the run's.
            run_id: what tells the run from all others, if it has begun on another machine.
            launch: the names of the launch that begins it.
            is_of_script: whether a script begins it, which started by itself.

        Raises:
            FitError: it cannot be written.
        """
        import yaml

        try:
            self.path.mkdir(parents=True, exist_ok=True)
            text = yaml.safe_dump(without_secrets(dict(config)), sort_keys=False)
            (self.path / "config.yaml").write_text(text, "utf-8")
            # The record comes last and whole: a run is there once it is.
            own = {"seed": seed, "id": run_id or uuid.uuid4().hex, "launch": list(launch)}
            own |= {"started_by": "script"} if is_of_script else {}
        except OSError as error:
            raise self._unwritable(error) from error
        self._write_record({**own, **described(config)})

    def note_launch(self, launch: Sequence[str]) -> None:
        """Note the names of the launch that goes on with the run.

        Raises:
            FitError: it cannot be noted.
        """
        record = self._record()
        if not record:
            raise FitError(f"the run in {self.path} is damaged: {RECORD} cannot be read")
        if record.get("launch", []) != launch:
            self._write_record({**record, "launch": launch})

    def _write_record(self, record: dict[str, Any]) -> None:
        temporary = self.path / f".{RECORD}"
        try:
            write_durably(self.path / RECORD, json.dumps(record, default=str), temporary=temporary)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> FitError:
        return FitError(f"cannot write the run directory {self.path}: {error}")

    def give_up(self) -> None:
        """Leave nothing of a run that has not begun, nor folders that are empty without it."""
        with contextlib.suppress(OSError):
            for name in (RECORD, "config.yaml", LOG, TRACKED, TRACKING_LOG, *FILES):
                (self.path / name).unlink(missing_ok=True)
            self.path.rmdir()
            if self.path.parent.parent.name == "runs":
                self.path.parent.rmdir()


def described(config: Mapping[str, Any]) -> dict[str, Any]:
    """What lists of runs show of a config, so that they need not read it."""
    shown = (
        *("name", "description", "labels", "project", "workspace"),
        *("searcher", "hyperparameters", "checkpoint_storage"),
    )
    found: dict[str, Any] = without_secrets({k: config[k] for k in shown if k in config})
    return found


def new_run_folder(name: str) -> RunFolder:
    """The next free ``runs/<name>/<NNN>`` here, which is created.

    Raises:
        FitError: it cannot be.
    """
    parent = _folder_of(name)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(max(_numbers(parent), default=0) + 1, 100_000):
            folder = RunFolder(parent / f"{number:03}")
            try:
                folder.path.mkdir()
            except FileExistsError:
                # Another run has been faster.
                continue
            return folder
    except OSError as error:
        raise FitError(f"cannot create a run directory in {parent}: {error}") from error
    raise FitError(f"{parent} is full: give --run_dir")


def run_folders(name: str) -> Iterator[RunFolder]:
    """Those of ``runs/<name>/<NNN>`` that hold a run of ``fit``, the last first."""
    parent = _folder_of(name)
    for number in sorted(_numbers(parent), reverse=True):
        folder = RunFolder(parent / f"{number:03}")
        if folder.holds_run and not folder.is_of_script:
            yield folder


def latest_run_folder(name: str) -> RunFolder:
    """The last of ``runs/<name>/<NNN>`` that holds a run.

    Raises:
        FitError: there is none.
    """
    for folder in run_folders(name):
        return folder
    raise FitError(f"nothing to resume: there is no run in {_folder_of(name)}; give --run_dir DIR")


def run_folder_at(path: Path, *, may_hold_run: bool) -> RunFolder:
    """The run directory that the user names.

    Raises:
        FitError: it holds a run and must not, or the other way round.
    """
    folder = RunFolder(path)
    if may_hold_run and (not folder.holds_run or folder.is_of_script):
        raise FitError(f"nothing to resume: {folder.path} holds no run of det-compat fit")
    if not may_hold_run and folder.holds_run:
        raise FitError(
            f"{folder.path} holds a run: go on with it by --resume, or name another --run_dir"
        )
    return folder


def _folder_of(name: str) -> Path:
    slug = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:_LONGEST_NAME]
    return Path.cwd() / "runs" / (slug or "run")


def _numbers(parent: Path) -> list[int]:
    return [int(path.name) for path in parent.glob("[0-9]*") if path.name.isdecimal()]

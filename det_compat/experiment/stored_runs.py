"""Runs whose folder is on another machine: what their checkpoints in a common storage tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from det_compat.config.experiment import ExperimentConfig
from det_compat.core.store import CompleteCheckpoint
from det_compat.experiment.checkpoints import RUN, checkpoints_of
from det_compat.experiment.errors import FitError
from det_compat.experiment.run_folder import RunFolder


@dataclass(frozen=True)
class StoredRun:
    """A run that has checkpoints in a storage.

    Attributes:
        id: tells it from all others.
        name: of its experiment.
        folder: the name of its folder, where that was.
        seed: the run's.
        launch: the names of the launch that has written its latest checkpoint.
        checkpoints: the UUIDs of those that are complete, oldest first.
        latest: the last of them.
    """

    id: str
    name: str
    folder: str
    seed: int
    launch: object
    latest: CompleteCheckpoint
    checkpoints: list[str]


def take_up(
    folder: RunFolder, config: ExperimentConfig, is_wanted: Callable[[StoredRun], bool]
) -> bool:
    """Make ``folder``, which holds no run, that of the run in the config's storage that is wanted.

    Returns:
        Whether there is one.

    Raises:
        FitError: there are several, or the storage or the folder cannot be used.
    """
    if config.checkpoint_storage.url is None:
        return False
    found = [run for run in _stored_runs(folder, config) if is_wanted(run)]
    if len(found) > 1:
        raise FitError(_which_of(found, config.checkpoint_storage.url))
    for run in found:
        print(
            f"{folder.path} holds no run: it goes on with the run {run.folder} of {run.name!r}, "
            f"of which {config.checkpoint_storage.url} has {len(run.checkpoints)} checkpoint(s)"
        )
        folder.begin(config.raw, seed=run.seed, run_id=run.id)
        for name in run.checkpoints:
            folder.begin_checkpoint(name)
    return bool(found)


def _stored_runs(folder: RunFolder, config: ExperimentConfig) -> list[StoredRun]:
    try:
        complete = checkpoints_of(config.checkpoint_storage, folder).list()
    except OSError as error:
        location = config.checkpoint_storage.url
        raise FitError(f"cannot read the checkpoints in {location}: {error}") from error
    by_run: dict[str, list[CompleteCheckpoint]] = defaultdict(list)
    for checkpoint in complete:
        about = checkpoint.metadata.get(RUN)
        if isinstance(about, dict) and isinstance(about.get("id"), str):
            by_run[about["id"]].append(checkpoint)
    return [_run_of(checkpoints) for checkpoints in by_run.values()]


def _run_of(checkpoints: list[CompleteCheckpoint]) -> StoredRun:
    latest = checkpoints[-1]
    about = latest.metadata[RUN]
    return StoredRun(
        id=about["id"],
        name=str(about.get("name")),
        folder=str(about.get("folder")),
        seed=int(about.get("seed") or 0),
        launch=about.get("launch"),
        latest=latest,
        checkpoints=[one.uuid for one in checkpoints],
    )


def _which_of(found: list[StoredRun], location: str) -> str:
    lines = "\n".join(
        f"  {run.folder}: after batch {run.latest.steps_completed}, saved {run.latest.saved_at} "
        f"in {location.rstrip('/')}/{run.latest.uuid}"
        for run in found
    )
    return (
        f"{location} has {len(found)} runs of this name, and none has its folder here:\n{lines}\n"
        "say which by --run_dir NAME, or begin a run with one of these checkpoints by "
        "--ckpt_path URL"
    )

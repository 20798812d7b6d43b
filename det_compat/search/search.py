"""A search from its config to its results."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from det_compat.config.experiment import ExperimentConfig, parse_config, read_config
from det_compat.experiment import checks, run_folder, run_start
from det_compat.experiment.environment import device_kind
from det_compat.experiment.errors import FitError
from det_compat.experiment.processes.tracker import check_tracking, tracked
from det_compat.experiment.run_state import state_noted
from det_compat.script.ending import INTERRUPTED
from det_compat.search.errors import SearchError
from det_compat.search.forks.template import template
from det_compat.search.records import SearchFolder, Status
from det_compat.search.results import Saved, TrialResult, read_results, write_results
from det_compat.search.searchers.plan import SearchPlan, plan_search
from det_compat.search.tune.attempt import (
    SCRIPT_TRAINER,
    TRAINER,
    TrainOne,
    TrialTask,
    imports_of,
)
from det_compat.shared.extras import how_to_install, too_old
from det_compat.shared.importing import large_imports
from det_compat.shared.masking import without_secrets
from det_compat.shared.spelling import foreign_letters
from det_compat.shared.variables import python_path

if TYPE_CHECKING:
    from ray.tune import ResultGrid

# The packages of the extra ``search``, and those of Ray's own that only its extras bring.
_PACKAGES = (
    "matplotlib",
    "ray",
    "rich",
    "pandas",
    "pyarrow",
    "pydantic",
)

ConfigSource = str | os.PathLike[str] | Mapping[str, Any] | ExperimentConfig


@dataclass(frozen=True)
class Search:
    """A search that is ready to run.

    Attributes:
        task: what the trials do.
        about: what the folder keeps of the search: a digest of the config, the seed.
        is_resumed: whether it goes on with an interrupted one.
    """

    task: TrialTask
    about: dict[str, Any]
    is_resumed: bool

    @property
    def plan(self) -> SearchPlan:
        """What is searched."""
        return self.task.plan

    @property
    def folder(self) -> SearchFolder:
        """Where everything is kept."""
        return self.task.folder

    def run(
        self, address: str | None = None, *, resuming: str = "", tracking: str | None = None
    ) -> ResultGrid:
        """Run it, and write its results, whatever ends it.

        Args:
            address: of a Ray cluster.
            resuming: the command that goes on with the search.
            tracking: where what it reports is sent, as for ``det-compat search --tracking``.

        Raises:
            SearchError: it cannot be run, or another one runs in the folder.
            SearchEndedError: it has ended before its time, for want of room on a disk, say.
        """
        with self.folder.held():
            _check_folder(self.folder, self.about, resume=self.is_resumed)
            if not self.is_resumed:
                self.folder.begin(self.about, without_secrets(self.task.config))
            with tracked(self.folder.path, tracking):
                with state_noted(self.folder.path, resuming) as noted:
                    found = self._run(address)
                    if any(one.status is Status.UNFINISHED for one in self.folder.trials()):
                        noted.status = INTERRUPTED  # Tune has ended it in good order.
                return found

    def _run(self, address: str | None) -> ResultGrid:
        with contextlib.ExitStack() as stack:
            imported = ""
            if self._shares_imports(address):
                # Ray sets the first one for a worker of one core, if nobody has.
                environ = {"OMP_NUM_THREADS": "1", **os.environ, **python_path()}
                imported = stack.enter_context(template(imports_of(self.task), environ))
            # Ray is imported meanwhile.
            with large_imports("det_compat.search.tune.engine", before_users=True):
                from det_compat.search.tune.engine import run_search

            return run_search(
                self.task,
                address=address,
                write_results=self.write_results,
                template=imported,
            )

    def _shares_imports(self, address: str | None) -> bool:
        """Whether all trials begin with the same imports in the same environment.

        Elsewhere, and where Ray runs already, nobody knows the environment of its workers, and
        which GPUs one sees is told by its environment.
        """
        ray: Any = sys.modules.get("ray")
        starts_ray = address is None and not (ray and ray.is_initialized())
        is_on_cpus = device_kind(slots=1) == "cpu"
        is_ours = bool(imports_of(self.task).preload)
        return starts_ray and is_on_cpus and is_ours and self.plan.processes == 1

    def results(self) -> list[TrialResult]:
        """The trials so far, best first."""
        return read_results(
            self.folder,
            smaller_is_better=self.plan.searcher.smaller_is_better,
            last_saved=self._last_saved,
        )

    def _last_saved(self, folder: Path) -> Saved | None:
        """The latest checkpoint that is there of the trial in ``folder``, at whatever batch."""
        # This import brings torch, which a trial that saves when it validates does not need.
        from det_compat.experiment.checkpoints import checkpoints_of

        storage = parse_config(self.task.config).checkpoint_storage
        with contextlib.suppress(FitError, OSError):
            checkpoints = checkpoints_of(storage, run_folder.RunFolder(folder))
            if latest := checkpoints.latest_of_run():
                return checkpoints.location(latest.uuid), latest.steps_completed
        return None

    def write_results(self) -> None:
        """Write results.json, results.csv and results.png into the folder, if there are trials."""
        from det_compat.search.picture import draw

        if not (results := self.results()):
            return
        write_results(self.folder.path, results)
        draw(self.folder.path / "results.png", self.plan, results)


def prepare(
    config: ConfigSource,
    model_dir: str | os.PathLike[str] | None = None,
    *,
    run_dir: str | os.PathLike[str] | None = None,
    resume: bool = False,
    train_one: TrainOne | str = TRAINER,
) -> Search:
    """A search, checked and ready to run; see ``run``."""
    _check_extra()
    experiment = _read(config)
    if model_dir is None:
        model_dir = Path(experiment.file).parent if experiment.file else Path.cwd()
    if train_one == TRAINER:
        _check_runnable(experiment, Path(model_dir))
        if experiment.entrypoint is not None and experiment.entrypoint.is_command:
            train_one = SCRIPT_TRAINER
    folder = SearchFolder(run_dir if run_dir is not None else _default_folder(experiment.name))
    for path in (folder.path, Path(model_dir).resolve(), Path.cwd()):
        if why := foreign_letters(path):
            raise SearchError(why)
    seed = folder.about()["seed"] if resume and folder.exists else run_start.new_seed()
    plan = plan_search(experiment, seed)
    about = {
        **run_folder.described(experiment.raw),
        **{"seed": plan.seed, "config": _digest(experiment), "file": experiment.file},
    }
    _check_folder(folder, about, resume=resume)
    task = TrialTask(plan, experiment.raw, folder, Path(model_dir).resolve(), train_one)
    return Search(task, about, is_resumed=resume)


def run(
    config: ConfigSource,
    model_dir: str | os.PathLike[str] | None = None,
    *,
    run_dir: str | os.PathLike[str] | None = None,
    resume: bool = False,
    address: str | None = None,
    tracking: str | None = None,
    train_one: TrainOne | str = TRAINER,
) -> ResultGrid:
    """Search the hyperparameters of an experiment config, as ``det-compat search`` does.

    Args:
        config: a file, or what is in one.
        model_dir: where the entrypoint is imported from; by default the folder of the file.
        run_dir: a new folder for the results; by default ``search_<name>`` in this directory.
        resume: go on with the interrupted search in ``run_dir``.
        address: the address of a Ray cluster. A machine of it that does not see ``run_dir`` needs a
            ``checkpoint_storage`` that all machines see.
        tracking: ``mlflow`` or ``mlflow:URI`` sends what is reported there, ``none`` nothing;
            None what was sent before.
        train_one: what trains a trial in its process; a function, or ``module:function``.

    Returns:
        Ray Tune's results, whose ``config["hparams"]`` are the hyperparameters; of a search that
        was resumed those of the trials that were still to be trained. ``results.json`` in
        ``run_dir`` tells more, of all trials: what was stopped early, which failed, and why.

    Raises:
        ConfigError: the config is not valid.
        ImportError: the extra ``search`` is not installed.
        SearchError: the search cannot be run, or has ended before its time, as where there was no
            room on a disk for a trial: its results so far are written, and it can be resumed.
    """
    search = prepare(config, model_dir, run_dir=run_dir, resume=resume, train_one=train_one)
    try:
        check_tracking(tracking)
    except FitError as error:
        raise SearchError(str(error)) from error
    return search.run(address, tracking=tracking)


def _check_extra() -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing := [*missing, *too_old("search")]:
        raise ImportError(
            f"a hyperparameter search needs {', '.join(missing)}: {how_to_install('search')}"
        )


def _read(config: ConfigSource) -> ExperimentConfig:
    if isinstance(config, ExperimentConfig):
        return config
    return parse_config(config) if isinstance(config, Mapping) else read_config(Path(config))


def _check_runnable(experiment: ExperimentConfig, model_dir: Path) -> None:
    try:
        checks.check_runnable(experiment, model_dir)
        if experiment.checkpoint_storage.url is not None:
            # This import brings torch, which only such a storage needs here.
            from det_compat.experiment.checkpoints import checkpoints_of

            checkpoints_of(experiment.checkpoint_storage, run_folder.RunFolder("."))
    except FitError as error:
        raise SearchError(str(error)) from error


def _default_folder(name: str) -> Path:
    plain = "".join(char if char.isalnum() or char in "-." else "_" for char in name)
    return Path(f"search_{plain or 'experiment'}")


def _check_folder(folder: SearchFolder, about: dict[str, Any], *, resume: bool) -> None:
    if not resume:
        if not folder.is_free:
            raise SearchError(
                f"{folder.path} is not empty: go on with the search in it (--resume), or choose "
                "another folder (--run-dir)"
            )
    elif not folder.exists:
        raise SearchError(f"there is no search to resume in {folder.path}")
    elif folder.about()["config"] != about["config"]:
        raise SearchError(
            f"the search in {folder.path} was started with another config: resume it with that "
            f"one ({folder.about()['file']}), or start a new search in another folder"
        )


def _digest(experiment: ExperimentConfig) -> str:
    text = json.dumps(without_secrets(experiment.raw), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()

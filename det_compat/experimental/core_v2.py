"""``determined.experimental.core_v2``: the Core API for scripts that start by themselves.

Determined 0.38.1 told a master of such scripts; here, what they report and the names of their
checkpoints are kept in a folder below ``runs``. Runs of one ``external_trial_id`` have one folder,
and go on from the latest checkpoint that it names.
"""

from __future__ import annotations

import atexit
import dataclasses
import sys
import uuid
import warnings
from pathlib import Path
from typing import Any

from det_compat import core
from det_compat.core import storage
from det_compat.core.checkpoint import CheckpointContext
from det_compat.core.distributed import DistributedContext, DummyDistributedContext
from det_compat.core.preempt import PreemptMode, SignalPreemptContext
from det_compat.core.reports.kept import Goal, TaskTrainContext, TensorboardMode
from det_compat.core.store import default_base_path
from det_compat.core.train import new_tensorboard_path, shared_tensorboard_path
from det_compat.experimental.unmanaged import (
    NO_SEARCHER,
    TrialCheckpoints,
    UnmanagedContext,
    file_name,
)
from det_compat.info import ClusterInfo, RendezvousInfo, TrialInfo
from det_compat.script.ending import end_of_program
from det_compat.script.run_paths import RunPaths
from det_compat.script.task import current_task

__all__ = [
    "Config",
    "DefaultConfig",
    "DistributedContext",
    "PreemptMode",
    "TensorboardMode",
    "UnmanagedConfig",
    "checkpoint",
    "close",
    "distributed",
    "info",
    "init",
    "init_context",
    "preempt",
    "searcher",
    "train",
    "url_reverse_webui_exp_view",
]

# The parts of the context that init() has made.
train: core.TrainContext | None = None
distributed: DistributedContext | None = None
preempt: core.PreemptContext | None = None
checkpoint: CheckpointContext | None = None
searcher: core.SearcherContext | None = None
info: ClusterInfo | None = None

_context: core.Context | None = None


@dataclasses.dataclass
class Config:
    """What is known of a script that starts by itself; one that ``fit`` runs has its own config.

    Args:
        name: the name of its experiment.
        hparams: its hyperparameters.
        data: what it finds as ``info.user_data``.
        description: words about it.
        labels: labels of it.
        workspace: has no effect here.
        project: has no effect here.
        checkpoint_storage: where its checkpoints are, as in ``core.init()``.
        searcher: its ``searcher``, of which ``metric`` is the metric of the experiment.
        external_experiment_id: the folder, below ``runs``, of the folders of its trials.
        external_trial_id: the folder of a trial, which goes on where its last run has ended.
    """

    name: str | None = None
    hparams: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    description: str | None = None
    labels: list[str] | None = None
    workspace: str | None = None
    project: str | None = None
    checkpoint_storage: str | dict[str, Any] | None = None
    searcher: dict[str, Any] | None = None
    external_experiment_id: str | None = None
    external_trial_id: str | None = None


class _DeprecatedConfig(Config):
    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self).__name__} is deprecated: use Config", FutureWarning, stacklevel=2
        )
        super().__init__(**kwargs)


class DefaultConfig(_DeprecatedConfig):
    """The first half of what is a ``Config`` since 0.38."""


class UnmanagedConfig(_DeprecatedConfig):
    """The second half of what is a ``Config`` since 0.38."""


def init_context(
    *,
    config: Config | None = None,
    defaults: Config | None = None,
    unmanaged: Config | None = None,
    client: Any = None,
    distributed: DistributedContext | None = None,
    checkpoint_storage: str | dict[str, Any] | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
) -> core.Context:
    """The context of a script, as ``core.init()`` makes it, with what ``config`` says of it.

    In a script that ``det-compat fit`` or ``search`` runs, the task says what is else of no effect
    here: ``config``, ``defaults`` and ``unmanaged``.

    Args:
        config: what is known of the script.
        defaults: the same, by its older name.
        unmanaged: what ``defaults`` does not say.
        client: has no effect: there is no cluster.
        distributed: the ranks.
        checkpoint_storage: where checkpoints are, in place of the config's.
        preempt_mode: which ranks ask whether to stop.
        tensorboard_mode: whether reported metrics go to TensorBoard files by themselves.

    Raises:
        ImportError: what the storage needs is not installed.
        NotImplementedError: ``external_trial_id`` is without ``external_experiment_id``.
        TypeError: ``checkpoint_storage`` is neither a string nor a dictionary.
        ValueError: there is neither ``config`` nor ``defaults``, the storage cannot be used, or
            the ids are those of a run of ``det-compat fit``.
    """
    ranks = distributed or DummyDistributedContext()
    config = _merged(config, defaults, unmanaged)
    if config is None:
        return core.init(
            distributed=ranks,
            checkpoint_storage=checkpoint_storage,
            preempt_mode=preempt_mode,
            tensorboard_mode=tensorboard_mode,
        )
    where = checkpoint_storage or config.checkpoint_storage or str(default_base_path())
    paths = RunPaths(_trial_folder(config, ranks))
    manager = storage.manager_of(where)
    checkpoints = TrialCheckpoints(ranks, manager, paths)
    raw = _experiment_config(config, where)
    return UnmanagedContext(
        checkpoints,
        distributed=ranks,
        preempt=SignalPreemptContext(ranks, preempt_mode),
        train=TaskTrainContext(paths.path, Goal.of(raw), tensorboard_mode),
        info=_info(config, raw, *checkpoints.latest()),
        folder=paths.path,
        storage=storage.location_of(manager, where),
        goes_on_by_name=config.external_trial_id is not None,
    )


def init(
    *,
    config: Config | None = None,
    defaults: Config | None = None,
    unmanaged: Config | None = None,
    client: Any = None,
    distributed: DistributedContext | None = None,
    checkpoint_storage: str | dict[str, Any] | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
) -> None:
    """Begin, and have the parts of the context as names of this module, until ``close()``.

    The arguments and errors are those of ``init_context``.
    """
    global _context
    close()
    _context = init_context(
        config=config,
        defaults=defaults,
        unmanaged=unmanaged,
        client=client,
        distributed=distributed,
        checkpoint_storage=checkpoint_storage,
        preempt_mode=preempt_mode,
        tensorboard_mode=tensorboard_mode,
    )
    _context.start()
    for part in ("train", "checkpoint", "distributed", "preempt", "searcher", "info"):
        globals()[part] = getattr(_context, part)
    atexit.unregister(close)
    atexit.register(close)


def close() -> None:
    """End what ``init()`` has begun; further calls do nothing."""
    global _context, train
    if _context is not None:
        # What is being raised, if it is called on the way out of the script.
        error = sys.exc_info()[1] or end_of_program()
        if isinstance(error, SystemExit) and not error.code:
            error = None
        _context.close(type(error) if error else None, error, None)
    _context = train = None


def url_reverse_webui_exp_view() -> str:
    """Where to look at what was reported: the folder of the run, as there is no web page of it.

    Raises:
        AssertionError: ``init()`` was not called.
    """
    assert _context is not None
    return _context.train.get_tensorboard_path().parent.as_uri()


def _merged(
    config: Config | None, defaults: Config | None, unmanaged: Config | None
) -> Config | None:
    """What is known of the script; None where a task says it."""
    if defaults is not None or unmanaged is not None:
        warnings.warn(
            "'defaults' and 'unmanaged' are deprecated: use `config`", FutureWarning, stacklevel=3
        )
    if current_task() is not None:
        return None
    if config is not None:
        return config
    if defaults is None:
        raise ValueError(
            "either specify `defaults` or `config`, or run as a managed determined experiment"
        )
    if unmanaged is not None:
        for field in ("project", "workspace", "external_experiment_id", "external_trial_id"):
            setattr(defaults, field, getattr(defaults, field) or getattr(unmanaged, field))
    return defaults


def _trial_folder(config: Config, ranks: DistributedContext) -> Path:
    experiment, trial = config.external_experiment_id, config.external_trial_id
    if trial is not None and experiment is None:
        raise NotImplementedError("external_trial_id needs external_experiment_id beside it")
    # Processes that one launcher has started share a folder.
    new = new_tensorboard_path() if ranks.size == 1 else shared_tensorboard_path()
    if experiment is None:
        return Path.cwd() / new
    folder = Path.cwd() / new.parent / file_name(experiment)
    return folder / (new.name if trial is None else file_name(trial))


def _experiment_config(config: Config, where: str | dict[str, Any]) -> dict[str, Any]:
    """The experiment config that ``info.trial`` has."""
    is_path = isinstance(where, str)
    return {
        "name": config.name or f"unmanaged-{uuid.uuid4().hex[:8]}",
        "data": config.data,
        "description": config.description,
        "labels": config.labels,
        "searcher": config.searcher or NO_SEARCHER,
        "workspace": config.workspace,
        "project": config.project,
        "checkpoint_storage": {"type": "directory", "container_path": where} if is_path else where,
    }


def _info(
    config: Config, raw: dict[str, Any], latest_checkpoint: str | None, steps_completed: int
) -> ClusterInfo:
    return ClusterInfo(
        master_url="",
        cluster_id="",
        agent_id="unmanaged",
        slot_ids=[],
        task_id="",
        allocation_id="",
        session_token="",
        task_type="TRIAL",
        latest_checkpoint=latest_checkpoint,
        trial_info=TrialInfo(
            trial_id=0,
            experiment_id=0,
            trial_seed=0,
            hparams=config.hparams or {},
            config=raw,
            steps_completed=steps_completed,
            trial_run_id=1,
            debug=False,
            inter_node_network_interface=None,
        ),
        rendezvous_info=RendezvousInfo(["127.0.0.1"], 0, [0]),
    )

"""Runs a search on Ray Tune."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import cloudpickle, tune
from ray.exceptions import RayError
from ray.tune import TuneError, registry

from det_compat.search.errors import SearchEndedError, SearchError
from det_compat.search.searchers.plan import SearchPlan
from det_compat.search.tune import live, scheduler, sent_code, suggestions
from det_compat.search.tune.actor import TrialActor
from det_compat.search.tune.attempt import TrialTask
from det_compat.search.tune.losses import Losses
from det_compat.search.tune.mirror import start_keeper
from det_compat.search.tune.trial import run_in_tune
from det_compat.shared.variables import preserved_variables, python_path

if TYPE_CHECKING:
    from ray.tune import ResultGrid

_LOG = logging.getLogger(__name__)
_ENVIRONMENT = {
    # A trial that never validates has no metric.
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    # Tune copies what it has written, for TensorBoard above all, every so many seconds.
    "TUNE_GLOBAL_CHECKPOINT_S": "2",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    # Relative paths in a trial's code start at its own folder.
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # LiveTable replaces the older reporters; Tune's newer ones cannot be silenced.
    "RAY_AIR_NEW_OUTPUT": "0",
    # Tune would import torch for a logger of TensorBoard before the first trial starts; trials
    # write event files of their own.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # At its end, Ray prints the traceback of each trial that failed after the search itself did.
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
}
_QUIET: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
#: Where there is no dashboard, Ray Train finds out at once, and not after 12 seconds a trial.
NO_DASHBOARD = {"RAY_API_SERVER_ADDRESS": "http://127.0.0.1:9"}
# Ray would start a process for each core before it knows of the actors, which start their own.
_NO_SPARE_WORKERS = {"RAY_prestart_worker_first_driver": "0"}
# Ray's older autoscaler is killed after a second in which it wants to tell the GCS server that it
# ends, which has ended before it (Ray 2.51 to 2.60). Neither has anything to do on one machine.
_ENDS_SOONER = {"RAY_enable_autoscaler_v2": "1"}
# The path of a socket has 107 bytes at most, and Ray 2.60 has these in its folder.
_LONGEST_TMPDIR = 107 - len("/ray/session_2026-11-24_01-16-41_123456_1234567/sockets/plasma_store")
# It is what Ray takes itself where there is no TMPDIR.
_SHORT_TMPDIR = "/tmp"
_PATIENCE = 10  # seconds
# What runs and searches leave beside the code.
_NO_CODE = ["/runs/", "/search_*/", "__pycache__/", ".git/", ".venv/"]
# Tune takes no empty reservation; this one is in bytes.
_NEXT_TO_NOTHING = {"memory": 2.0**20}


def run_search(
    task: TrialTask,
    *,
    address: str | None,
    write_results: Callable[[], None],
    template: str = "",
) -> ResultGrid:
    """Run the search of ``task``, or go on with what its folder has records of.

    Args:
        task: what to do, and in which folder.
        address: the address of a Ray cluster; None for this machine, or for the Ray that this
            process is connected to already.
        write_results: is called when the trials have ended, whatever has ended them.
        template: the address of a process that has imported what trials do, if Ray is started here.

    Raises:
        SearchError: no machine can run a trial.
        SearchEndedError: Ray has given up.
    """
    with _environment(_ENVIRONMENT), _quiet(), _connected(address, write_results):
        _check_places(task.plan)
        keeper = _keeper(task) if address is not None or _machines() > 1 else None
        # It is unpickled where the code is.
        packed: bytes = cloudpickle.dumps(task)
        given = {"task": packed, "keeper": keeper}
        # Tune leaves what it is given in this way alone with the job, whose end is its end.
        train: Any = (
            tune.with_parameters(TrialActor, **given, template=template)
            if task.plan.processes == 1
            else tune.with_parameters(run_in_tune, **given)
        )
        train = tune.with_resources(train, _resources(task.plan, keeper))
        own = task.folder.path / "tune"
        _forget_states(own)
        try:
            places = functools.partial(_places, task.plan)
            losses = Losses(keeper, task.plan.processes, places)
            tuner = _tuner(task, train, losses)
        finally:
            # Tune has pickled the plan for a restore of its own, and with it the secrets that
            # hyperparameters hold.
            _forget_states(own)
        # Otherwise Tune asks for the second trial when the process of the first has started.
        with _environment({"TUNE_MAX_PENDING_TRIALS_PG": str(_places(task.plan))}):
            try:
                found = tuner.fit()
            except (TuneError, RayError) as error:
                why = str(error).strip().splitlines()[-1]
                raise SearchEndedError(f"Ray has given up the search: {why}") from error
        if losses.given_up:
            raise SearchEndedError(_of_given_up(losses.given_up))
        return found


def _of_given_up(reasons: dict[int, str]) -> str:
    """What is said of the trials that a search has given up."""
    index, why = next(iter(reasons.items()))
    others = len(reasons) - 1
    return f"trial {index} was given up: {why}" + f"; so were {others} more" * (others > 0)


def _forget_states(folder: Path) -> None:
    """Delete the states that a start of Tune's has left.

    They are pickles, also those in JSON, and the folder may come from elsewhere. A search goes on
    from its own records.
    """
    for pattern in ("*.pkl", "*/*.pkl", "experiment_state*.json"):
        for file in folder.glob(pattern):
            file.unlink()


def _tuner(task: TrialTask, train: Any, losses: Losses) -> tune.Tuner:
    plan = task.plan
    # For trials of several processes, Tune itself reserves next to nothing.
    places = None if plan.processes == 1 else functools.partial(_places, plan)
    return tune.Tuner(
        train,
        tune_config=tune.TuneConfig(
            metric=plan.searcher.metric,
            mode=plan.mode,
            search_alg=suggestions.Suggestions(plan, task.folder, losses, places),
            scheduler=scheduler.BracketScheduler(plan, task.folder, losses),
            num_samples=-1,
            reuse_actors=plan.processes == 1,
            trial_name_creator=_name,
            trial_dirname_creator=_name,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(task.folder.path),
            # Tune's data frames are read from what the last two write.
            callbacks=[
                live.LiveTable(plan, task.folder),
                losses,
                tune.logger.CSVLoggerCallback(),
                tune.logger.JsonLoggerCallback(),
            ],
            # A class would else be asked for a checkpoint at its end.
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False)
            if plan.processes == 1
            else None,
            failure_config=tune.FailureConfig(max_failures=plan.max_restarts),
            verbose=0,
        ),
    )


def _name(trial: Any) -> str:
    return f"trial_{trial.config['trial']['index']:04d}"


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Have ``variables`` in the environment for the block, but for those that are there."""
    with preserved_variables(*variables):
        for name, value in variables.items():
            os.environ.setdefault(name, value)
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave it to LiveTable to tell of trials that fail, and to us how to connect."""
    loggers = {"ray": logging.ERROR, "ray.tune": logging.CRITICAL}
    before = {name: logging.getLogger(name).level for name in loggers}
    for name, level in loggers.items():
        logging.getLogger(name).setLevel(level)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


_is_starting = threading.Event()


def _leave_group() -> None:
    """Keep signals to the search's process group, as `timeout` sends, from the processes of Ray.

    They would die before the search could stop its trials. Ray starts them by a fork.
    """
    if _is_starting.is_set():
        os.setpgid(0, 0)


os.register_at_fork(after_in_child=_leave_group)


@contextlib.contextmanager
def _connected(address: str | None, at_end: Callable[[], None]) -> Iterator[None]:
    """Ray, started for the block unless it is there already; ``at_end`` follows the block."""
    if ray.is_initialized():
        try:
            yield
        finally:
            at_end()
        return
    on_sigterm = signal.getsignal(signal.SIGTERM)
    _is_starting.set()
    try:
        if address is None:
            own = {**NO_DASHBOARD, **_NO_SPARE_WORKERS, **_ENDS_SOONER}
            _start_here({**python_path(), **own, **_short_folder()})
        else:
            _check_reachable(address)
            ray.init(**_QUIET, address=address, runtime_env={"env_vars": python_path()})
    except (ConnectionError, TimeoutError, socket.gaierror) as error:
        raise SearchError(
            f"cannot connect to a Ray cluster at {address}: {error}. See whether it runs (`ray "
            f"status --address {address}`); one that was started with a token wants "
            "RAY_AUTH_MODE=token here too"
        ) from error
    finally:
        _is_starting.clear()
    if threading.current_thread() is threading.main_thread():
        # Ray has replaced it by one that leaves Tune where it is.
        signal.signal(signal.SIGTERM, on_sigterm)
    try:
        yield
    finally:
        # Ray 2.60 takes what Tune has registered off a cluster at the end of the process alone, and
        # only if that is still connected.
        getattr(registry, "_unregister_all", bool)()
        # The end of Ray's processes takes a second, in which there is nothing to do here.
        with ThreadPoolExecutor(max_workers=1) as beside:
            done = beside.submit(at_end)
            ray.shutdown()
        done.result()


def _keeper(task: TrialTask) -> Any:
    """What the machines of a cluster get the code and the folder of the search from."""
    excluded = list(_NO_CODE)
    if task.folder.path.is_relative_to(task.model_dir):
        excluded.append(f"/{task.folder.path.relative_to(task.model_dir)}/")
    return start_keeper(task.folder, sent_code.packed(task.model_dir, excluded))


def _start_here(variables: dict[str, str]) -> None:
    """Start Ray; trials inherit ``variables``. In a ``runtime_env`` they cost each a process."""
    with preserved_variables(*variables):
        os.environ.update(variables)
        ray.init(**_QUIET, address="local", include_dashboard=False)


def _short_folder() -> dict[str, str]:
    """The variable that has Ray keep its sockets elsewhere, if TMPDIR is too long for them."""
    given = os.environ.get("TMPDIR", "")
    if "RAY_TMPDIR" in os.environ or len(os.fsencode(given)) <= _LONGEST_TMPDIR:
        return {}
    _LOG.info(
        "Ray keeps its sockets and logs in %s/ray, since TMPDIR is too long for sockets: %s",
        *(_SHORT_TMPDIR, given),
    )
    return {"RAY_TMPDIR": _SHORT_TMPDIR}


def _check_reachable(address: str | None) -> None:
    """Raise OSError if nothing answers at ``address``; Ray would try for minutes."""
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _check_places(plan: SearchPlan) -> None:
    if _places(plan) == 0:
        kind, there = _devices(plan)
        raise SearchError(
            f"resources.slots_per_trial is {plan.slots}, and there are {there:g} "
            f"{'GPUs' if kind == 'GPU' else 'CPU cores'}: lower it, or pass --address of a Ray "
            "cluster"
        )


def _places(plan: SearchPlan) -> int:
    """How many trials there may be at once on the machines that are there now."""
    return int(_devices(plan)[1]) // max(plan.slots, 1)


def _devices(plan: SearchPlan) -> tuple[str, float]:
    """What a slot is, and how many there are."""
    total = ray.cluster_resources()
    kind = "GPU" if plan.slots > 0 and total.get("GPU", 0) > 0 else "CPU"
    return kind, total.get(kind, 0)


def _machines() -> int:
    return sum(it["Alive"] for it in ray.nodes())


def _resources(plan: SearchPlan, keeper: Any) -> dict[str, float] | tune.PlacementGroupFactory:
    """What Tune reserves for a trial.

    Ray Train reserves what the processes of a trial of several slots need, and Tune next to nothing
    for who watches over them: on a cluster, that is on the search's own machine, which has the
    records.
    """
    kind, _ = _devices(plan)
    if plan.processes == 1:
        devices = max(plan.slots, 1)
        return {"CPU": 1, "GPU": devices} if kind == "GPU" else {"CPU": devices}
    if keeper is None:
        return _NEXT_TO_NOTHING
    here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
    return tune.PlacementGroupFactory([_NEXT_TO_NOTHING], bundle_label_selector=[here])

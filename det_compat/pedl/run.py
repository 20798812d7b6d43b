"""The run that is going on, for ``pedl.get_hyperparameter`` and its neighbours.

The adapters say when a run begins and ends. Worker processes, forked or spawned, know of the run in
which they were started.
"""

import base64
import contextlib
import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

_VARIABLE = "DET_COMPAT_PEDL_RUN"
# Linux refuses to start a process with a longer variable.
_LONGEST = 100_000


@dataclass(eq=False)
class Run:
    """What a PEDL trial may ask for: ``data_dir`` is what download_data returned."""

    hparams: dict[str, Any] = field(default_factory=dict)
    exp_conf: dict[str, Any] = field(default_factory=dict)
    data_dir: str | None = None


_runs: list[Run] = []


def begin(run: Run) -> None:
    """Make ``run`` the current one."""
    _runs.append(run)
    tell_processes()


def end(run: Run) -> None:
    """Make the run before ``run`` the current one again, if there was any."""
    if run in _runs:
        # A run may begin once more while it is going on: it is the latest that ends.
        del _runs[len(_runs) - 1 - _runs[::-1].index(run)]
    tell_processes()


@contextlib.contextmanager
def going_on(run: Run) -> Iterator[None]:
    """Make ``run`` the current one inside the block."""
    begin(run)
    try:
        yield
    finally:
        end(run)


def tell_processes() -> None:
    """Tell processes that this one starts from now on of the current run."""
    os.environ.pop(_VARIABLE, None)
    text = base64.b64encode(_pickled(_runs[-1]) or b"").decode() if _runs else ""
    if 0 < len(text) < _LONGEST:
        os.environ[_VARIABLE] = text


def _pickled(run: Run) -> bytes | None:
    """``run``, or None: with a hyperparameter that cannot be pickled, it stays in its process."""
    with contextlib.suppress(Exception):
        return pickle.dumps(run)
    return None


class InWorkers:
    """A ``worker_init_fn`` that tells a DataLoader's workers of a run, and then calls another.

    By then, a worker of a forkserver that knows another run has unpickled its dataset.
    """

    def __init__(self, run: Run, then: Callable[[int], None] | None) -> None:
        self._run: Run | None = run
        self._then = then

    def __call__(self, worker_id: int) -> None:
        if self._run is not None:
            begin(self._run)
        if self._then is not None:
            self._then(worker_id)

    def __getstate__(self) -> dict[str, Any]:
        told = self._run is not None and _pickled(self._run) is not None
        return {"_run": self._run if told else None, "_then": self._then}


def _current(what: str) -> Run:
    if not _runs and _VARIABLE in os.environ:
        _runs.append(pickle.loads(base64.b64decode(os.environ[_VARIABLE])))
    if not _runs:
        raise RuntimeError(
            f"pedl.{what} was called while no PEDL trial is built or trained: only a run has "
            "hyperparameters, data and configuration. Call it in the trial, in what the trial "
            "calls, or in make_data_loaders(), not where a module is imported."
        )
    return _runs[-1]


def get_hyperparameter(name: str) -> Any:
    """The hyperparameter ``name`` of the trial that is built or trained.

    Raises:
        RuntimeError: no PEDL trial is built or trained.
        ValueError: the trial has no such hyperparameter.
    """
    hparams = _current(f"get_hyperparameter({name!r})").hparams
    if name not in hparams:
        raise ValueError(
            f"pedl.get_hyperparameter({name!r}): there is no such hyperparameter; the trial was "
            f"given {sorted(map(str, hparams)) or 'none'}. Add it to the hparams."
        )
    return hparams[name]


def get_data_config() -> dict[str, Any]:
    """The ``data`` section of the experiment config, ``{}`` if it has none.

    Raises:
        RuntimeError: no PEDL trial is built or trained.
    """
    return _current("get_data_config()").exp_conf.get("data") or {}


def get_download_data_dir() -> str:
    """What ``download_data(experiment_config, hparams)`` returned on this machine.

    Raises:
        RuntimeError: no PEDL trial is built or trained, or it has no download_data.
    """
    data_dir = _current("get_download_data_dir()").data_dir
    if data_dir is None:
        raise RuntimeError(
            "pedl.get_download_data_dir() needs a function download_data(experiment_config, "
            "hparams) -> str, and there is none: define it in the trial's module, name it in the "
            "config's entrypoints (download_data_function: module:function), or pass "
            "download_data=... to to_lightning()."
        )
    return data_dir

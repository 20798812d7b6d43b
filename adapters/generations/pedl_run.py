"""What trials without loader methods have in common: a run of PEDL's, and data from functions.

The functions are ``make_data_loaders`` and ``download_data``, as PEDL had them.
"""

import copy
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any, ClassVar, cast

import torch

from det_compat.adapters.generations.adapted import AdaptedTrial, with_hparams
from det_compat.adapters.generations.entry import function_beside
from det_compat.adapters.generations.trial_class import ClassFacts, concrete, full_name, own_init
from det_compat.catalog.generations import init_parameter
from det_compat.errors import InvalidExperimentException
from det_compat.pedl.run import InWorkers, Run, begin, end, going_on, tell_processes
from det_compat.pytorch.callback import PyTorchCallback
from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.data import DataLoader, how_to_load
from det_compat.shared.importing import imported

CONTRACT = "make_data_loaders(experiment_config, hparams) -> (training, validation)"

_ENTRYPOINTS = {
    "make_data_loaders": "data_loaders_function",
    "download_data": "download_data_function",
}


class PedlRun(AdaptedTrial):
    """A trial whose hyperparameters ``pedl`` tells, and whose data come from functions.

    Download comes first, then what AdaptedTrial does, then both loaders from one call.
    """

    contract: ClassVar[str] = f"PEDL's contract is {CONTRACT} in the trial's module"

    def __init__(self, context: PyTorchTrialContext, **kwargs: Any) -> None:
        steering = Steering(context)
        self.pedl = Run(steering.hparams or {}, steering.exp_conf or {})
        self._made: tuple[Any, Any] | None = None
        with going_on(self.pedl):
            self._find_data(context)
            super().__init__(context, **kwargs)

    def _find_data(self, context: PyTorchTrialContext) -> None:
        trial_cls, conf = self.trial_cls, self.pedl.exp_conf
        make, download_data = self.loader_functions
        make = find_function("make_data_loaders", trial_cls, make, conf)
        download_data = find_function("download_data", trial_cls, download_data, conf)
        if make is None:
            raise InvalidExperimentException(
                f"{full_name(self.trial_cls)} has no data: {self.contract}, or named by the "
                "config's entrypoints (data_loaders_function: module:function), or passed as "
                "make_data_loaders=... to to_lightning()"
            )
        self._make_data_loaders = make
        if download_data is not None:
            self.pedl.data_dir = download(download_data, self.pedl, context.distributed)
            tell_processes()

    def make_trial(self, **kwargs: Any) -> Any:
        trial_cls = concrete(self.trial_cls)
        if init_parameter(ClassFacts(self.trial_cls)) in ("context", "trial_context"):
            return trial_cls(self.context, **kwargs)
        if own_init(self.trial_cls) is None:
            return trial_cls(**kwargs)
        return with_hparams(trial_cls, self.hparams, **kwargs)

    def build_callbacks(self) -> Any:
        with going_on(self.pedl):
            callbacks = super().build_callbacks()
        # This one starts up first and shuts down last: the others may ask for hyperparameters.
        own = {"det_compat.pedl": GoingOn(self.pedl)}
        return {**own, **callbacks} if isinstance(callbacks, dict) else callbacks

    def build_training_data_loader(self) -> Any:
        self._made = self._make_loaders()
        return self._made[0]

    def validation_data(self) -> Any:
        # Training data do not come before it when only a validation was asked for.
        _, validation = self._made or self._make_loaders()
        self._made = None
        return validation

    def _make_loaders(self) -> tuple[Any, Any]:
        with going_on(self.pedl):
            return make_loaders(self._make_data_loaders, self.pedl)


class GoingOn(PyTorchCallback):
    """Says from when to when the run is the one that ``pedl`` tells of."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        begin(self._run)

    def on_trial_shutdown(self) -> None:
        end(self._run)


def find_function(
    name: str, trial_cls: type, given: Callable[..., Any] | None, exp_conf: dict[str, Any]
) -> Callable[..., Any] | None:
    """Function ``name`` of a trial: as given, as the config's entrypoints, its module, or the
    ``__init__.py`` beside that has it.

    Raises:
        InvalidExperimentException: an entrypoint cannot be imported.
        TypeError: what was found is not callable.
    """
    found = given or _entrypoint(exp_conf, _ENTRYPOINTS[name]) or _in_module(name, trial_cls)
    found = found or function_beside(name, trial_cls)
    if found is not None and not callable(found):
        raise TypeError(
            f"PEDL's {name} must be a function, got {type(found).__name__} {found!r} for "
            f"{full_name(trial_cls)}"
        )
    return found


def _entrypoint(exp_conf: dict[str, Any], key: str) -> Any:
    entrypoints = exp_conf.get("entrypoints")
    path = entrypoints.get(key) if isinstance(entrypoints, dict) else None
    if path is None:
        return None
    try:
        return imported(str(path))
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidExperimentException(
            f"the experiment config's entrypoints.{key} names {path!r}, which cannot be imported "
            f"({error}); expected 'module:function', importable from here"
        ) from error


def _in_module(name: str, trial_cls: type) -> Any:
    modules = [sys.modules.get(cls.__module__) for cls in trial_cls.__mro__]
    return next((getattr(module, name) for module in modules if hasattr(module, name)), None)


def download(function: Callable[..., Any], run: Run, distributed: Any) -> str:
    """What ``function`` returns, called by the first process of this machine while others wait.

    Raises:
        InvalidExperimentException: it returned no path.
        RuntimeError: it failed in the process that called it, and this is another.
    """
    path, failure = None, None
    if distributed.local_rank == 0:
        try:
            path = _call(function, run)
        except BaseException as error:
            failure = error
    # Others must not wait for a process that has failed.
    told = distributed.broadcast_local((path, None if failure is None else repr(failure)))
    if failure is not None:
        raise failure
    path, reason = told
    if reason is not None:
        raise RuntimeError(f"download_data() failed in the first process of this machine: {reason}")
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidExperimentException(
            "PEDL's download_data(experiment_config, hparams) -> str returns the directory of the "
            f"data, got {type(path).__name__} {path!r}"
        )
    return os.fspath(path)


def make_loaders(function: Callable[..., Any], run: Run) -> tuple[Any, Any]:
    """Training and validation loader, as ``function`` makes them.

    Raises:
        InvalidExperimentException: it returned something else.
    """
    made = _call(function, run)
    if not isinstance(made, (tuple, list)) or len(made) != 2:
        size = f" of {len(made)}" if isinstance(made, (tuple, list)) else ""
        raise InvalidExperimentException(
            f"PEDL's contract is {CONTRACT}, a pair of pedl.frameworks.pytorch.data.DataLoader; "
            f"{function.__module__}.{function.__qualname__} returned {type(made).__name__}{size}"
        )
    training, validation = made
    return _loader(training, "training", run), _loader(validation, "validation", run)


def _loader(loader: Any, which: str, run: Run) -> Any:
    loader = copy.copy(loader) if hasattr(loader, "get_data_loader") else _from_torch(loader, which)
    if getattr(loader, "num_workers", 0):
        loader.worker_init_fn = InWorkers(run, loader.worker_init_fn)
    return loader


def _from_torch(loader: Any, which: str) -> DataLoader:
    if not isinstance(loader, torch.utils.data.DataLoader) or loader.batch_sampler is None:
        raise InvalidExperimentException(
            f"PEDL's contract is {CONTRACT}: the {which} loader is {type(loader).__name__}; wrap "
            "the dataset in pedl.frameworks.pytorch.data.DataLoader, which takes the arguments of "
            "torch.utils.data.DataLoader"
        )
    batches = cast("Any", loader.batch_sampler)
    return DataLoader(loader.dataset, batch_sampler=batches, **how_to_load(loader))


def _call(function: Callable[..., Any], run: Run) -> Any:
    # Public trials have a download_data() without parameters, too.
    try:
        inspect.signature(function).bind(run.exp_conf, run.hparams)
    except TypeError:
        return with_hparams(function, run.hparams)
    return function(run.exp_conf, run.hparams)

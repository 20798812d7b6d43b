"""A LightningModule that builds and runs a trial."""

from __future__ import annotations

import copy
import copyreg
import functools
import io
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from det_compat import core
from det_compat.adapters.checkpoints.checkpoint_io import DeterminedCheckpointIO
from det_compat.adapters.checkpoints.saved_arguments import saved_arguments
from det_compat.adapters.generations.generation import in_context_api
from det_compat.adapters.lightning.hooks import TrialHooks
from det_compat.adapters.lightning.precision import reconcile_precision
from det_compat.adapters.lightning.strategy import (
    ddp_kwargs,
    distributed_context,
    prepare_trainer,
    register_comm_hook,
)
from det_compat.adapters.run.checks import check_trial_class
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.checkpoint.weights import under_names
from det_compat.core.tensorboard_path import new_tensorboard_path, tensorboard_path_is
from det_compat.pytorch.context.batch_size import checked_hparams
from det_compat.pytorch.context.settings import experiment_seed
from det_compat.pytorch.context.transitional import batches_per_step
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.shared.importing import imported_class

logger = logging.getLogger("det_compat")


class _TrialModuleType(type):
    """The type of TrialModule and of the classes that ``to_lightning`` makes."""


class TrialModule(TrialHooks, metaclass=_TrialModuleType):
    """Trains a PyTorchTrial on a ``pl.Trainer``, bit for bit as Determined 0.38.1 trained it.

    The trial may be of any generation: of the context API, Determined 0.12 or PEDL.

    The trial is built when a Trainer has set up ranks and device. The module brings the trial's
    loaders: ``pl.Trainer(...).fit(module)`` needs nothing else.

    Args:
        trial_cls: the trial class, or its import path ``"package.module.MyTrial"``.
        hparams: the trial's hyperparameters.
        exp_conf: the experiment config, for ``context.get_experiment_config()``. Of its settings,
            ``scheduling_unit`` (``batches_per_step`` in Determined 0.12),
            ``optimizations.aggregation_frequency``,
            ``optimizations.average_aggregated_gradients``,
            ``optimizations.sync_when_accumulating``, ``optimizations.mixed_precision`` (for trials
            of Determined 0.12 and PEDL) and
            ``reproducibility.experiment_seed`` (for ``get_trial_seed()``) have effect.
        aggregation_frequency: batches over which gradients are accumulated.
        **trial_kwargs: arguments of the trial class beside the context.

    Raises:
        TypeError: ``trial_cls`` is no trial class.
    """

    _loader_functions: tuple[Callable[..., Any] | None, Callable[..., Any] | None] = (None, None)

    def __init__(
        self,
        trial_cls: type | str,
        hparams: dict[str, Any] | None = None,
        exp_conf: dict[str, Any] | None = None,
        aggregation_frequency: int = 1,
        **trial_kwargs: Any,
    ) -> None:
        super().__init__()
        self.trial_cls = imported_class(trial_cls) if isinstance(trial_cls, str) else trial_cls
        check_trial_class(self.trial_cls)
        checked_hparams(hparams)
        optimizations = (exp_conf or {}).get("optimizations") or {}
        if aggregation_frequency == 1:
            aggregation_frequency = optimizations.get("aggregation_frequency", 1)
        self._averages_gradients = bool(optimizations.get("average_aggregated_gradients", True))
        self.reporting_period = batches_per_step(exp_conf, self.reporting_period)
        arguments = {
            "hparams": hparams,
            "exp_conf": exp_conf,
            "aggregation_frequency": aggregation_frequency,
            **trial_kwargs,
        }
        self._arguments = arguments
        self._trial_kwargs = trial_kwargs
        self.save_hyperparameters(saved_arguments(self._saved_arguments(arguments)))

    @classmethod
    def load_from_checkpoint(
        cls, checkpoint_path: Any, *args: Any, trust: bool = False, **kwargs: Any
    ) -> Any:
        """As in Lightning; ``checkpoint_path`` may be a checkpoint directory of Determined, too.

        Nothing in it is executed, unless ``trust`` allows that. Without ``trial_cls``, the class
        that the checkpoint names is imported from where Python finds it, and the log says so.

        Raises:
            CorruptCheckpointError: a file is there and cannot be read.
            FileNotFoundError: nothing is there.
            UnsafeCheckpointError: a file asks for code to run.
        """
        checkpoint = DeterminedCheckpointIO(trust).load_checkpoint(checkpoint_path)
        named = checkpoint.get("hyper_parameters", {}).get("trial_cls")
        if cls is TrialModule and "trial_cls" not in kwargs:
            logger.warning(f"importing the trial class {named}, which {checkpoint_path} names")
        file = io.BytesIO()
        torch.save(checkpoint, file)
        file.seek(0)
        kwargs["weights_only"] = False  # what is in it has been read already
        return super().load_from_checkpoint(file, *args, **kwargs)

    def _saved_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        path = f"{self.trial_cls.__module__}.{self.trial_cls.__qualname__}"
        return {"trial_cls": path, **arguments}

    def setup(self, stage: str) -> None:
        prepare_trainer(self.trainer)
        distributed = distributed_context(self.trainer)
        device = self.trainer.strategy.root_device
        if self._run is None or not self._is_built_for(distributed, device):
            self._build(distributed, device, ddp_kwargs(self.trainer))
            register_comm_hook(self.trainer, self.context.models)
        else:
            self.context.set_tensorboard_path(self._tensorboard_path() or new_tensorboard_path())
        reconcile_precision(self.trainer, self.context)

    def on_fit_start(self) -> None:
        # A validation before this fit has left them in eval mode, which Lightning would warn of.
        for model in self.context.models:
            model.train()
        super().on_fit_start()

    def configure_model(self) -> None:
        # Without a Trainer, as in load_from_checkpoint, the weights still need a place to go.
        if self._run is None:
            self._build(core.DummyDistributedContext(), torch.device("cpu"), {})

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As in ``nn.Module``; builds the trial first, if nothing has yet.

        The ``module.`` that DistributedDataParallel puts into names may be there or not.
        """
        self.configure_model()
        state_dict = _under_names_of(self.models, state_dict)
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

    def _is_built_for(self, distributed: core.DistributedContext, device: torch.device) -> bool:
        built = self.context.distributed
        return (built.rank, built.size) == (distributed.rank, distributed.size) and (
            self.context.device == device
        )

    def _build(
        self, distributed: core.DistributedContext, device: torch.device, ddp: dict[str, Any]
    ) -> None:
        weights = self.models.state_dict()
        core_context = core.Context(
            checkpoint=self._checkpoints(),
            distributed=distributed,
            tensorboard_path=self._tensorboard_path(),
        )
        context = PyTorchTrialContext(
            core_context=core_context,
            trial_seed=experiment_seed(self._arguments["exp_conf"]),
            hparams=copy.deepcopy(self._arguments["hparams"]),
            slots_per_trial=distributed.size,
            num_gpus=0,
            exp_conf=copy.deepcopy(self._arguments["exp_conf"]),
            aggregation_frequency=self._arguments["aggregation_frequency"],
            steps_completed=0,
            managed_training=True,
            debug_enabled=bool((self._arguments["exp_conf"] or {}).get("debug")),
        )
        context.device = device
        context.ddp_kwargs.update(ddp)
        context.average_aggregated_gradients = self._averages_gradients
        with tensorboard_path_is(core_context.train.tensorboard_path):
            adapted_cls = in_context_api(self.trial_cls, *self._loader_functions)
            trial = adapted_cls(context, **self._trial_kwargs)
            self.attach_run(TrialRun(trial, context))
        if weights:
            self.models.load_state_dict(weights)

    def _checkpoints(self) -> core.CheckpointContext | None:
        return None

    def _tensorboard_path(self) -> Path | None:
        try:
            trainer = self.trainer
        except RuntimeError:
            return None
        if trainer.loggers and trainer.log_dir:
            return Path(trainer.log_dir)
        return trainer.strategy.broadcast(new_tensorboard_path())


def to_lightning(
    trial_cls: type,
    make_data_loaders: Callable[..., Any] | None = None,
    download_data: Callable[..., Any] | None = None,
) -> type[TrialModule]:
    """A LightningModule class for a PyTorchTrial class of any generation, of the same name.

    ``Module(hparams=None, exp_conf=None, aggregation_frequency=1, **trial_kwargs)`` are its
    arguments; they mean what they mean to ``TrialModule``.

    Args:
        trial_cls: the trial class.
        make_data_loaders: for a trial without loader methods: the function, called with experiment
            config and hparams, that returns training and validation data. Without it, the function
            of that name in the module of the trial class.
        download_data: likewise, the function that is called once per machine before.

    Raises:
        TypeError: ``trial_cls`` is no trial class.
    """
    return _module_class(trial_cls, make_data_loaders, download_data)


@functools.cache
def _module_class(
    trial_cls: type,
    make_data_loaders: Callable[..., Any] | None,
    download_data: Callable[..., Any] | None,
) -> type[TrialModule]:
    check_trial_class(trial_cls)

    def __init__(
        self: TrialModule,
        hparams: dict[str, Any] | None = None,
        exp_conf: dict[str, Any] | None = None,
        aggregation_frequency: int = 1,
        **trial_kwargs: Any,
    ) -> None:
        trial_kwargs.pop("trial_cls", None)  # of checkpoints made of Determined's
        TrialModule.__init__(
            self, trial_cls, hparams, exp_conf, aggregation_frequency, **trial_kwargs
        )

    def _saved_arguments(self: TrialModule, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    made: Any = _TrialModuleType(
        trial_cls.__name__,
        (TrialModule,),
        {
            "__doc__": f"{trial_cls.__name__} on Lightning.",
            "__module__": trial_cls.__module__,
            "__init__": __init__,
            "_saved_arguments": _saved_arguments,
            "_made_from": (trial_cls, make_data_loaders, download_data),
            "_loader_functions": (make_data_loaders, download_data),
        },
    )
    module_cls: type[TrialModule] = made
    return module_cls


def _under_names_of(
    models: torch.nn.ModuleList, state_dict: Mapping[str, Any]
) -> Mapping[str, Any]:
    named = dict(state_dict)
    for index, model in enumerate(models):
        prefix = f"models.{index}."
        state = {name: named.pop(name) for name in list(named) if name.startswith(prefix)}
        own = {name.removeprefix(prefix): value for name, value in state.items()}
        found = under_names(model.state_dict().keys(), own)
        named.update({prefix + name: value for name, value in found.items()})
    # the same mapping if it may be, since it knows versions of modules, too
    return state_dict if named.keys() == state_dict.keys() else named


def _reduce_class(cls: type) -> str | tuple[Any, ...]:
    made_from = vars(cls).get("_made_from")
    return cls.__qualname__ if made_from is None else (to_lightning, made_from)


copyreg.pickle(_TrialModuleType, _reduce_class)

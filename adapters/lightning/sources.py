"""Where the trial of a run comes from: a trial class, or a script that has built it."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from det_compat import core
from det_compat.adapters.checkpoints.resume import Resume
from det_compat.adapters.checkpoints.saved_arguments import saved_arguments
from det_compat.adapters.generations.adapted import NO_FUNCTIONS, LoaderFunctions
from det_compat.adapters.generations.generation import in_context_api
from det_compat.adapters.generations.trial_class import full_name
from det_compat.adapters.lightning.door import ddp_kwargs
from det_compat.adapters.lightning.features.fully_sharded import sharding_of
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.lightning.strategy import distributed_context, register_comm_hook
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.core.train import new_tensorboard_path, tensorboard_path_is
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.context.settings import experiment_seed
from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.shared.random_state import set_seed


class Source:
    """Gives a module its run; a variant replaces what is different about it."""

    def provide(self, trainer: pl.Trainer | None, built: TrialRun | None) -> TrialRun:
        """The run for ``trainer``; ``built`` is the one that was provided before.

        Without a Trainer it is one on the CPU of this process, for weights to be loaded into.
        """
        raise NotImplementedError

    def attempt(
        self, trainer: pl.Trainer, hparams: dict[str, Any] | None, tensorboard: Path
    ) -> TrialRun:
        """The run of another trial like that of ``provide``, for whoever finds something out.

        Args:
            trainer: the Trainer, whose ranks and device it gets.
            hparams: its hyperparameters; None for those of the source.
            tensorboard: where its TensorBoard files go.

        Raises:
            InvalidExperimentException: the source does not build trials.
        """
        raise InvalidExperimentException(
            "a search for hyperparameters builds the trial anew for each try, and this one is "
            "built by somebody else: search with to_lightning(Trial)(hparams=...), or by "
            "det-compat search"
        )

    @property
    def hparams(self) -> dict[str, Any]:
        """The hyperparameters that trials are built with."""
        return {}

    def change_hparams(self, hparams: dict[str, Any]) -> None:
        """Build trials with other hyperparameters from now on."""
        raise NotImplementedError

    def saved_hparams(self) -> Any:
        """The hyperparameters as checkpoints keep them."""
        return saved_arguments({"hparams": self.hparams})["hparams"]

    def started_from(self) -> str | None:
        """The checkpoint that the run goes on from; None leaves that to the Trainer."""
        return None

    def fit_starts(self, run: TrialRun) -> Resume | None:
        """Get the run ready for a fit; that checkpoint, read."""
        if (given := self.started_from()) is None:
            return None
        return Resume.of_directory(run, run.steering.core.checkpoint.find(given))

    def release(self) -> None:
        """The run is over."""


class BuiltTrial(Source):
    """A trial that a script has built with the context of ``pytorch.init()``.

    Args:
        run: its run.
        latest_checkpoint: the directory or UUID of the checkpoint that it goes on from.
    """

    def __init__(self, run: TrialRun, latest_checkpoint: str | None = None) -> None:
        self._run = run
        self._latest_checkpoint = latest_checkpoint

    def provide(self, trainer: pl.Trainer | None, built: TrialRun | None) -> TrialRun:
        return self._run

    def started_from(self) -> str | None:
        return self._latest_checkpoint


@dataclass
class TrialArguments:
    """A trial class, and what its trials are built with.

    Attributes:
        trial_cls: the class, of any generation.
        hparams: the hyperparameters.
        exp_conf: the experiment config.
        aggregation_frequency: batches over which gradients are accumulated.
        trial_kwargs: arguments of the class beside the context.
        functions: for trials without loader methods.
        seed: seeds all random number generators before the trial is built; None leaves them.
        checkpoints: where checkpoints of Determined's layout go; None for nowhere.
        tensorboard: the directory of TensorBoard files where the Trainer has no logger; None for a
            new one.
        comm_hook: compresses gradients where the Trainer's strategy has no communication hook.
    """

    trial_cls: type
    hparams: dict[str, Any] | None = None
    exp_conf: dict[str, Any] | None = None
    aggregation_frequency: int = 1
    trial_kwargs: dict[str, Any] = field(default_factory=dict)
    functions: LoaderFunctions = NO_FUNCTIONS
    seed: int | None = None
    checkpoints: core.CheckpointStore | None = None
    tensorboard: Path | None = None
    comm_hook: Callable[..., Any] | None = None

    def saved(self, *, names_class: bool = True) -> dict[str, Any]:
        """The arguments of a module as its checkpoints keep them, those of the trial included.

        ``names_class`` says whether the class is one of them.
        """
        named = {"trial_cls": full_name(self.trial_cls)} if names_class else {}
        arguments = {
            **named,
            "hparams": self.hparams,
            "exp_conf": self.exp_conf,
            "aggregation_frequency": self.aggregation_frequency,
            **self.trial_kwargs,
        }
        return saved_arguments(arguments)


class TrialClass(Source):
    """A trial class, of which a trial is built when ranks and device are known."""

    def __init__(self, arguments: TrialArguments) -> None:
        self.arguments = arguments

    def provide(self, trainer: pl.Trainer | None, built: TrialRun | None) -> TrialRun:
        if trainer is None:
            return self.build(core.DummyDistributedContext(), torch.device("cpu"), {}, None)
        distributed = distributed_context(trainer)
        device = trainer.strategy.root_device
        path = self._tensorboard_path(trainer)
        if built is not None and _is_for(built, distributed, device):
            built.context.set_tensorboard_path(path)
            return built
        run = self.build(distributed, device, ddp_kwargs(trainer), path, trainer)
        register_comm_hook(trainer, run.context.models, self.arguments.comm_hook)
        return run

    def attempt(
        self, trainer: pl.Trainer, hparams: dict[str, Any] | None, tensorboard: Path
    ) -> TrialRun:
        given = self.arguments if hparams is None else replace(self.arguments, hparams=hparams)
        alone = TrialClass(replace(given, checkpoints=None))
        ranks = distributed_context(trainer)
        return alone.build(ranks, trainer.strategy.root_device, {}, tensorboard)

    @property
    def hparams(self) -> dict[str, Any]:
        return self.arguments.hparams or {}

    def change_hparams(self, hparams: dict[str, Any]) -> None:
        self.arguments.hparams = hparams

    def fit_starts(self, run: TrialRun) -> Resume | None:
        # A validation before this fit has left them in eval mode, which Lightning would warn of.
        for model in run.context.models:
            model.train()
        return super().fit_starts(run)

    def build(
        self,
        distributed: core.DistributedContext,
        device: torch.device,
        ddp: dict[str, Any],
        tensorboard: Path | None,
        trainer: pl.Trainer | None = None,
    ) -> TrialRun:
        """The run of a new trial for these ranks, this device and these arguments of DDP.

        With a Trainer, its models are as the Trainer's strategy has them on several ranks.
        """
        given = self.arguments
        if given.seed is not None:
            set_seed(given.seed)
        core_context = core.TrialCore(given.checkpoints, distributed, tensorboard_path=tensorboard)
        context = PyTorchTrialContext(
            core_context=core_context,
            trial_seed=experiment_seed(given.exp_conf),
            hparams=copy.deepcopy(given.hparams),
            slots_per_trial=distributed.size,
            num_gpus=0,
            exp_conf=copy.deepcopy(given.exp_conf),
            aggregation_frequency=given.aggregation_frequency,
            steps_completed=0,
            managed_training=True,
            debug_enabled=bool((given.exp_conf or {}).get("debug")),
        )
        context.device = device
        context.ddp_kwargs.update(ddp)
        if trainer is not None and distributed.size > 1:
            Steering(context).convert_models_by(trainer.precision_plugin.convert_module)
            Steering(context).shard_models(sharding_of(trainer))
        optimizations = (given.exp_conf or {}).get("optimizations") or {}
        averages = optimizations.get("average_aggregated_gradients", True)
        context.average_aggregated_gradients = bool(averages)
        with tensorboard_path_is(core_context.train.get_tensorboard_path()):
            adapted_cls = in_context_api(given.trial_cls, *given.functions)
            return TrialRun(adapted_cls(context, **given.trial_kwargs), context)

    def _tensorboard_path(self, trainer: pl.Trainer) -> Path:
        if trainer.loggers and trainer.log_dir:
            return Path(trainer.log_dir)
        if self.arguments.tensorboard is not None:
            return self.arguments.tensorboard
        path: Path = trainer.strategy.broadcast(new_tensorboard_path())
        return path


def _is_for(run: TrialRun, distributed: core.DistributedContext, device: torch.device) -> bool:
    """Whether a run was built for these ranks and this device."""
    built = run.context.distributed
    same_ranks = (built.rank, built.size) == (distributed.rank, distributed.size)
    return same_ranks and run.context.device == device

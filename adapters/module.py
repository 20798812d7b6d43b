"""``TrialModule``, and what ``to_lightning`` makes: a trial class as a LightningModule."""

import copyreg
import functools
import io
import logging
from collections.abc import Callable
from typing import Any

import torch

from det_compat.adapters import jsonargparse_types
from det_compat.adapters.checkpoints.checkpoint_io import DeterminedCheckpointIO
from det_compat.adapters.generations.adapted import LoaderFunctions
from det_compat.adapters.generations.generation import check_trial_class
from det_compat.adapters.lightning.pace import LightningPace
from det_compat.adapters.lightning.package import warn_of_the_other
from det_compat.adapters.lightning.run_module import RunModule
from det_compat.adapters.lightning.sources import TrialArguments, TrialClass
from det_compat.config.periods import batches_per_step
from det_compat.pytorch.context.settings import checked_hparams
from det_compat.shared.importing import imported_class

logger = logging.getLogger("det_compat")


class _TrialModuleType(type):
    """The type of TrialModule and of the classes that ``to_lightning`` makes."""


class TrialModule(RunModule, metaclass=_TrialModuleType):
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

    #: The arguments that ``to_lightning`` made the class with; none for TrialModule itself.
    _made_from: tuple[Any, ...] = ()
    pace: LightningPace

    def __init__(
        self,
        trial_cls: type | str,
        hparams: jsonargparse_types.Mapping | None = None,
        exp_conf: jsonargparse_types.Mapping | None = None,
        aggregation_frequency: int = 1,
        **trial_kwargs: Any,
    ) -> None:
        hparams, exp_conf = map(jsonargparse_types.plain, (hparams, exp_conf))
        trial_cls = imported_class(trial_cls) if isinstance(trial_cls, str) else trial_cls
        check_trial_class(trial_cls)
        checked_hparams(hparams)
        if aggregation_frequency == 1:
            optimizations = (exp_conf or {}).get("optimizations") or {}
            aggregation_frequency = optimizations.get("aggregation_frequency", 1)
        functions = LoaderFunctions(*self._made_from[1:])
        arguments = TrialArguments(
            trial_cls, hparams, exp_conf, aggregation_frequency, trial_kwargs, functions
        )
        super().__init__(TrialClass(arguments), LightningPace(batches_per_step(exp_conf)))
        warn_of_the_other()
        self.trial_cls = trial_cls
        # A class that was made of a trial class does not have to be told which.
        self.save_hyperparameters(arguments.saved(names_class=not self._made_from))

    @property
    def reporting_period(self) -> int:
        """Batches over which training metrics are averaged before they are reported."""
        return self.pace.reporting_period

    @reporting_period.setter
    def reporting_period(self, batches: int) -> None:
        self.pace.reporting_period = batches

    @classmethod
    def load_from_checkpoint(
        cls, checkpoint_path: Any, *args: Any, trust: bool = False, **kwargs: Any
    ) -> Any:
        """Load a module as Lightning does, from a checkpoint directory of Determined, too.

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
        kwargs["weights_only"] = False  # DeterminedCheckpointIO has read it safely already.
        return super().load_from_checkpoint(file, *args, **kwargs)


@functools.cache
def module_class(
    trial_cls: type,
    make_data_loaders: Callable[..., Any] | None,
    download_data: Callable[..., Any] | None,
) -> type[TrialModule]:
    """What ``to_lightning`` returns."""
    check_trial_class(trial_cls)

    def __init__(
        self: TrialModule,
        hparams: jsonargparse_types.Mapping | None = None,
        exp_conf: jsonargparse_types.Mapping | None = None,
        aggregation_frequency: int = 1,
        **trial_kwargs: Any,
    ) -> None:
        trial_kwargs.pop("trial_cls", None)  # Checkpoints made of Determined's have it.
        TrialModule.__init__(
            self, trial_cls, hparams, exp_conf, aggregation_frequency, **trial_kwargs
        )

    made: Any = _TrialModuleType(
        trial_cls.__name__,
        (TrialModule,),
        {
            "__doc__": f"{trial_cls.__name__} on Lightning.",
            "__module__": trial_cls.__module__,
            "__init__": __init__,
            "_made_from": (trial_cls, make_data_loaders, download_data),
        },
    )
    module_cls: type[TrialModule] = made
    return module_cls


def _reduce_class(cls: type) -> str | tuple[Any, ...]:
    made_from = vars(cls).get("_made_from")
    return (module_class, made_from) if made_from else cls.__qualname__


copyreg.pickle(_TrialModuleType, _reduce_class)

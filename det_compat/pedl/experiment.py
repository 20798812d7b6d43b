"""Scripts that create their experiment themselves: it is trained here and now."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from det_compat import LOG_FORMAT
from det_compat.errors import InvalidExperimentException
from det_compat.shared.random_state import preserved_random_state, set_seed

if TYPE_CHECKING:
    from det_compat.pedl.lengths import Lengths
    from det_compat.pytorch import PyTorchTrialContext

T = TypeVar("T")

logger = logging.getLogger("determined.pytorch")

_constants: dict[str, Any] = {}


def Constant(value: T, name: str | None = None) -> T:
    """``value``, which is also the hyperparameter ``name`` of the script's experiment.

    Scripts calculate with what they get, so it is the value itself.
    """
    if name is not None:
        _constants[name] = value
    return value


class Experiment:
    """An experiment of one trial.

    Args:
        trial_def: the trial class.
        make_data_loaders_fn: ``make_data_loaders(experiment_config, hparams)``; by default the
            function of that name in the module of ``trial_def``.
        configuration: the experiment config. What has effect: ``searcher`` (``single``, with
            ``max_steps`` or ``max_length``), ``hyperparameters`` (constants), ``optimizations``,
            ``min_validation_period``, ``min_checkpoint_period``, ``batches_per_step``, ``data``,
            ``entrypoints`` and ``reproducibility.experiment_seed``.
        context_directory: has no effect: nothing is sent to a cluster.
        download_data_fn: as ``make_data_loaders_fn``, for ``download_data``.
    """

    def __init__(
        self,
        trial_def: type,
        make_data_loaders_fn: Callable[..., Any] | None = None,
        configuration: dict[str, Any] | None = None,
        context_directory: str | None = None,
        download_data_fn: Callable[..., Any] | None = None,
    ) -> None:
        self._trial_def = trial_def
        self._functions = (make_data_loaders_fn, download_data_fn)
        self._configuration = dict(configuration or {})

    def create(self) -> None:
        """Train the trial, on as many processes as torchrun started, and return when it is done.

        Raises:
            InvalidExperimentException: the configuration asks for a search or gives no length.
        """
        with preserved_random_state():
            from det_compat import pytorch
            from det_compat.adapters.generations.generation import in_context_api
            from det_compat.pedl.lengths import lengths_of
        _log_to_stderr()
        conf = self._configuration
        hparams = {**_constants, **_only_constants(conf.get("hyperparameters") or {})}
        trial_cls = in_context_api(self._trial_def, *self._functions)
        aggregation = (conf.get("optimizations") or {}).get("aggregation_frequency", 1)
        with pytorch.init(
            hparams=hparams, exp_conf=conf, aggregation_frequency=aggregation
        ) as context:
            lengths = lengths_of(conf, hparams, context.distributed.size)
            _warn_of_fewer_slots(conf, context)
            _seed(conf)
            _fit(trial_cls, context, lengths)


def _log_to_stderr() -> None:
    # As on a cluster, where such scripts left logging to PEDL.
    logging.basicConfig(format=LOG_FORMAT)
    library = logging.getLogger("determined")
    if library.level == logging.NOTSET:
        library.setLevel(logging.INFO)


def _fit(trial_cls: type, context: PyTorchTrialContext, lengths: Lengths) -> None:
    from det_compat import pytorch

    pytorch.Trainer(trial_cls(context), context).fit(
        max_length=lengths.training,
        validation_period=lengths.validation_period,
        checkpoint_period=lengths.checkpoint_period,
        reporting_period=lengths.reporting_period,
        checkpoint_policy="all",
    )


def _only_constants(hyperparameters: dict[str, Any]) -> dict[str, Any]:
    constants = {}
    for name, value in hyperparameters.items():
        is_typed = isinstance(value, dict) and "type" in value
        if is_typed and value["type"] != "const":
            raise InvalidExperimentException(
                f"the hyperparameter {name!r} is to be searched (type {value['type']!r}), and "
                "Experiment.create() trains one trial: give it a value, or "
                "pedl.Constant(value=..., name=...)"
            )
        constants[name] = value["val"] if is_typed else value
    return constants


def _warn_of_fewer_slots(conf: dict[str, Any], context: PyTorchTrialContext) -> None:
    slots, size = (conf.get("resources") or {}).get("slots_per_trial", 1), context.distributed.size
    if slots > size:
        logger.warning(
            f"resources.slots_per_trial is {slots}, and {size} process(es) train: start the script "
            f"with `torchrun --nproc_per_node={slots} --no-python det-compat run SCRIPT`"
        )


def _seed(conf: dict[str, Any]) -> None:
    seed = (conf.get("reproducibility") or {}).get("experiment_seed")
    if seed is not None:
        set_seed(seed)

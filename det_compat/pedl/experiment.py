"""Scripts that create their experiment themselves: it is trained here and now."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from det_compat import LOG_FORMAT
from det_compat.shared.random_state import preserved_random_state

T = TypeVar("T")

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
            from det_compat.pedl.training import train
        _log_to_stderr()
        train(self._trial_def, self._functions, self._configuration, _constants)


def _log_to_stderr() -> None:
    # A cluster did the same: such scripts left logging to PEDL.
    logging.basicConfig(format=LOG_FORMAT)
    library = logging.getLogger("determined")
    if library.level == logging.NOTSET:
        library.setLevel(logging.INFO)

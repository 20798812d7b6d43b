"""Trials that are tried out on this machine: one batch of them, or by hand."""

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from det_compat import pytorch
from det_compat.common import set_logger
from det_compat.errors import InvalidExperimentException, NotSupportedError
from det_compat.pytorch.context import debugging
from det_compat.pytorch.engine import engine

logger = logging.getLogger("determined")


def test_one_batch(trial_class: type, config: dict[str, Any] | None = None) -> None:
    """Train a trial on one batch, validate it on one and save a checkpoint, as 0.38.1 does.

    Trials of every generation are taken. Hyperparameters that ``config`` searches get random
    values, as in Determined 0.12 to 0.22; 0.38.1 hands their ranges to the trial.

    Args:
        trial_class: the trial.
        config: an experiment config.

    Raises:
        TypeError: ``trial_class`` is no trial class.
        ValueError: a hyperparameter is of no known type.
    """
    config = {**(config or {}), "scheduling_unit": 1}
    trial_in_context_api = engine().in_context_api(trial_class, None, None)
    hparams = debugging.drawn_hyperparameters(config)
    logger.info("Running a minimal test experiment locally")
    with pytorch.init(
        hparams=hparams, exp_conf=config, enable_tensorboard_logging=False
    ) as context:
        trainer = pytorch.Trainer(trial_in_context_api(context), context)
        trainer.fit(max_length=pytorch.Batch(1), test_mode=True)
    logger.info("The test experiment passed.")


def create_trial_instance(
    trial_def: type,
    checkpoint_dir: str,
    config: dict[str, Any] | None = None,
    hparams: dict[str, Any] | None = None,
) -> Any:
    """A trial to be called by hand, as in Determined 0.12.13 to 0.20.

    Args:
        trial_def: the trial's class.
        checkpoint_dir: has no effect, as there: the trial loads and saves nothing.
        config: an experiment config; hyperparameters that it searches get random values.
        hparams: the hyperparameters, in place of the config's.

    Raises:
        TypeError: ``trial_def`` is no trial class.
        ValueError: a hyperparameter is of no known type.
    """
    warnings.warn(
        "det.experimental.create_trial_instance() is deprecated: make the context with "
        "PyTorchTrialContext.from_config(config), and the trial with it",
        FutureWarning,
        stacklevel=2,
    )
    arguments = debugging.arguments(config or {})
    if hparams:
        arguments["hparams"] = hparams
    set_logger(arguments["debug_enabled"])
    context = pytorch.PyTorchTrialContext(**arguments)
    return engine().build_without_data(trial_def, context, {})[0]


def create(
    trial_def: type,
    config: dict[str, Any] | None = None,
    local: bool = False,
    test: bool = False,
    context_dir: str = "",
    command: list[str] | None = None,
    master_url: str | None = None,
) -> None:
    """Try a trial on one batch, with ``local=True, test=True``, as in Determined 0.12 to 0.16.

    Args:
        trial_def: the trial's class.
        config: an experiment config.
        local: whether this machine trains; there is no other.
        test: whether one batch is enough.
        context_dir: the folder in which the trial runs; by default, this one.
        command: has no effect: what a cluster would have run.
        master_url: has no effect: the address of a cluster.

    Raises:
        InvalidExperimentException: the trial calls ``sys.exit()``.
        NotImplementedError: ``local`` without ``test``, as there.
        NotSupportedError: the cluster is to train.
    """
    if not local:
        raise NotSupportedError(
            "create() sends an experiment to a Determined cluster, and there is none: train on "
            "this machine with det_compat.fit(config, model_dir) or `det-compat fit CONFIG.yaml`. "
            "See MIGRATION.md#determinedexperimental."
        )
    if not test:
        raise NotImplementedError(
            "create(local=True, test=False) is not there, as in Determined: train with "
            "det_compat.fit(config, model_dir) or `det-compat fit CONFIG.yaml`"
        )
    set_logger(bool((config or {}).get("debug")))
    with local_execution_manager(context_dir or os.curdir):
        test_one_batch(trial_def, config)


@contextlib.contextmanager
def local_execution_manager(context_dir: str | os.PathLike[str]) -> Iterator[None]:
    """Work in ``context_dir`` and import from there, inside the block.

    Raises:
        InvalidExperimentException: a SystemExit reaches the end of the block.
    """
    before, first = os.getcwd(), sys.path[0]
    try:
        os.chdir(context_dir)
        sys.path[0] = ""
        yield
    except SystemExit as error:
        raise InvalidExperimentException(
            "Caught a SystemExit exception. This might be raised by directly calling or using a "
            "library calling sys.exit(). Please remove any calls to sys.exit() from your code."
        ) from error
    finally:
        os.chdir(before)
        sys.path[0] = first

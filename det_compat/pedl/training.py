"""Training the trial of an experiment for as long as the experiment config says."""

import logging
from collections.abc import Callable
from typing import Any

from det_compat.config.lengths import Length, Unit
from det_compat.config.periods import batches_per_step
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import Batch, PyTorchTrialContext, Trainer, TrainUnit, init
from det_compat.pytorch.context.settings import experiment_seed
from det_compat.pytorch.engine import engine
from det_compat.pytorch.schedule import train_unit
from det_compat.shared.random_state import set_seed

logger = logging.getLogger("determined.pytorch")


def train(
    trial_def: type,
    functions: tuple[Callable[..., Any] | None, Callable[..., Any] | None],
    conf: dict[str, Any],
    constants: dict[str, Any],
) -> None:
    """Train ``trial_def`` as ``Experiment.create`` does.

    Args:
        trial_def: the trial class.
        functions: ``make_data_loaders`` and ``download_data``; None for those of its module.
        conf: the experiment config.
        constants: hyperparameters by name, which those of the config replace.

    Raises:
        InvalidExperimentException: the config asks for a search or gives no length.
    """
    hparams = {**constants, **_only_constants(conf.get("hyperparameters") or {})}
    trial_cls = engine().in_context_api(trial_def, *functions)
    aggregation = (conf.get("optimizations") or {}).get("aggregation_frequency", 1)
    with init(hparams=hparams, exp_conf=conf, aggregation_frequency=aggregation) as context:
        lengths = lengths_of(conf, hparams, context.distributed.size)
        _warn_of_fewer_slots(conf, context)
        if (seed := experiment_seed(conf)) is not None:
            set_seed(seed)
        Trainer(trial_cls(context), context).fit(**lengths, checkpoint_policy="all")


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


def lengths_of(conf: dict[str, Any], hparams: dict[str, Any], ranks: int) -> dict[str, Any]:
    """The lengths in an experiment config, whose bare numbers count steps.

    They are arguments of ``Trainer.fit``, by name; a period of None is never. Records are counted
    in batches of the hyperparameter ``batch_size`` on each rank.

    Raises:
        InvalidExperimentException: there is no length, or the searcher trains more than one trial.
    """
    searcher = conf.get("searcher") or {}
    name = searcher.get("name", "single")
    if name != "single":
        raise InvalidExperimentException(
            f"searcher.name is {name!r}, and one trial is trained: set it to 'single'"
        )

    def unit(what: str, value: Any) -> TrainUnit | None:
        return _unit(what, value, batches_per_step(conf), hparams.get("batch_size"), ranks)

    training = unit("searcher.max_length", searcher.get("max_steps", searcher.get("max_length")))
    if training is None:
        raise InvalidExperimentException(
            "the configuration does not say how long to train: set searcher.max_steps (1 step is "
            f"{batches_per_step(conf)} batches) or searcher.max_length ({{'batches': n}}, "
            f"{{'epochs': n}} or {{'records': n}}); searcher is {searcher}"
        )
    return {
        "max_length": training,
        "validation_period": unit("min_validation_period", conf.get("min_validation_period")),
        "checkpoint_period": unit("min_checkpoint_period", conf.get("min_checkpoint_period")),
        "reporting_period": Batch(batches_per_step(conf)),
    }


def _unit(what: str, value: Any, step: int, batch_size: Any, ranks: int) -> TrainUnit | None:
    kind, number = "steps", value
    if isinstance(value, dict) and len(value) == 1:
        ((kind, number),) = value.items()
    if number is None or number == 0:
        return None
    known = kind in ("steps", "batches", "epochs", "records")
    if not known or isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise InvalidExperimentException(
            f"{what} must be a number of steps, or {{'batches': n}}, {{'epochs': n}} or "
            f"{{'records': n}}, got {value!r}"
        )
    if kind == "steps":
        return Batch(number * step)
    if kind == "records" and (not isinstance(batch_size, int) or batch_size < 1):
        raise InvalidExperimentException(
            f"{what} counts records, which takes the hyperparameter batch_size; it is "
            f"{batch_size!r}. Count batches or epochs instead."
        )
    length = Length(number, Unit(kind))
    return train_unit(length.period(batch_size * ranks if kind == "records" else None))

"""How long the experiment config says to train."""

from __future__ import annotations

from typing import Any, NamedTuple

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import Batch, Epoch, TrainUnit
from det_compat.pytorch.context.transitional import batches_per_step


class Lengths(NamedTuple):
    """The lengths of a training run, as ``Trainer.fit`` takes them; a period of None is never."""

    training: TrainUnit
    validation_period: TrainUnit | None
    checkpoint_period: TrainUnit | None
    reporting_period: TrainUnit


def lengths_of(conf: dict[str, Any], hparams: dict[str, Any], ranks: int) -> Lengths:
    """The lengths in an experiment config; its bare numbers count steps.

    Records are counted in batches of the hyperparameter ``batch_size`` on each rank.

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
    return Lengths(
        training,
        unit("min_validation_period", conf.get("min_validation_period")),
        unit("min_checkpoint_period", conf.get("min_checkpoint_period")),
        Batch(batches_per_step(conf)),
    )


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
    if kind == "epochs":
        return Epoch(number)
    if kind != "records":
        return Batch(number * step if kind == "steps" else number)
    if not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidExperimentException(
            f"{what} counts records, which takes the hyperparameter batch_size; it is "
            f"{batch_size!r}. Count batches or epochs instead."
        )
    return Batch(max(number // (batch_size * ranks), 1))

"""What must be right about a trial before it is trained."""

from typing import Any

from det_compat.adapters.generations.adapted import user_trial
from det_compat.adapters.generations.generation import generation_of
from det_compat.adapters.generations.trial_class import full_name
from det_compat.catalog.generations import Generation
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.overrides import is_user_code


def check_trial_class(trial_cls: Any) -> None:
    """Raise TypeError unless ``trial_cls`` is a trial class of some generation."""
    if generation_of(trial_cls) is not Generation.CONTEXT:
        return
    unfinished = sorted(getattr(trial_cls, "__abstractmethods__", ()))
    if unfinished:
        raise TypeError(
            f"{full_name(trial_cls)} cannot be built: it does not define {', '.join(unfinished)}"
        )


def check_trial(trial: Any, context: PyTorchTrialContext) -> None:
    """Raise InvalidExperimentException unless the trial can be trained and evaluated."""
    name = type(user_trial(trial)).__name__
    if not context.models:
        raise InvalidExperimentException(
            f"{name} has no model: call context.wrap_model() in its __init__"
        )
    if not context.optimizers:
        raise InvalidExperimentException(
            f"{name} has no optimizer: call context.wrap_optimizer() in its __init__"
        )
    by_batch, by_dataset = evaluates_batches(trial), evaluates_full_dataset(trial)
    if by_batch == by_dataset:
        found = "both" if by_batch else "neither"
        raise InvalidExperimentException(
            f"{name} must define exactly one of evaluate_batch() and evaluate_full_dataset(), and "
            f"defines {found}; evaluate_batch() is spread over all ranks"
        )


def evaluates_batches(trial: Any) -> bool:
    """Whether the trial defines ``evaluate_batch``."""
    return is_user_code(getattr(trial, "evaluate_batch", None), "PyTorchTrial")


def evaluates_full_dataset(trial: Any) -> bool:
    """Whether the trial defines ``evaluate_full_dataset``."""
    return is_user_code(getattr(trial, "evaluate_full_dataset", None), "PyTorchTrial")

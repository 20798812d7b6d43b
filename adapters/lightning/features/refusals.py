"""What a Trainer can be asked for and no trial can do, and what to do instead."""

import inspect
from typing import Any

from det_compat.adapters.checkpoints.lightning_part import optimizers_and_schedulers
from det_compat.adapters.lightning import door
from det_compat.adapters.lightning.features.fully_sharded import check_sharded
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.lightning.strategy import callbacks_of, check_strategy
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.context.trial_context import PyTorchTrialContext

# Callbacks of Lightning 2.6.6 by name, each with the reason, and with what does the same.
_CALLBACKS = {
    "BackboneFinetuning": (
        "it sets the learning rate of the optimizer's last group, which it expects to add, and a "
        "trial's optimizer has been made with all parameters before: use a BaseFinetuning of your "
        "own, or freeze and unfreeze in the trial's callbacks"
    ),
    "GradientAccumulationScheduler": (
        "a trial accumulates gradients over one number of batches: give the Trainer "
        "accumulate_grad_batches, or the module aggregation_frequency"
    ),
    "SpikeDetection": (
        "it takes the loss of each batch from training_step, and a trial's metrics are reported "
        "once a period: look at them in a PyTorchCallback's on_training_workload_end, or in "
        "train_batch"
    ),
    "StochasticWeightAveraging": (
        "it sets learning rates and leaves out backward through Lightning's automatic "
        "optimization, and a trial steps by itself: use WeightAveraging or EMAWeightAveraging, "
        "and wrap torch.optim.swa_utils.SWALR in the trial for its learning rates"
    ),
}

_NO_PREDICTION = (
    "a PyTorchTrial says how to train and to evaluate, and not how to predict: call its model, "
    "module.trial.<model>(batch) after load_from_checkpoint, or define predict_step and "
    "predict_dataloader in a subclass"
)


def check_request(trainer: pl.Trainer) -> None:
    """Raise InvalidExperimentException for flags, callbacks and data that no trial can follow."""
    check_strategy(trainer)  # Before it makes a process group, which nobody would end.
    flags: Any = trainer  # Some of these are not declared by the class.
    for callback in flags.callbacks:
        for name, reason in _CALLBACKS.items():
            if isinstance(callback, getattr(pl.callbacks, name, ())):
                raise InvalidExperimentException(
                    f"the callback {type(callback).__name__} does not go with a PyTorchTrial: "
                    f"{reason}"
                )
    check_sharded(trainer, flags.callbacks)
    if flags.state.fn != pl.trainer.states.TrainerFn.FITTING:
        return
    _check_counts(trainer)
    _check_checkpoint(trainer)
    data = "fit() was given training data" if door.has_data_of_its_own(trainer) else None
    if _is_user_code(trainer, "train_dataloader"):
        data = "a subclass defines train_dataloader()"
    if data is not None:
        raise InvalidExperimentException(
            f"{data}, and a PyTorchTrial brings its own, in the order and "
            "the epochs that Determined gave them: return them from build_training_data_loader(), "
            "and call fit(module) alone"
        )


def _check_counts(trainer: pl.Trainer) -> None:
    """Raise InvalidExperimentException for flags that count, and that Lightning does not check."""
    flags: Any = trainer  # Some of these are not declared by the class.
    batches = flags.accumulate_grad_batches
    if not isinstance(batches, int) or batches < 1:
        raise InvalidExperimentException(
            f"accumulate_grad_batches={batches!r}: a trial accumulates gradients over one number "
            "of batches, of at least 1"
        )
    for name in ("val_check_interval", "check_val_every_n_epoch"):
        given = getattr(flags, name, None)  # A Trainer that validates by the clock lacks one.
        if isinstance(given, int) and given == 0:  # 0.0 is a part of an epoch, of one batch.
            raise InvalidExperimentException(
                f"{name}=0 is no period: give a number above it; limit_val_batches=0 leaves "
                "validations out"
            )


#: The hooks of Lightning's, beside those whose names begin with "on_".
_HOOKS = ("configure_callbacks", "setup", "teardown", "training_step", "validation_step")


def check_hooks(module: type) -> None:
    """Raise InvalidExperimentException for a hook of a subclass in place of one that trials need.

    Lightning's own do nothing, so that many leave out to call them.
    """
    classes = module.__mro__
    for at, owner in enumerate(classes):
        later = {n for c in classes[at + 1 :] if _is_ours(c) for n in vars(c)}
        for name in [] if _is_ours(owner) else sorted(later & vars(owner).keys()):
            code = getattr(inspect.unwrap(vars(owner)[name]), "__code__", None)
            is_hook = name.startswith("on_") or name in _HOOKS
            calls = {name, "super", "getattr"}
            if is_hook and code is not None and calls.isdisjoint(code.co_names):
                raise InvalidExperimentException(
                    f"{owner.__name__}.{name}() does not call super().{name}(), by which the trial "
                    "runs: call it there, with the same arguments"
                )


def _is_ours(owner: type) -> bool:
    return owner.__module__.startswith("det_compat.")


def _is_user_code(trainer: pl.Trainer, method: str) -> bool:
    """Whether a method of the module is the user's, and none of det_compat's."""
    classes = type(trainer.lightning_module).__mro__
    return not _is_ours(next(c for c in classes if method in vars(c)))


def check_optimizers(trainer: pl.Trainer, context: PyTorchTrialContext) -> None:
    """Raise InvalidExperimentException if Lightning has other optimizers than the trial steps."""
    of_trial, _ = optimizers_and_schedulers(context)
    if [*map(id, trainer.optimizers)] != [*map(id, of_trial)]:
        names = ", ".join(type(one).__name__ for one in trainer.optimizers) or "none"
        raise InvalidExperimentException(
            f"configure_optimizers() of a subclass returns optimizers ({names}) that the trial "
            "does not step: make them in the trial's __init__, and wrap them by "
            "context.wrap_optimizer()"
        )


def check_loaders(trainer: pl.Trainer) -> None:
    """Raise InvalidExperimentException if there are several loaders to evaluate."""
    flags: Any = trainer  # What is declared is a list, and may not be one yet.
    batches = flags.num_test_batches if flags.testing else flags.num_val_batches
    if isinstance(batches, list) and len(batches) > 1:
        raise InvalidExperimentException(
            f"there are {len(batches)} loaders to evaluate, and a trial averages its metrics over "
            "the batches of one: validate or test each by itself, trainer.validate(module, loader)"
        )


def _check_checkpoint(trainer: pl.Trainer) -> None:
    prunes = any(isinstance(c, pl.callbacks.ModelPruning) for c in callbacks_of(trainer))
    if prunes and trainer.ckpt_path is not None:
        raise InvalidExperimentException(
            "a run with the callback ModelPruning cannot be resumed: Lightning's checkpoints have "
            "the pruned weights and not the masks, so that what was pruned would grow again: begin "
            "a new run, or resume without the callback"
        )


def cannot_predict() -> InvalidExperimentException:
    """The error for ``Trainer.predict``."""
    return InvalidExperimentException(_NO_PREDICTION)


def has_no_forward(trial: str, models: int) -> InvalidExperimentException:
    """The error for a call of a module whose trial has not one model."""
    return InvalidExperimentException(
        f"{trial} has {models} models, and nothing says what a call of it does, which "
        "example_input_array, log_graph and exports ask for: define forward() in a subclass, with "
        "self.models, or leave out what calls it"
    )

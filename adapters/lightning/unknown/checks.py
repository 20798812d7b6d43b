"""Whether Lightning does to a trial's run what it was asked to, and nothing beside it."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from det_compat.adapters.checkpoints.lightning_part import optimizers_and_schedulers
from det_compat.adapters.data.batch_stream import BatchStream
from det_compat.adapters.lightning.known import is_known, needed, refusal
from det_compat.adapters.lightning.package import pl
from det_compat.pytorch.context.steering import Steering


def check_training(trainer: pl.Trainer) -> None:
    """Raise InvalidExperimentException if Lightning has wrapped the trial's models once more."""
    if isinstance(trainer.strategy.model, DistributedDataParallel):
        raise refusal(
            "it puts the module into DistributedDataParallel, in which each of the trial's models "
            "is already, and gradients would be reduced twice"
        )


def check_validation(trainer: pl.Trainer) -> None:
    """Raise InvalidExperimentException for a validation before training or in inference mode."""
    if is_known():
        return
    if getattr(trainer, "sanity_checking", False):
        raise refusal(
            "it validates before it trains, with callbacks and reducers of the trial",
            "give the Trainer num_sanity_val_steps=0, ",
        )
    # Tensors of inference mode cannot be used in autograd afterwards; Determined's could.
    if torch.is_inference_mode_enabled():
        raise refusal("it validates in inference mode", "give the Trainer inference_mode=False, ")


#: Functions that are called in turn when a batch has been trained.
StepCounters = tuple[Callable[[], None], ...]


def step_counters(trainer: pl.Trainer, stream: BatchStream | None) -> StepCounters:
    """What lets ``trainer.global_step`` count a batch: checkpoints and loggers go by it.

    Lightning counts steps of optimizers that are its own, and the trial steps others. In a
    Lightning that is not known, they raise InvalidExperimentException where the count has another
    effect, or where Lightning has not taken one batch of ``stream`` for each that was
    trained: it would leave some out, train some twice, or draw random numbers for them too early.
    """
    with needed("the count of steps"):
        progress = trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress
        begin, end = progress.increment_ready, progress.increment_completed
    assert stream is not None
    if is_known():
        return begin, end
    trained = 0

    def count() -> None:
        nonlocal trained
        trained += 1
        if stream.handed_out != trained:
            raise refusal(f"it took {stream.handed_out} batches for {trained} to train on")
        before = trainer.global_step
        begin()
        end()
        if trainer.global_step != before + 1:
            raise refusal(f"global_step is {trainer.global_step} one step after {before}")

    return (count,)


def check_saved(checkpoint: dict[str, Any], models: torch.nn.Module, steering: Steering) -> None:
    """Raise InvalidExperimentException for a checkpoint that Lightning has other weights in.

    A run would go on from them, and so do optimizers from their states.
    """
    if steering.sharding is not None:  # Each rank would have to take part.
        return
    own = {f"models.{name}": value for name, value in models.state_dict().items()}
    saved = checkpoint.get("state_dict") or {}
    if not _are_same(own, {name: saved[name] for name in own.keys() & saved.keys()}):
        raise refusal("it saves other weights than the models have")
    optimizers, _ = optimizers_and_schedulers(steering.context)
    states = checkpoint.get("optimizer_states")
    if states is not None and not _are_same([one.state_dict() for one in optimizers], states):
        raise refusal("it saves other states than the optimizers have")


def _are_same(own: Any, saved: Any) -> bool:
    if isinstance(own, torch.Tensor) and isinstance(saved, torch.Tensor):
        return torch.equal(own.cpu().nan_to_num(), saved.cpu().nan_to_num())
    if isinstance(own, Mapping) and isinstance(saved, Mapping):
        return own.keys() == saved.keys() and all(_are_same(own[key], saved[key]) for key in own)
    if isinstance(own, (list, tuple)) and isinstance(saved, (list, tuple)):
        return len(own) == len(saved) and all(map(_are_same, own, saved))
    return not isinstance(own, (int, float, str)) or own == saved

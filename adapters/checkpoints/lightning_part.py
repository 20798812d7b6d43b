"""What Lightning keeps of a trial in its checkpoints, and what a run adds to it."""

from collections.abc import Callable
from typing import Any

import torch

from det_compat.adapters.checkpoints.run_state import (
    plain_or_as_it_is,
    plain_state,
    state_of,
    under_names_of,
)
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.checkpoint.reader import putting_back
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.lr_scheduler import stepping_of
from det_compat.shared.plain_types import from_plain

# What Lightning saves of optimizers and schedulers may hold numbers of NumPy.
_WITH_NUMBERS = {"optimizer_states", "lr_schedulers"}


def optimizers_and_schedulers(context: PyTorchTrialContext) -> tuple[list[Any], list[Any]]:
    """Those of the trial that are torch's, which is what Lightning can save and monitor."""
    optimizers = [one for one in context.optimizers if isinstance(one, torch.optim.Optimizer)]
    schedulers = [stepping_of(wrapper).scheduler for wrapper in context.lr_schedulers]
    known = [
        scheduler
        for scheduler in schedulers
        if isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler)
        and any(scheduler.optimizer is optimizer for optimizer in optimizers)
    ]
    return optimizers, known


def add_run(
    checkpoint: dict[str, Any],
    run: TrialRun,
    state_to_go_on: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    """Add the run to a checkpoint of Lightning, under the key ``determined``; every rank calls it.

    ``state_to_go_on`` gets the state of the trial's callbacks, and returns what else it takes to go
    on, in plain types.
    """
    callbacks = run.callbacks.state_dict()
    state = state_of(run, callbacks)
    if run.is_chief:
        run.callbacks.call("on_checkpoint_save_start", state)
    kept = {key: state[key] for key in state.keys() - _kept_by_lightning(run.context)}
    for key in _WITH_NUMBERS & checkpoint.keys():
        checkpoint[key] = plain_or_as_it_is(checkpoint[key], key)
    checkpoint["determined"] = {
        **plain_state(kept),
        "trial_state": dict(vars(run.state)),
        "continuation": state_to_go_on(callbacks),
    }


def _kept_by_lightning(context: PyTorchTrialContext) -> set[str]:
    """The keys of ``state_of`` that are in Lightning's own part of its checkpoints."""
    all_of_torch = all(isinstance(one, torch.optim.Optimizer) for one in context.optimizers)
    return {"models_state_dict", "optimizers_state_dict"} if all_of_torch else {"models_state_dict"}


def kept_by_lightning(checkpoint: dict[str, Any], run: TrialRun) -> dict[str, Any]:
    """What Lightning puts back of a checkpoint, under the keys of ``state_of``."""
    found: dict[str, Any] = {}
    models = torch.nn.ModuleList(run.steering.inner_models)
    weights = under_names_of(models, checkpoint.get("state_dict") or {})
    if weights:
        prefixes = [f"models.{index}." for index in range(len(models))]
        found["models_state_dict"] = [
            {name[len(prefix) :]: weights[name] for name in weights if name.startswith(prefix)}
            for prefix in prefixes
        ]
    if "optimizer_states" in checkpoint and "optimizers_state_dict" not in checkpoint["determined"]:
        found["optimizers_state_dict"] = checkpoint["optimizer_states"]
    return found


def from_plain_types(checkpoint: dict[str, Any]) -> None:
    """Undo what ``add_run`` did to Lightning's own part of a checkpoint.

    Raises:
        InvalidCheckpointException: it holds something else.
    """
    for key in _WITH_NUMBERS & checkpoint.keys():
        with putting_back("the checkpoint", key):
            checkpoint[key] = from_plain(checkpoint[key])

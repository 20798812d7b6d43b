"""What a run needs to go on as if it had never stopped, beside what Determined's checkpoints have.

Determined 0.38.1 keeps weights, optimizers, schedulers, callbacks and the chief's random state. The
rest is here, for each rank: its random state, its place in the data, the metrics and gradients that
are half collected.
"""

import hashlib
import io
import logging
from typing import Any

import torch
from torch import nn

from det_compat.adapters.data import batch_stream
from det_compat.adapters.data.loaders import ValidationBatches, WholeDataset
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.pytorch.context.steering import Steering
from det_compat.shared.plain_types import NotPlainError, from_plain, is_plain, to_plain
from det_compat.shared.random_state import (
    preserved_random_state,
    random_state,
    set_random_state,
)

logger = logging.getLogger("det_compat")


def continuation(run: TrialRun, callbacks: dict[str, Any] | None = None) -> dict[str, Any]:
    """The state of all ranks, in plain types. Every rank has to call it.

    ``callbacks`` is the state of this rank's callbacks, if they have been asked for it.
    """
    distributed = run.context.distributed
    own = {**_rank_state(run), "callbacks": _unlike_the_chiefs(run, callbacks or {})}
    return {
        "ranks": distributed.allgather(to_plain(own)),
        "epoch_len": run.epoch_len,
        "stop_requested": run.context.get_stop_requested() and not run.is_stopping,
    }


def _rank_state(run: TrialRun) -> dict[str, Any]:
    device, generators = run.context.device, _of_validation(run)
    return {
        "random": random_state(),
        "cuda_random": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "loaders_built": run.random_state_of_loaders,
        "data": None if run.stream is None else run.stream.position(),
        "validation_generators": [batch_stream.generator_state(one) for one in generators],
        "period": _period_state(run) if run.training.in_period else None,
        "gradients": _gradients(run),
    }


def _unlike_the_chiefs(run: TrialRun, callbacks: dict[str, Any]) -> dict[str, Any] | None:
    """This rank's state of callbacks, where it is not the chief's, which is kept elsewhere."""
    distributed = run.context.distributed
    if distributed.size == 1:
        return None
    state = {name: value for name, value in callbacks.items() if is_plain(value)}
    file = io.BytesIO()
    torch.save(to_plain(state), file)
    digest = hashlib.sha256(file.getvalue()).digest()
    return None if digest == distributed.broadcast(digest) else state


def _of_validation(run: TrialRun) -> list[Any]:
    validation = run.validation.data
    if isinstance(validation, (ValidationBatches, WholeDataset)):
        return batch_stream.generators_of(validation.loader)
    return []


def _period_state(run: TrialRun) -> dict[str, Any]:
    """What has been collected since the last report of training metrics."""
    return {
        "metrics": [_kept(metrics) for metrics in run.training.metrics.peek()],
        "reducers": reducer_states(run.steering),
        "in_eval_mode": [
            [name for name, module in model.named_modules() if not module.training]
            for model in run.steering.inner_models
        ],
    }


def _kept(metrics: dict[str, Any]) -> dict[str, Any]:
    left_out = [name for name, value in metrics.items() if not is_plain(value)]
    if left_out:
        logger.warning(f"training metrics {left_out} are no plain data: no checkpoint keeps them")
    return {name: value for name, value in metrics.items() if name not in left_out}


def _gradients(run: TrialRun) -> list[Any]:
    """A gradient each parameter: None, 0 for one of zeros, or the tensor."""
    found = [run.steering.gradient_of(parameter) for parameter in _parameters(run)]
    return [grad if grad is None or grad.is_sparse or grad.any() else 0 for grad in found]


def _parameters(run: TrialRun) -> list[torch.Tensor]:
    of_models = [p for model in run.steering.inner_models for p in model.parameters()]
    groups = [group for optimizer in run.context.optimizers for group in optimizer.param_groups]
    of_optimizers = [p for group in groups for p in group.get("params", [])]
    return list({id(p): p for p in [*of_models, *of_optimizers]}.values())


def reducer_states(steering: Steering) -> list[dict[str, Any]]:
    """The attributes of every reducer that are data, in the order of ``wrap_reducer``."""
    return [_reducer_state(reducer) for reducer in steering.reducers]


def _reducer_state(reducer: Any) -> dict[str, Any]:
    found = {}
    for name, value in vars(reducer).items():
        try:
            found[name] = _attribute(value, name)
        except NotPlainError as error:
            # A reducer is built again on resume, and with it its model, function or context.
            logger.debug(f"reducer {type(reducer).__name__}: {error} is no data: not kept")
    return found


def _attribute(value: Any, name: str) -> Any:
    if isinstance(states := getattr(value, "metric_state", None), dict):
        # The attribute is a metric of torchmetrics.
        return {"metric_state": to_plain(states, name), "update_count": value.update_count}
    return to_plain(value, name)


def of_this_rank(run: TrialRun, state: dict[str, Any] | None) -> dict[str, Any] | None:
    """This rank's part of a ``continuation``; None if there is none for as many ranks."""
    distributed = run.context.distributed
    if state is None or len(state["ranks"]) != distributed.size:
        return None
    own: dict[str, Any] = from_plain(state["ranks"][distributed.rank])
    return own


def restore_collected(run: TrialRun, own: dict[str, Any]) -> None:
    """Put back half-collected metrics and gradients."""
    if (period := own["period"]) is not None:
        run.training.resume_period(period["metrics"])
        restore_reducers(run.steering, period["reducers"])
        for model, names in zip(run.steering.inner_models, period["in_eval_mode"], strict=False):
            for name in names:
                model.get_submodule(name).training = False
    for parameter, grad in zip(_parameters(run), own["gradients"], strict=False):
        if grad is not None:
            given = torch.zeros_like(parameter) if isinstance(grad, int) else grad
            run.steering.put_gradient(parameter, given)


def try_random_states(own: dict[str, Any]) -> None:
    """Raise what goes wrong with a random state in ``own``; nothing stays changed."""
    data = own["data"] or {}
    with preserved_random_state():
        for state in (own["random"], own["loaders_built"], data.get("began")):
            if state is not None:
                set_random_state(state)


def restore_random_states(run: TrialRun, own: dict[str, Any]) -> None:
    """Put back the random states, after which nothing else may draw before training goes on."""
    for generator, state in zip(_of_validation(run), own["validation_generators"], strict=False):
        batch_stream.set_generator_state(generator, state)
    device = run.context.device
    if own["cuda_random"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(own["cuda_random"], device)
    set_random_state(own["random"])


def restore_reducers(steering: Steering, states: list[dict[str, Any]]) -> None:
    """Put back what ``reducer_states`` returned."""
    for reducer, state in zip(steering.reducers, states, strict=False):
        for name, value in state.items():
            _restore_attribute(reducer, name, value)


def _restore_attribute(reducer: Any, name: str, value: Any) -> None:
    current = getattr(reducer, name, None)
    if isinstance(current, nn.Module) and isinstance(value, dict) and "metric_state" in value:
        for state, found in from_plain(value["metric_state"]).items():
            setattr(current, state, found)
        # torchmetrics 1.9 has no public way to set it.
        vars(current)["_update_count"] = value["update_count"]
        return
    setattr(reducer, name, from_plain(value))

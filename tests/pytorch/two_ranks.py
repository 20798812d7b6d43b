"""On two ranks: what a script meets between ``pytorch.init()`` and the end of its block."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import det_compat
from det_compat import core, pytorch
from det_compat.pytorch.context.ddp import TrialDDP
from det_compat.pytorch.context.steering import Steering
from tests.pytorch import one_weight
from tests.torchrun import find

RANK = int(os.environ["RANK"])


def seen(context: Any) -> dict[str, Any]:
    model = context.wrap_model(nn.Linear(1, 1))
    return {
        "rank": context.distributed.get_rank(),
        "size": context.distributed.get_size(),
        "per slot": context.get_per_slot_batch_size(),
        "global": context.get_global_batch_size(),
        "path": str(context.get_tensorboard_path()),
        "distributed": isinstance(model, nn.parallel.DistributedDataParallel),
        "initialized": dist.is_initialized(),
        "backend": dist.get_backend(),
    }


def inits(**kwargs: Any) -> dict[str, Any]:
    with pytorch.init(hparams={"global_batch_size": 8}, **kwargs) as context:
        found = seen(context)
    return {**found, "initialized after": dist.is_initialized()}


def plain(out: Path) -> Any:
    return inits()


def given(out: Path) -> Any:
    return inits(distributed=core.DistributedContext.from_torch_distributed())


def group_of_the_script(out: Path) -> Any:
    """Once: torch itself cannot make a second group of its own in a process of torchrun's."""
    earlier = core.DistributedContext.from_torch_distributed()
    dist.init_process_group("gloo")
    later = core.DistributedContext.from_torch_distributed()
    try:
        return [inits(distributed=earlier), inits(distributed=later), inits()]
    finally:
        dist.destroy_process_group()


def twice(out: Path) -> Any:
    distributed = core.DistributedContext.from_torch_distributed()
    return [inits(distributed=distributed), inits(distributed=distributed)]


def invalid_hp(out: Path) -> Any:
    code: Any = "no exit"
    try:
        with pytorch.init():
            raise det_compat.InvalidHP("too large")
    except SystemExit as end:
        code = end.code
    return {"code": code, "initialized after": dist.is_initialized()}


def exception(out: Path) -> Any:
    try:
        with pytorch.init():
            raise KeyError("user bug")
    except KeyError as error:
        return {"error": str(error), "initialized after": dist.is_initialized()}


def odd_batch_size(out: Path) -> Any:
    with pytorch.init(hparams={"global_batch_size": 7}):
        return "began"


def group_is_gone(out: Path) -> Any:
    return dist.is_initialized()


# DistributedDataParallel


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.linear.weight, float(RANK))
        self.norm = nn.BatchNorm1d(1)
        self.note = "of the model"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(self.linear(x))
        return y

    def helper(self) -> str:
        return "helped"


def models(out: Path) -> Any:
    with pytorch.init() as context:
        context.ddp_kwargs["broadcast_buffers"] = False
        net, loss, frozen = Net(), nn.MSELoss(), nn.Linear(1, 1).requires_grad_(False)
        wrapped = context.wrap_model(net)
        return {
            "classes": [type(context.wrap_model(m)).__name__ for m in (loss, frozen)],
            "wrapped": isinstance(wrapped, TrialDDP),
            "pass through": (wrapped.note, wrapped.helper(), wrapped.module is net),
            "unknown": hasattr(wrapped, "nothing"),
            "kwargs": wrapped.broadcast_buffers,
            "weight": wrapped.linear.weight.item(),
            "state": list(wrapped.state_dict())[:1],
        }


def one_weight_model(context: Any) -> Any:
    model = context.wrap_model(nn.Linear(1, 1, bias=False))
    return model, context.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=0.0))


def gradients(out: Path) -> Any:
    """Of batches with the gradient 1 on the chief and 3 beside it."""
    found = {}
    for sync in (True, False):
        config = {"optimizations": {"sync_when_accumulating": sync}}
        with pytorch.init(aggregation_frequency=2, exp_conf=config) as context:
            model, optimizer = one_weight_model(context)
            grads = []
            for batch in range(2):
                context._current_batch_idx = batch
                with Steering(context).gradient_sync():
                    context.backward(model(torch.full((1, 1), 1.0 + 2 * RANK)).sum())
                grads.append(model.module.weight.grad.item())
                context.step_optimizer(optimizer)
            found[sync] = grads
    return found


def uneven_evaluation(out: Path) -> Any:
    """One rank evaluates more batches than the other; buffers are the chief's, as DDP has them."""
    with pytorch.init() as context:
        model = context.wrap_model(Net())
        model.module.norm.running_mean.fill_(5.0 + RANK)
        model.eval()
        with torch.no_grad():
            for _ in range(1 + 2 * RANK):
                model(torch.ones(2, 1))
        first = model.module.norm.running_mean.item()
        model.train()
        model(torch.full((2, 1), float(RANK))).sum().backward()
        model.eval()
        with torch.no_grad():
            model(torch.ones(2, 1))
        context.distributed.allgather(None)
        return {"first": first, "later": model.module.norm.running_mean.item()}


def chief_alone(out: Path) -> Any:
    """A whole evaluation that the other rank has no part in."""
    with pytorch.init() as context:
        model = context.wrap_model(Net()).eval()
        with torch.no_grad():
            if RANK == 0:
                model.forward_without_sync()
                model(torch.ones(2, 1))
        return context.distributed.allgather(RANK)


def trained(out: Path) -> Any:
    # A rank that imported what the other is just writing would find half of it, or nothing.
    program = out / f"program{RANK}"
    one_weight.write(program)
    os.chdir(program)
    sys.path.insert(0, str(program))
    from model_def import OneWeight

    with pytorch.init(hparams={"global_batch_size": 4}, exp_conf={"name": "x"}) as context:
        trial = OneWeight(context)
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(2))
        state = trial.model.module.state_dict()
        base = context._core.checkpoint.base_path
        return {"state": state, "checkpoints": [str(path) for path in base.iterdir()]}


SCENARIOS = (
    plain,
    group_is_gone,
    given,
    twice,
    group_of_the_script,
    invalid_hp,
    exception,
    odd_batch_size,
    models,
    gradients,
    uneven_evaluation,
    chief_alone,
    trained,
)

if __name__ == "__main__":
    find({scenario.__name__: scenario for scenario in SCENARIOS})

"""A trial's models in shards, a part on each rank, by ``fully_shard`` of torch (FSDP2).

Early releases of FSDP2 lack what it needs, so it is imported where a run asks for it. Facts about
torch are of 2.13.
"""

import contextlib
import copy
import weakref
from collections.abc import Collection, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.overrides import TorchFunctionMode

from det_compat.errors import InvalidExperimentException

# What torch says of an operation between a whole tensor and a sharded one.
_MIXED = "mixed torch.Tensor and DTensor"
# What torch 2.13 says of an operation that it has not, or not in place, for DTensors.
_NOT_FOR_PARTS = ("Sharding propagation failed", "sharding strategy", "require placement changes")
_INSTEAD = "train it with strategy='ddp', which keeps models whole"


class Sharding:
    """Shards models over all ranks, and what optimizers keep of them.

    A model stays the object that it is. Its parameters are whole while its ``forward`` runs, and
    in validations, where ranks may run it different numbers of times; at any other time, they and
    their gradients are DTensors. Weights are those of DistributedDataParallel within float error.

    Args:
        device: where the models are trained.
        size: the number of ranks, whose process group is there.
        is_chief: whether this is rank 0, whose weights all ranks start with, and which keeps what
            is gathered for checkpoints.
        blocks: names of the classes of submodules that are gathered on their own. Without any,
            they are those that Hugging Face's models name as not to be split.
    """

    def __init__(
        self, device: torch.device, size: int, *, is_chief: bool, blocks: Collection[str] = ()
    ) -> None:
        self._device, self._size, self._is_chief = device, size, is_chief
        self._blocks = blocks
        self._mesh = init_device_mesh(device.type, (size,))
        self._models: list[nn.Module] = []
        self._is_whole = False
        # Parameters from before, by id, each with the one that has come in its place.
        self._renewed: dict[int, tuple[weakref.ref[torch.Tensor], nn.Parameter]] = {}

    # The models of a trial

    def shard(self, model: nn.Module) -> nn.Module:
        """``model``, sharded; it is only moved to the device if it has nothing to train.

        Raises:
            InvalidExperimentException: it cannot be sharded.
        """
        if not any(parameter.requires_grad for parameter in model.parameters()):
            return model.to(self._device)
        name = type(model).__name__
        _check(model)
        self._start_like_the_chief(model)
        before = dict(model.named_parameters(remove_duplicate=False))
        try:
            for unit in self._units(model):
                fully_shard(unit, mesh=self._mesh, reshard_after_forward=True)
        except (AssertionError, NotImplementedError, RuntimeError, ValueError) as error:
            raise InvalidExperimentException(
                f"torch cannot shard the model {name}: {error}: {_INSTEAD}"
            ) from error
        for key, parameter in model.named_parameters(remove_duplicate=False):
            if (old := before[key]) is not parameter:
                self._renewed[id(old)] = weakref.ref(old), parameter
        self._models.append(model)
        model.register_forward_pre_hook(self._share_buffers)
        model.register_load_state_dict_pre_hook(self._shard_state_dict)
        return model

    def _units(self, model: nn.Module) -> list[nn.Module]:
        """What is gathered on its own: the blocks of the model, inner ones first, and itself."""
        names = self._blocks or getattr(model, "_no_split_modules", None) or ()
        inner = [m for m in model.modules() if m is not model and type(m).__name__ in names]
        trained = [m for m in inner if any(True for _ in m.parameters())]
        return [*reversed(trained), model]

    def _start_like_the_chief(self, model: nn.Module) -> None:
        for tensor in [*model.parameters(), *model.buffers()]:
            if isinstance(tensor, DTensor):
                continue  # It is of a submodule that is wrapped by itself, too.
            there = tensor.detach().to(self._device)
            dist.broadcast(there, src=0)
            tensor.data.copy_(there)

    def _share_buffers(self, model: nn.Module, _: Any) -> None:
        """Copy the chief's buffers, as DistributedDataParallel does before a forward pass."""
        if not self._is_whole:
            _broadcast_buffers(model)

    # Between shards and whole models

    def make_whole(self) -> None:
        """Gather all models on every rank, and leave them so; every rank has to call it."""
        for unit in self._sharded_units():
            unit.set_reshard_after_forward(False, recurse=False)
            unit.unshard()
        for model in self._models:
            _broadcast_buffers(model)
        self._is_whole = True

    def shard_again(self) -> None:
        """Undo ``make_whole``."""
        self._is_whole = False
        for unit in self._sharded_units():
            unit.reshard()
            unit.set_reshard_after_forward(True, recurse=False)

    def _sharded_units(self) -> list[FSDPModule]:
        modules = [module for model in self._models for module in model.modules()]
        return [module for module in modules if isinstance(module, FSDPModule)]

    # States

    def whole(self, state: Any, *, everywhere: bool = False) -> Any:
        """``state`` with whole tensors on the CPU in place of DTensors; every rank has to call it.

        Other ranks than the chief, which write no checkpoint, have their parts in place of them,
        unless ``everywhere``.
        """
        if isinstance(state, DTensor):
            found = state.full_tensor().detach()
            return found.cpu() if self._is_chief or everywhere else state.to_local().detach()
        if isinstance(state, dict):
            copied = copy.copy(state)  # which keeps what a model's state dict knows of versions
            for key, value in state.items():
                copied[key] = self.whole(value, everywhere=everywhere)
            return copied
        if type(state) in (list, tuple):
            return type(state)([self.whole(value, everywhere=everywhere) for value in state])
        return state

    def gradient_of(self, parameter: torch.Tensor) -> torch.Tensor | None:
        """The whole gradient of ``parameter``, on every rank; every rank has to call it."""
        gradient = parameter.grad
        return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient

    def put_gradient(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        """Set the gradient of ``parameter``, given whole."""
        parameter.grad = _shard_like(parameter, gradient.to(parameter.device))

    def _shard_state_dict(
        self, model: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any
    ) -> None:
        if not self._is_whole:
            for module in model.modules():
                if isinstance(module, FSDPModule):
                    module.reshard()
        for name, parameter in model.named_parameters(remove_duplicate=False):
            given = state_dict.get(prefix + name)
            if isinstance(given, torch.Tensor):
                state_dict[prefix + name] = _shard_like(parameter, given)

    @contextlib.contextmanager
    def user_code(self) -> Iterator[None]:
        """Let numbers that user code takes from DTensors be those of the whole tensors.

        torch takes them from this rank's part: the norm of a gradient, say.

        Raises:
            InvalidExperimentException: it uses weights of a model outside of its forward pass, or
                does with them what torch cannot do with parts.
        """
        try:
            with _WholeValues():
                yield
        except RuntimeError as error:
            if _MIXED in str(error):
                raise InvalidExperimentException(
                    "the trial uses weights of a sharded model outside of its forward(), where "
                    f"they are in parts, together with whole tensors ({error}): move that into "
                    f"forward(); or {_INSTEAD}"
                ) from error
            if any(words in str(error) for words in _NOT_FOR_PARTS):
                raise InvalidExperimentException(
                    "torch cannot do what the trial or its optimizer does with weights that are "
                    f"in parts, as the steps of Rprop and Adafactor ({str(error).splitlines()[0]}"
                    f"): use another optimizer or operation; or {_INSTEAD}"
                ) from error
            raise

    # Optimizers

    def adopt(self, optimizer: Any) -> None:
        """Have ``optimizer`` train the shards, and load states that are whole.

        Raises:
            InvalidExperimentException: it is no optimizer of torch.
        """
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise InvalidExperimentException(
                f"the optimizer {type(optimizer).__name__} is no torch.optim.Optimizer, and "
                f"nothing says how it keeps the state of a sharded model: {_INSTEAD}"
            )
        if isinstance(optimizer, torch.optim.LBFGS):
            raise InvalidExperimentException(
                "LBFGS sees all parameters as one vector, which sharded ones are not: " + _INSTEAD
            )
        for group in optimizer.param_groups:
            group["params"] = [self._renew(optimizer, one) for one in group["params"]]
        optimizer.register_load_state_dict_pre_hook(_shard_optimizer_state)

    def _renew(self, optimizer: torch.optim.Optimizer, parameter: Any) -> Any:
        found = self._renewed.get(id(parameter))
        if found is None or id(found[0]()) != id(parameter):
            return parameter
        new = found[1]
        if parameter in optimizer.state:
            optimizer.state[new] = _sharded_like(new, optimizer.state.pop(parameter))
        return new


class _WholeValues(TorchFunctionMode):
    """Gathers a DTensor before it becomes a Python number or an array."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _TO_PYTHON and isinstance(args[0], DTensor):
            args = (args[0].full_tensor(), *args[1:])
        return func(*args, **kwargs or {})


_TO_PYTHON = {
    getattr(torch.Tensor, name)
    for name in ("__array__", "__bool__", "__complex__", "__float__", "__index__", "__int__")
} | {torch.Tensor.item, torch.Tensor.numpy, torch.Tensor.tolist}


def _check(model: nn.Module) -> None:
    """Raise InvalidExperimentException for what ``fully_shard`` would not refuse by name."""
    name, reason = type(model).__name__, None
    for module in model.modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.sparse:
            reason = "has an embedding with sparse gradients"
        elif isinstance(module, torch.jit.ScriptModule):
            reason = "is compiled by torch.jit"
        elif hasattr(module, "_orig_mod"):
            reason = "is compiled already; compile it after wrap_model"
    for key, parameter in model.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            reason = f"has a parameter without a shape, {key}; run a batch through it before"
        elif parameter.ndim == 0:
            reason = f"has a parameter that is one number, {key}; give it the shape (1,)"
    for key, parameter in _outside_of_units(model):
        if isinstance(parameter, DTensor):
            reason = f"shares {key} with a model that is wrapped already"
    if reason is not None:
        raise InvalidExperimentException(
            f"the model {name} cannot be sharded: it {reason}; or {_INSTEAD}"
        )


def _outside_of_units(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    sharded = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, FSDPModule)
        for parameter in module.parameters()
    }
    for name, parameter in model.named_parameters():
        if id(parameter) not in sharded:
            yield name, parameter


def _broadcast_buffers(model: nn.Module) -> None:
    by_dtype: dict[torch.dtype, list[torch.Tensor]] = {}
    for buffer in model.buffers():
        by_dtype.setdefault(buffer.dtype, []).append(buffer)
    for buffers in by_dtype.values():
        together = torch.cat([buffer.detach().reshape(-1) for buffer in buffers])
        dist.broadcast(together, src=0)
        parts = torch.split(together, [buffer.numel() for buffer in buffers])
        for buffer, part in zip(buffers, parts, strict=True):
            buffer.data.copy_(part.view_as(buffer))


def _shard_like(parameter: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """``whole`` sharded like ``parameter``, if that is sharded and has its shape."""
    is_shard = isinstance(parameter, DTensor) and not isinstance(whole, DTensor)
    if not is_shard or whole.shape != parameter.shape:
        return whole
    assert isinstance(parameter, DTensor)
    local = parameter.to_local()
    # torch cuts a tensor along its first dimension like `chunk`, and the last ranks may have none.
    parts = whole.chunk(parameter.device_mesh.size())
    rank = parameter.device_mesh.get_local_rank()
    part = parts[rank] if rank < len(parts) else whole[:0]
    return DTensor.from_local(
        part.detach().to(local.device, copy=True),
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def _sharded_like(parameter: Any, state: dict[str, Any]) -> dict[str, Any]:
    """What an optimizer keeps of a parameter, with tensors that go with its shards."""
    if not isinstance(parameter, DTensor):
        return state
    return {name: _state_tensor(parameter, value) for name, value in state.items()}


def _state_tensor(parameter: DTensor, value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or isinstance(value, DTensor) or value.ndim == 0:
        return value
    if value.shape == parameter.shape:
        return _shard_like(parameter, value)
    # It is of the whole parameter, as the norm of each row is: torch takes it from every rank.
    there = value.to(parameter.device)
    return DTensor.from_local(there, parameter.device_mesh, [Replicate()], run_check=False)


def _shard_optimizer_state(
    optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]
) -> dict[str, Any]:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    indices = [i for group in state_dict["param_groups"] for i in group["params"]]
    of = dict(zip(indices, parameters, strict=False))
    kept = {
        index: _sharded_like(of.get(index), state) if isinstance(state, dict) else state
        for index, state in state_dict["state"].items()
    }
    return {**state_dict, "state": kept}

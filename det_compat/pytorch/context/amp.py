"""Automatic mixed precision is autocast around forward passes; so is what became of Apex."""

import copy
import logging
import warnings
from typing import Any

import torch
from torch import nn

logger = logging.getLogger("determined.pytorch")

APEX_OPT_LEVELS = ("O0", "O1", "O2", "O3")


def grad_scaler(device: torch.device, **kwargs: Any) -> torch.amp.GradScaler:
    """A gradient scaler for float16 on CUDA; a disabled one for every other device."""
    return torch.amp.GradScaler("cuda", enabled=device.type == "cuda", **kwargs)


def autocast_forward(model: nn.Module, device: torch.device) -> None:
    """Run every forward pass of ``model`` in float16 autocast and return float32 outputs.

    On devices other than CUDA the model is left as it is, as in Determined 0.38.1.
    """
    if device.type == "cuda":
        _AutocastHooks().attach(model)


class _AutocastHooks:
    """They are forward hooks, so that the model stays the object that it is, with its own class."""

    def __init__(self) -> None:
        self._entered: list[torch.autocast] = []
        self._warned: set[type] = set()

    def attach(self, model: nn.Module) -> None:
        model.register_forward_pre_hook(self._enter, prepend=True)
        model.register_forward_hook(self._leave, always_call=True)

    def _enter(self, module: nn.Module, args: Any) -> None:
        region = torch.autocast("cuda", dtype=torch.float16)
        region.__enter__()
        self._entered.append(region)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> Any:
        self._entered.pop().__exit__(None, None, None)
        return self._to_float32(output)

    def _to_float32(self, output: Any) -> Any:
        if isinstance(output, torch.Tensor):
            return output.float() if output.dtype == torch.float16 else output
        if isinstance(output, dict):
            return _like(output, {key: self._to_float32(value) for key, value in output.items()})
        if isinstance(output, (list, tuple)):
            values = [self._to_float32(value) for value in output]
            if hasattr(output, "_fields"):
                return type(output)(*values)
            return values if isinstance(output, list) else tuple(values)
        if output is not None and type(output) not in self._warned:
            self._warned.add(type(output))
            logger.warning(
                f"use_amp(): the model returned a {type(output).__name__}; float16 tensors inside "
                "it stay float16. If the loss cannot take them, call torch.autocast() and "
                "context.wrap_scaler() yourself in place of use_amp()."
            )
        return output


def _like(output: dict[Any, Any], values: dict[Any, Any]) -> dict[Any, Any]:
    """A dict with ``values`` of the class of ``output``, which has attributes in some libraries."""
    if type(output) is dict:
        return values
    try:
        same = copy.copy(output)
        for key, value in values.items():
            same[key] = value
    except TypeError:  # The class is read-only.
        return values
    return same


def apex_scaler(
    device: torch.device,
    opt_level: str | None,
    loss_scale: float | str | None,
    num_losses: int | None,
) -> torch.amp.GradScaler | None:
    """The gradient scaler that stands for ``apex.amp`` at ``opt_level``, None for O0 (float32).

    ``loss_scale`` is "dynamic", None or a constant (also as a string). O1, O2 and O3 all become
    float16 autocast with float32 weights.

    Raises:
        ValueError: an ``opt_level`` that Apex does not have, or a ``loss_scale`` that is no number.
    """
    level = "O1" if opt_level is None else opt_level
    if level not in APEX_OPT_LEVELS:
        raise ValueError(
            f"configure_apex_amp: opt_level must be one of {', '.join(APEX_OPT_LEVELS)}, "
            f"got {opt_level!r}"
        )
    warnings.warn(
        f"NVIDIA Apex is no longer maintained: configure_apex_amp(opt_level={level!r}) trains "
        + _meaning(level, device)
        + ". Call context.experimental.use_amp() to say so in the code.",
        FutureWarning,
        stacklevel=3,
    )
    if num_losses is not None and num_losses > 1:
        logger.warning(f"configure_apex_amp: the {num_losses} losses share one loss scale")
    if level == "O0":
        return None
    if loss_scale is None or loss_scale == "dynamic":
        return grad_scaler(device)
    # A constant scale never grows, and an overflow skips the step but does not shrink it.
    return grad_scaler(
        device,
        init_scale=_constant(loss_scale),
        growth_interval=2**31 - 1,
        backoff_factor=1.0 - 1e-12,
    )


def _constant(loss_scale: float | str) -> float:
    try:
        return float(loss_scale)
    except ValueError:
        raise ValueError(
            f'configure_apex_amp: loss_scale must be "dynamic" or a number, got {loss_scale!r}'
        ) from None


def _meaning(level: str, device: torch.device) -> str:
    if level == "O0":
        return "in float32"
    if device.type != "cuda":
        return f"in float32, since {device} has no float16 autocast"
    return "with torch's float16 autocast and one gradient scaler"

"""What both sides of ``det-compat verify`` share: weights as checksums, arguments."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import TensorBoardLogger
from torch import nn

from det_compat.shared.random_state import RandomState


@dataclass
class Recording:
    """What the original did.

    Attributes:
        paths: where each model is on the trial, as attributes, keys and indices.
        weights: the checksums of the models' tensors: at the start, and after each batch.
        batches: as the loader gave them, before they are moved to a device.
        at_batch, at_next: the random state when a batch begins, and when it is asked for.
        at_iter: the random state when the loader is iterated over.
        epoch_length: batches in an epoch.
        metrics: the numbers of each validation.
        error: what stopped it; ``""`` if nothing did.
        module: the name of the module that the trial is in.
    """

    paths: list[tuple[Any, ...] | None] = field(default_factory=list)
    weights: list[list[dict[str, str]]] = field(default_factory=list)
    batches: list[Any] = field(default_factory=list)
    at_batch: list[RandomState] = field(default_factory=list)
    at_next: list[RandomState] = field(default_factory=list)
    at_iter: RandomState = field(default_factory=dict)
    epoch_length: int = 0
    metrics: list[dict[str, float]] = field(default_factory=list)
    error: str = ""
    module: str = ""


def checksum(tensor: torch.Tensor) -> str:
    """A digest of a tensor's type, shape and every bit of its elements."""
    plain = tensor.detach().cpu().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    header = f"{plain.dtype}{tuple(plain.shape)}".encode()
    return hashlib.sha256(header + data).hexdigest()


def checksums(model: nn.Module) -> dict[str, str]:
    """The checksums of a model's parameters and buffers, by name."""
    state = model.state_dict()
    return {name: checksum(value) for name, value in state.items() if torch.is_tensor(value)}


def path_of(model: Any, owner: Any) -> tuple[Any, ...] | None:
    """Where ``model`` is among the attributes of ``owner``, lists and dicts among them."""
    attributes = {**getattr(owner, "_modules", {}), **vars(owner)}
    for name, value in attributes.items():
        if value is model:
            return (name,)
        for key, item in _items(value):
            if item is model:
                return (name, key)
    return None


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, (list, tuple, nn.ModuleList)):
        yield from enumerate(value)


def module_arguments(module_cls: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the module takes: hyperparameters, data and the experiment config."""
    config = arguments.get("exp_conf") or {}
    given = {"data_config": config.get("data") or {}, "experiment_config": config}
    given.update(arguments.get("hparams") or {})
    parameters = inspect.signature(module_cls.__init__).parameters
    if HPARAMS in parameters:
        # a trial for Determined's Trainer was given them beside its context
        given[HPARAMS] = arguments.get("hparams") or {}
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        extra = {name for name in _EXTRA if config}
        return {n: v for n, v in given.items() if n in extra or n not in _EXTRA}
    return {name: value for name, value in given.items() if name in parameters}


HPARAMS = "hparams"
_EXTRA = ("data_config", "experiment_config")


class StopAfter(pl.Callback):
    """Ends training after a number of batches, however long epochs are."""

    def __init__(self, batches: int) -> None:
        self._left = batches

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self._left -= 1
        if self._left <= 0:
            trainer.should_stop = True


def trainer(callback: pl.Callback, batches: int, logs: str) -> pl.Trainer:
    """A Trainer that trains ``batches`` batches on the CPU and validates after every epoch."""
    # what it says of devices and the like is not what the user has asked for
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    has_tensorboard = importlib.util.find_spec("tensorboard") is not None
    logger = TensorBoardLogger(logs) if has_tensorboard else False
    return pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=-1,
        callbacks=[callback, StopAfter(batches)],
        num_sanity_val_steps=0,
        logger=logger,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )

from __future__ import annotations

from typing import Any
from unittest import mock

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint

from det_compat.adapters.lightning.listeners import Listeners, is_overridden
from tests.adapters.trials import trainer

HOOKS = ("on_train_batch_start", "on_train_batch_end")


class Own(pl.Callback):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any) -> None:
        self.seen.append((pl_module._current_fx_name, *args))


def test_a_method_of_the_class_or_the_object_overrides() -> None:
    plain, own = pl.Callback(), Own()
    assert not is_overridden(plain, pl.Callback, "on_train_batch_end")
    assert is_overridden(own, pl.Callback, "on_train_batch_end")
    vars(plain)["on_train_batch_end"] = print
    assert is_overridden(plain, pl.Callback, "on_train_batch_end")
    assert is_overridden(mock.Mock(spec=pl.Callback()), pl.Callback, "on_train_batch_end")


def test_callbacks_are_told_with_the_name_of_the_hook_set() -> None:
    own, module = Own(), pl.LightningModule()
    flags = {"callbacks": [own, ModelCheckpoint()], "enable_checkpointing": True}
    found: Any = trainer(**flags)
    found.strategy.connect(module)
    listeners = Listeners(found, HOOKS)
    module._current_fx_name = "on_train_start"
    with mock.patch.object(ModelCheckpoint, "on_train_batch_end") as checkpoints:
        listeners.refresh()
        listeners.tell("on_train_batch_end", 1, 2)
        listeners.tell("on_train_batch_start", 1, 2)
    assert own.seen == [("on_train_batch_end", 1, 2)]
    assert checkpoints.call_count == 1
    assert module._current_fx_name == "on_train_start"


def test_a_callback_that_comes_later_is_told_too() -> None:
    found: Any = trainer()
    found.strategy.connect(pl.LightningModule())
    listeners, own = Listeners(found, HOOKS), Own()
    listeners.tell("on_train_batch_end", 1)
    found.callbacks.append(own)
    listeners.tell("on_train_batch_end", 2)
    assert own.seen == [("on_train_batch_end", 2)]

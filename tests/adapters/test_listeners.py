from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint

from det_compat.adapters.listeners import is_overridden, listeners, may_log, tell
from tests.adapters.trials import trainer


class Own(pl.Callback):
    def on_train_batch_end(self, *args: Any) -> None:
        self.seen = args


def test_a_method_of_the_class_or_the_object_overrides() -> None:
    plain, own = pl.Callback(), Own()
    assert not is_overridden(plain, pl.Callback, "on_train_batch_end")
    assert is_overridden(own, pl.Callback, "on_train_batch_end")
    vars(plain)["on_train_batch_end"] = print
    assert is_overridden(plain, pl.Callback, "on_train_batch_end")


def test_listeners_are_those_of_the_trainers_callbacks() -> None:
    own, checkpoint = Own(), ModelCheckpoint(every_n_train_steps=1)
    flags = {"callbacks": [own, checkpoint], "enable_checkpointing": True}
    found = listeners(trainer(**flags), "on_train_batch_end")
    assert found == [own.on_train_batch_end, checkpoint.on_train_batch_end]
    assert may_log(found) and not may_log(found[1:])
    assert listeners(trainer(**flags), "on_train_batch_start") == []


def test_listeners_are_told_with_the_hook_of_the_module_set() -> None:
    module = pl.LightningModule()
    names: list[Any] = []
    tell(
        [lambda trainer, module, *args: names.append((module._current_fx_name, trainer, args))],
        "on_train_batch_end",
        "trainer",
        module,
        1,
        2,
    )
    assert names == [("on_train_batch_end", "trainer", (1, 2))]
    assert module._current_fx_name is None

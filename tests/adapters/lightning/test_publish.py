from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pytorch_lightning.loggers.logger import DummyLogger

from det_compat import to_lightning
from det_compat.adapters.lightning.publish import MetricsPublisher
from tests.adapters.trials import Linear, trainer


class MemoryLogger(DummyLogger):
    def __init__(self) -> None:
        super().__init__()
        self.logged: list[tuple[int, dict[str, float]]] = []

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.logged.append((step, dict(metrics)))


def attached(logger: MemoryLogger) -> Any:
    """A module that has a Trainer with that logger."""
    module = to_lightning(Linear)(hparams={})
    used = trainer(logger=logger, limit_val_batches=0, max_steps=0)
    used.fit(module)
    used.callback_metrics.clear()
    logger.logged.clear()
    return module


def test_scalars_are_published_under_their_names() -> None:
    logger = MemoryLogger()
    module = attached(logger)
    metrics = {"a": 1, "b": np.float32(2.5), "c": np.array(3.5), "d": True, "batches": 7}
    MetricsPublisher().training(module.trainer, metrics, 7)
    assert logger.logged == [(7, {"a": 1.0, "b": 2.5, "c": 3.5, "d": 1.0})]
    assert {k: float(v) for k, v in module.trainer.callback_metrics.items()} == {
        "a": 1.0,
        "b": 2.5,
        "c": 3.5,
        "d": 1.0,
    }
    assert module.trainer.progress_bar_metrics["b"] == 2.5


@pytest.mark.parametrize("value", [None, "text", [1, 2], {"x": 1}, np.zeros(2), np.array("x")])
def test_what_is_no_scalar_is_left_out(value: Any) -> None:
    logger = MemoryLogger()
    module = attached(logger)
    MetricsPublisher().training(module.trainer, {"odd": value, "loss": 1.0}, 3)
    assert logger.logged == [(3, {"loss": 1.0})]


def test_nothing_is_logged_where_there_is_nothing() -> None:
    logger = MemoryLogger()
    module = attached(logger)
    MetricsPublisher().training(module.trainer, {"odd": "text"}, 3)
    assert logger.logged == []


def test_names_that_training_has_taken() -> None:
    logger = MemoryLogger()
    module = attached(logger)
    publisher = MetricsPublisher()
    publisher.training(module.trainer, {"loss": 1.0, "val_acc": 0.0, "acc": 0.0}, 4)
    publisher.validation(module, {"loss": 2.0, "acc": 0.5, "own": 0.1}, 4)
    assert logger.logged[-1] == (4, {"val_loss": 2.0, "validation_acc": 0.5, "own": 0.1})
    assert float(module.trainer.callback_metrics["loss"]) == 1.0


def test_a_validation_metric_that_has_the_prefix_itself() -> None:
    logger = MemoryLogger()
    module = attached(logger)
    publisher = MetricsPublisher()
    publisher.training(module.trainer, {"loss": 1.0}, 4)
    publisher.validation(module, {"loss": 2.0, "val_loss": 3.0}, 4)
    assert logger.logged[-1] == (4, {"validation_loss": 2.0, "val_loss": 3.0})


def test_a_period_that_is_not_over_is_shown_but_not_logged() -> None:
    logger = MemoryLogger()
    module = attached(logger)
    publisher = MetricsPublisher()
    publisher.training_so_far(module.trainer, {"loss": 1.0})
    assert logger.logged == []
    assert float(module.trainer.callback_metrics["loss"]) == 1.0

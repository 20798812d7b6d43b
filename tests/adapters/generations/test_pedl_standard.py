"""Trials of PEDL's Standard Model Definition; tests/pedl/test_parity.py compares their weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from det_compat import pedl, to_lightning
from det_compat.adapters.generations.pedl_standard import MetricsOfAnyShape
from det_compat.errors import InvalidExperimentException
from det_compat.pedl.frameworks.pytorch import LRScheduler, PyTorchTrial
from det_compat.pytorch import DataLoader, PyTorchCallback
from det_compat.pytorch import LRScheduler as OwnLRScheduler
from tests.adapters.trials import rows, same, trainer, weights


def make_data_loaders(experiment_config: dict[str, Any], hparams: dict[str, Any]) -> Any:
    return DataLoader(rows(), batch_size=4), DataLoader(rows(10, seed=1), batch_size=4)


class Standard(PyTorchTrial):
    def build_model(self, hparams: dict[str, Any]) -> nn.Module:
        self.seen: list[Any] = []
        return nn.Linear(3, 1)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=pedl.get_hyperparameter("lr"))

    def losses(self, predictions: Any, labels: Any) -> Any:
        return nn.functional.mse_loss(predictions, labels)

    def validation_metrics(self, predictions: Any, labels: Any, losses: Any) -> dict[str, Any]:
        return {"error": (predictions - labels).abs().mean()}


def fitted(trial_cls: type, loaders: Any = make_data_loaders, **hparams: Any) -> Any:
    module = to_lightning(trial_cls, loaders)(hparams={"lr": 0.1, **hparams})
    own = trainer()
    own.fit(module)
    return module, own.callback_metrics


def test_it_trains_and_reports_the_loss_and_validation_metrics() -> None:
    module, metrics = fitted(Standard)
    assert type(module.trial) is Standard
    assert module.run.state.batches_trained == 4
    assert {"loss", "error"} <= metrics.keys()


def test_a_batch_is_forwarded_and_passed_on_untouched() -> None:
    class Echo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            assert len(args) == 1 and not kwargs
            return {"out": (args[0]["a"][0] * self.weight, [args[0]["b"]])}

    class Nested(Standard):
        def build_model(self, hparams: dict[str, Any]) -> nn.Module:
            return Echo()

        def losses(self, predictions: Any, labels: Any) -> Any:
            out, (b,) = predictions["out"]
            assert out.shape == (2, 1) and b == ["x", "y"]
            assert labels["deep"]["label"].tolist() == [2.0, 3.0]
            return {"loss": out.sum(), "part": out.mean()}

        def training_metrics(self, predictions: Any, labels: Any, losses: Any) -> Any:
            return {"both": torch.stack([losses["part"], losses["loss"]])}

        def validation_metrics(self, predictions: Any, labels: Any, losses: Any) -> Any:
            return {"sum": losses["loss"], "rows": predictions["out"][0].squeeze(1)}

    data = [
        ({"a": (torch.ones(1), 0), "b": name}, {"deep": {"label": label}})
        for name, label in (("x", 2.0), ("y", 3.0))
    ]
    loader = DataLoader(data, batch_size=2)
    _, metrics = fitted(Nested, lambda experiment_config, hparams: (loader, loader))
    assert {"loss", "part", "both", "sum", "rows"} <= metrics.keys()


def test_validation_metrics_are_averaged_over_batches_whatever_their_shape() -> None:
    seen: list[Any] = []

    class Shapes(Standard):
        def validation_metrics(self, predictions: Any, labels: Any, losses: Any) -> Any:
            return {
                "rows": torch.full((len(labels),), float(len(labels))),
                "matrix": torch.tensor([[1.0, 2.0], [3.0, float(len(labels))]]),
            }

        def build_callbacks(self) -> dict[str, Any]:
            class Seen(PyTorchCallback):
                def on_validation_epoch_end(self, outputs: list[Any]) -> None:
                    seen.extend(output["rows"].shape for output in outputs)

            return {"seen": Seen()}

    _, metrics = fitted(Shapes)
    assert metrics["rows"] == pytest.approx((4 + 4 + 2) / 3)
    assert metrics["matrix"] == pytest.approx((10 + 10 + 8) / 12)
    # a callback of the trial sees them as they are
    assert seen == [(4,), (4,), (2,)]


def test_metrics_of_one_shape_are_left_as_they_are() -> None:
    batches = [{"a": np.ones(2), "b": np.ones(index)} for index in (2, 1)]
    before = batches[0]["a"]
    MetricsOfAnyShape().on_validation_epoch_end(batches)
    assert batches[0]["a"] is before
    assert [batch["b"] for batch in batches] == [1, 1]


@pytest.mark.parametrize("keyword", ["step_every_batch", "step_every_epoch", None])
def test_the_scheduler_steps_as_it_says(keyword: str | None) -> None:
    class Scheduled(Standard):
        def create_lr_scheduler(self, optimizer: Any) -> LRScheduler:
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            return LRScheduler(scheduler, **({keyword: True} if keyword else {}))

    module, _ = fitted(Scheduled)
    steps = {"step_every_batch": 4, "step_every_epoch": 1, None: 0}[keyword]
    assert module.context.optimizers[0].param_groups[0]["lr"] == 0.1 * 0.5**steps


def test_hparams_go_to_the_methods_that_take_them() -> None:
    class Takes(Standard):
        def __init__(self, hparams: dict[str, Any]) -> None:
            self.given = [hparams]

        def build_model(self) -> nn.Module:
            return nn.Linear(3, 1)

        def optimizer(self, model: nn.Module, hparams: dict[str, Any]) -> Any:
            self.given.append(hparams)
            return torch.optim.SGD(model.parameters(), lr=hparams["lr"])

        def batch_size(self) -> int:
            return int(self.given[0]["rows"])

    module, _ = fitted(Takes, rows=4)
    assert module.trial.given == [{"lr": 0.1, "rows": 4}] * 2


def _with(**members: Any) -> type:
    return type("Malformed", (Standard,), {"__module__": __name__, **members})


def _loaders(*made: Any) -> Any:
    def make_data_loaders(experiment_config: Any, hparams: Any) -> Any:
        return made[0] if len(made) == 1 else made

    return make_data_loaders


DICTS = DataLoader([{"x": 1.0}] * 4, batch_size=2)
TRIPLES = DataLoader([(1.0, 2.0, 3.0)] * 4, batch_size=2)


@pytest.mark.parametrize(
    ("trial_cls", "loaders", "message"),
    [
        (Standard, _loaders(None), "make_data_loaders.*returned NoneType"),
        (Standard, _loaders(1, 2, 3), r"returned tuple of 3"),
        (Standard, _loaders(rows(), rows()), "the training loader is TensorDataset; wrap the data"),
        (Standard, _loaders(DICTS, DICTS), r"pairs \(input, target\).*gave dict of 1"),
        (Standard, _loaders(TRIPLES, TRIPLES), r"pairs \(input, target\).*gave list of 3"),
        (_with(losses=lambda self, p, y: {"mse": 1}), None, r"without \"loss\", but \['mse'\]"),
        (_with(losses=lambda self, p, y: (p - y) ** 2), None, r"returned is shape \[4, 1\]"),
        (_with(losses=lambda self, p, y: 0.5), None, "returned is 0.5: PEDL's Standard Model Def"),
        (_with(losses=lambda self, p, y: {"loss": None}), None, "returned is None"),
        (
            _with(validation_metrics=lambda *a: 1.0),
            None,
            "must return a dict of metrics.*got float",
        ),
        (
            _with(batch_size=lambda self: 0),
            None,
            r"batch_size\(\) must return a positive int.*got 0",
        ),
    ],
)
def test_what_is_malformed_is_told_with_the_contract(
    trial_cls: type, loaders: Any, message: str
) -> None:
    with pytest.raises(InvalidExperimentException, match=message) as error:
        fitted(trial_cls, loaders or make_data_loaders)
    assert "PEDL" in str(error.value)


def test_a_trial_without_validation_metrics_is_refused() -> None:
    trial_cls = _with(validation_metrics=None)
    with pytest.raises(TypeError, match=r"does not define validation_metrics\(predictions, labels"):
        fitted(trial_cls)


def test_the_scheduler_is_one_of_the_context_api() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    modes = OwnLRScheduler.StepMode
    assert LRScheduler(scheduler)._step_mode is modes.MANUAL_STEP
    assert LRScheduler(scheduler, True)._step_mode is modes.STEP_EVERY_BATCH
    assert LRScheduler(scheduler, False, True)._step_mode is modes.STEP_EVERY_EPOCH
    with pytest.raises(ValueError, match="neither means that the trial steps it"):
        LRScheduler(scheduler, True, True)


@pytest.mark.parametrize(
    ("hparams", "clip"),
    [
        ({"clip_grad_l2_norm": 0.05}, lambda ps: torch.nn.utils.clip_grad_norm_(ps, 0.05)),
        ({"clip_grad_val": 0.05}, lambda ps: torch.nn.utils.clip_grad_value_(ps, 0.05)),
    ],
)
def test_hyperparameters_may_clip(hparams: dict[str, Any], clip: Any) -> None:
    class Clips(torch.optim.SGD):
        def step(self, *args: Any, **kwargs: Any) -> Any:
            clip(self.param_groups[0]["params"])
            return super().step(*args, **kwargs)

    class Clipped(Standard):
        def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
            return Clips(model.parameters(), lr=pedl.get_hyperparameter("lr"))

    trained = []
    for trial_cls, given in ((Standard, hparams), (Clipped, {}), (Standard, {})):
        torch.manual_seed(3)
        trained.append(weights(fitted(trial_cls, **given)[0].models))
    assert same(trained[0], trained[1])
    assert not same(trained[0], trained[2])

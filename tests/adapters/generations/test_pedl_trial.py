"""PEDL trials of the later form; tests/pedl/test_parity.py compares their weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from det_compat import pedl, to_lightning
from det_compat.adapters.generations.trial_class import full_name
from det_compat.errors import InvalidExperimentException
from det_compat.pedl import run as _run
from det_compat.pedl.frameworks.pytorch import LRScheduler, PyTorchTrial
from det_compat.pedl.frameworks.pytorch.data import DataLoader
from det_compat.pytorch import PyTorchCallback
from tests.adapters.trials import rows, trainer

calls: list[str] = []


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    calls.clear()
    yield
    assert _run._runs == []


def download_data(experiment_config: dict[str, Any], hparams: dict[str, Any]) -> str:
    assert hparams["lr"] == pedl.get_hyperparameter("lr")
    calls.append("download")
    return "/data"


def make_data_loaders(experiment_config: dict[str, Any], hparams: dict[str, Any]) -> Any:
    calls.append(f"loaders from {pedl.get_download_data_dir()}")
    size = pedl.get_hyperparameter("batch_size")
    return DataLoader(rows(), batch_size=size), DataLoader(rows(8, seed=1), batch_size=size)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x) * pedl.get_hyperparameter("scale")
        return out


class Schedule(torch.optim.lr_scheduler.LRScheduler):
    def get_lr(self) -> list[float]:
        return [pedl.get_hyperparameter("lr") / (1 + self.last_epoch) for _ in self.base_lrs]


class Later(PyTorchTrial):
    def build_model(self) -> nn.Module:
        return Net()

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=pedl.get_hyperparameter("lr"))

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        return LRScheduler(Schedule(optimizer), step_every_batch=True)

    def train_batch(self, batch: Any, model: nn.Module, epoch_idx: int, batch_idx: int) -> Any:
        x, y = batch
        return {"loss": nn.functional.mse_loss(model(x), y)}

    def evaluate_batch(self, batch: Any, model: nn.Module) -> dict[str, Any]:
        x, y = batch
        return {"error": (model(x) - y).abs().mean()}


HPARAMS = {"lr": 0.1, "scale": 0.5, "batch_size": 4}


def module_of(trial_cls: type, *functions: Any, exp_conf: Any = None, **hparams: Any) -> Any:
    return to_lightning(trial_cls, *functions)(hparams={**HPARAMS, **hparams}, exp_conf=exp_conf)


def test_the_functions_of_its_module_give_it_data() -> None:
    module = module_of(Later)
    trainer(max_epochs=2).fit(module)
    assert type(module.trial) is Later
    assert module.run.state.batches_trained == 8
    assert module.context.optimizers[0].param_groups[0]["lr"] == 0.1 / 9
    assert calls == ["download", "loaders from /data"]


def test_a_validation_alone_makes_loaders_too() -> None:
    module = module_of(Later)
    own = trainer()
    own.validate(module, verbose=False)
    own.fit(module)
    assert calls == ["download", *["loaders from /data"] * 2]
    assert "error" in own.callback_metrics


def test_two_modules_each_have_their_own_hyperparameters() -> None:
    first, second = module_of(Later, lr=0.1), module_of(Later, lr=0.2)
    own = trainer()
    own.validate(first, verbose=False)
    trainer().fit(second)
    trainer().fit(first)
    rates = [module.context.optimizers[0].param_groups[0]["lr"] for module in (first, second)]
    assert rates == [0.1 / 5, 0.2 / 5]


def test_hyperparameters_are_those_of_nobody_after_an_error() -> None:
    class Fails(Later):
        def train_batch(self, batch: Any, model: Any, epoch_idx: int, batch_idx: int) -> Any:
            raise KeyError(pedl.get_hyperparameter("lr"))

    with pytest.raises(KeyError, match=r"0\.1"):
        trainer().fit(module_of(Fails))
    with pytest.raises(RuntimeError, match="no PEDL trial is built or trained"):
        pedl.get_hyperparameter("lr")


def test_callbacks_may_ask_from_startup_to_shutdown() -> None:
    class Asks(PyTorchCallback):
        def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
            calls.append(f"startup {pedl.get_hyperparameter('lr')}")

        def on_trial_shutdown(self) -> None:
            calls.append(f"shutdown {pedl.get_hyperparameter('lr')}")

    class WithCallback(Later):
        def build_callbacks(self) -> dict[str, Any]:
            return {"asks": Asks()}

    trainer().fit(module_of(WithCallback))
    assert [call for call in calls if "0.1" in call] == ["startup 0.1", "shutdown 0.1"]


def test_functions_that_are_passed_come_first() -> None:
    def loaders(experiment_config: Any, hparams: Any) -> Any:
        calls.append(f"passed: {pedl.get_download_data_dir()}")
        return DataLoader(rows(), batch_size=8), DataLoader(rows(8), batch_size=8)

    module = module_of(Later, loaders, lambda: "/elsewhere")
    trainer().fit(module)
    assert calls == ["passed: /elsewhere"]
    assert module.run.state.batches_trained == 2


def test_entrypoints_come_before_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pedl_entry_data.py").write_text(
        "import tests.adapters.generations.test_pedl_trial as own\n"
        "from det_compat import pedl\n"
        "SIZE = pedl.get_hyperparameter('batch_size')\n"
        "def load(experiment_config, hparams):\n"
        "    return (own.DataLoader(own.rows(), batch_size=2 * SIZE),) * 2\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    entrypoints = {"data_loaders_function": "pedl_entry_data:load"}
    module = module_of(Later, exp_conf={"entrypoints": entrypoints})
    trainer().fit(module)
    assert module.run.state.batches_trained == 2
    assert calls == ["download"]


def test_a_trial_without_data_is_told_the_contract() -> None:
    names = ("build_model", "optimizer", "train_batch", "evaluate_batch")
    members = {name: getattr(Later, name) for name in names}
    nowhere = type("Nowhere", (PyTorchTrial,), {**members, "__module__": "json"})
    with pytest.raises(InvalidExperimentException, match=r"json.Nowhere has no data: PEDL's contr"):
        trainer().fit(module_of(nowhere))
    assert full_name(nowhere) == "json.Nowhere"


@pytest.mark.parametrize("parameters", ["", "hparams", "config", "*args, **kwargs"])
def test_it_is_built_with_hparams_if_it_takes_them(parameters: str) -> None:
    names: dict[str, Any] = {}
    exec(f"def __init__(self, {parameters}): self.given = dict(locals())", names)
    trial_cls = type("Takes", (Later,), {"__module__": __name__, "__init__": names["__init__"]})
    names["__init__"].__module__ = __name__
    names["__init__"].__qualname__ = "Takes.__init__"
    module = module_of(trial_cls)
    trainer().fit(module)
    given = module.trial.given.get(parameters)
    assert given == (HPARAMS if parameters in ("hparams", "config") else None)


def test_the_whole_dataset_may_be_evaluated_at_once() -> None:
    class Whole(Later):
        evaluate_batch = None

        def evaluate_full_dataset(self, data_loader: Any, model: nn.Module) -> dict[str, Any]:
            assert not model.training
            return {"size": float(len(data_loader))}

    own = trainer()
    own.fit(module_of(Whole))
    assert own.callback_metrics["size"] == 2


@pytest.mark.parametrize("name", ["clip_grad_l2_norm", "clip_grad_val"])
def test_hyperparameters_may_clip(name: str) -> None:
    class Moves(Later):
        """By how much the first batch moves each weight."""

        def build_model(self) -> nn.Module:
            model = super().build_model()
            nn.init.constant_(model.linear.weight, 10.0)
            return model

    def moved(**hparams: Any) -> Any:
        module = module_of(Moves, make_data_loaders, **hparams)
        trainer(max_steps=1, max_epochs=-1).fit(module)
        return (module.models[0].linear.weight.detach() - 10.0).abs() / HPARAMS["lr"]

    bound = 0.01
    assert (moved() > bound).any()
    assert (moved(**{name: bound}) <= bound * 1.01).all()

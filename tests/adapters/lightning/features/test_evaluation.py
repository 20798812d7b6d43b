from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import ModelSummary
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities.model_summary import summarize

from det_compat import to_lightning
from det_compat.errors import InvalidExperimentException
from tests.adapters.trials import Gan, Linear, Normed, rows, same, trainer, weights


class Watched(Normed):
    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        assert not self.model.training
        assert not torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
        return super().evaluate_batch(batch, batch_idx)


class Whole(Linear):
    evaluate_batch: Any = None

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        return {"rows": sum(len(x) for x, _ in data_loader)}


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # Lightning's log_graph.
@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")  # It is one since torch 2.15.
def test_a_module_is_called_as_the_one_model_of_its_trial(tmp_path: Path) -> None:
    modules = [to_lightning(Normed)({}) for _ in range(2)]
    modules[0].example_input_array = rows()[:4][0]
    graph = TensorBoardLogger(tmp_path, log_graph=True)
    asked: dict[str, Any] = {"logger": graph, "callbacks": [ModelSummary()]}
    for module, flags in zip(modules, (asked, {}), strict=True):
        torch.manual_seed(3)
        trainer(**flags).fit(module)
    assert same(weights(modules[0]), weights(modules[1]))
    assert summarize(modules[0]).total_flops > 0


def test_which_of_several_models_is_called_nobody_knows() -> None:
    module = to_lightning(Gan)({})
    module.example_input_array = torch.zeros(4, 3)
    with pytest.raises(InvalidExperimentException, match=r"Gan has 2 models.* define forward\(\)"):
        trainer(callbacks=[ModelSummary()]).fit(module)


def test_a_test_is_a_validation() -> None:
    torch.manual_seed(3)
    module = to_lightning(Watched)({})
    trainer().fit(module)
    module.trial.recorder.calls.clear()
    expected = trainer().validate(module, verbose=False)
    validated = module.trial.recorder.hooks()
    module.trial.recorder.calls.clear()
    assert trainer().test(module, verbose=False) == expected
    assert module.trial.recorder.hooks() == validated
    assert module.trial.evaluated[-2:] == [0, 1]


def test_a_test_alone_on_some_of_the_data() -> None:
    module = to_lightning(Watched)({})
    trainer(limit_test_batches=1).test(module, verbose=False)
    assert module.trial.evaluated == [0]


def test_a_test_on_data_of_its_own() -> None:
    module = to_lightning(Watched)({})
    given = torch.utils.data.DataLoader(rows(12, seed=2), batch_size=4)
    trainer().test(module, given, verbose=False)
    assert module.trial.evaluated == [0, 1, 2]


@pytest.mark.parametrize("method", ["fit", "validate", "test"])
def test_several_loaders_are_refused(method: str) -> None:
    module = to_lightning(Watched)({})
    given = [torch.utils.data.DataLoader(rows(12, seed=2), batch_size=4)] * 2
    name = "val_dataloaders" if method == "fit" else "dataloaders"
    with pytest.raises(InvalidExperimentException, match="there are 2 loaders to evaluate"):
        getattr(trainer(), method)(module, **{name: given})


def test_a_test_of_a_trial_that_evaluates_its_data_at_once() -> None:
    assert trainer().test(to_lightning(Whole)({}), verbose=False) == [{"rows": 8.0}]


def test_a_limit_does_not_reach_data_that_are_evaluated_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limited = trainer(limit_val_batches=2)
    assert limited.validate(to_lightning(Whole)({}), verbose=False) == [{"rows": 8.0}]
    assert "limit_val_batches=2" in caplog.text and "gets all of the validation data" in caplog.text
    with pytest.raises(InvalidExperimentException, match=r"limit_val_batches=0\.5 is a part"):
        trainer(limit_val_batches=0.5).validate(to_lightning(Whole)({}), verbose=False)


def test_predict_says_what_to_do() -> None:
    with pytest.raises(InvalidExperimentException, match="predict_step and predict_dataloader"):
        trainer().predict(to_lightning(Linear)({}))


class Predicts(to_lightning(Linear)):
    def predict_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        result: torch.Tensor = self.trial.model(batch[0])
        return result

    def predict_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(rows(), batch_size=4)


def test_a_subclass_may_predict() -> None:
    module = Predicts({})
    found = trainer().predict(module)
    assert torch.equal(torch.cat(found), module.trial.model(rows().tensors[0]))

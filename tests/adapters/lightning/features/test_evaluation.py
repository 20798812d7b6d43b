from __future__ import annotations

from typing import Any

import pytest
import torch

from det_compat import to_lightning
from det_compat.errors import InvalidExperimentException
from tests.adapters.trials import Linear, Normed, rows, trainer


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

"""``Trainer.test``, which evaluates the validation data, and ``predict``, which is refused."""

from typing import Any

from det_compat.adapters.lightning.features.refusals import cannot_predict
from det_compat.adapters.lightning.package import pl


class TestsByValidation(pl.LightningModule):
    """Lets a test be a validation: a trial has no data for tests, and no code.

    Metrics, callbacks and reducers of the trial are those of a validation.
    """

    def test_dataloader(self) -> Any:
        return self.val_dataloader()

    def on_test_model_eval(self) -> None:
        self.on_validation_model_eval()

    def on_test_model_train(self) -> None:
        self.on_validation_model_train()

    def on_test_start(self) -> None:
        self.on_validation_start()

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.validation_step(batch, batch_idx)

    def on_test_epoch_end(self) -> None:
        self.on_validation_epoch_end()

    def on_test_end(self) -> None:
        self.on_validation_end()

    def predict_dataloader(self) -> Any:
        """Raise InvalidExperimentException, which says what to do instead."""
        raise cannot_predict()

    def predict_step(self, *args: Any, **kwargs: Any) -> Any:
        """Raise InvalidExperimentException, which says what to do instead."""
        raise cannot_predict()

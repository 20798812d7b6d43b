"""Trials that stop early or fail."""

from __future__ import annotations

import determined as det
from determined.pytorch import PyTorchCallback, PyTorchTrialContext

from trials.base import Classifier


class Acts(PyTorchCallback):
    """Does what it is told when a hook is called for the n-th time."""

    def __init__(self, trial: Ends) -> None:
        self.trial = trial

    def on_trial_startup(self, first_batch_idx, checkpoint_uuid):
        self.trial.reached("on_trial_startup")

    def on_training_start(self):
        self.trial.reached("on_training_start")

    def on_training_epoch_start(self, epoch_idx):
        self.trial.reached("on_training_epoch_start")

    def on_training_epoch_end(self, epoch_idx):
        self.trial.reached("on_training_epoch_end")

    def on_training_workload_end(self, avg_metrics, batch_metrics):
        self.trial.reached("on_training_workload_end")

    def on_validation_start(self):
        self.trial.reached("on_validation_start")

    def on_validation_epoch_start(self):
        self.trial.reached("on_validation_epoch_start")

    def on_validation_epoch_end(self, outputs):
        self.trial.reached("on_validation_epoch_end")

    def on_validation_end(self, metrics):
        self.trial.reached("on_validation_end")

    def on_checkpoint_save_start(self, checkpoint):
        self.trial.reached("on_checkpoint_save_start")

    def on_checkpoint_write_end(self, checkpoint_dir):
        self.trial.reached("on_checkpoint_write_end")

    def on_checkpoint_upload_end(self, uuid):
        self.trial.reached("on_checkpoint_upload_end")

    def on_trial_shutdown(self):
        self.trial.seen.append("shutdown")
        self.trial.reached("shutdown")


class Ends(Classifier):
    """hparams: ``do`` "stop", "invalid", "error" or "exit" at the ``count``-th call of ``at``."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.calls = {}

    def reached(self, place: str) -> None:
        self.calls[place] = self.calls.get(place, 0) + 1
        if place == self.hparam("at", None) and self.calls[place] == self.hparam("count", 1):
            self.act(self.hparam("do", "stop"))

    def act(self, what: str) -> None:
        if what == "stop":
            self.context.set_stop_requested(True)
            self.seen.append(self.context.get_stop_requested())
        elif what == "invalid":
            raise det.InvalidHP("these hyperparameters will not do")
        elif what == "exit":
            raise SystemExit(3)
        else:
            raise RuntimeError("something broke")

    def build_callbacks(self):
        return {"acts": Acts(self)}

    def build_training_data_loader(self):
        self.reached("build_training_data_loader")
        return super().build_training_data_loader()

    def train_batch(self, batch, epoch_idx, batch_idx):
        self.reached("train_batch")
        return super().train_batch(batch, epoch_idx, batch_idx)

    def evaluate_batch(self, batch):
        self.reached("evaluate_batch")
        return super().evaluate_batch(batch)

"""Mixed precision where there is no GPU."""

from __future__ import annotations

import torch
from determined.pytorch import PyTorchTrialContext

from trials.base import Classifier


class UseAmp(Classifier):
    """use_amp() where there is no GPU: the scaler is disabled."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        context.experimental.use_amp()
        super().__init__(context)


class OwnScaler(Classifier):
    """wrap_scaler where there is no GPU."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.scaler = context.wrap_scaler(torch.cuda.amp.GradScaler())
        super().__init__(context)

    def train_batch(self, batch, epoch_idx, batch_idx):
        with torch.cuda.amp.autocast():
            loss = self.loss(batch)
        self.context.backward(self.scaler.scale(loss))
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        self.context.step_optimizer(self.optimizer, scaler=self.scaler)
        self.scaler.update()
        return {"loss": loss, "scale": self.scaler.get_scale()}


class EnabledScaler(OwnScaler):
    """A scaler that works on the CPU: loss scaling without half precision."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=4)
        self.scaler = context.wrap_scaler(scaler)
        Classifier.__init__(self, context)

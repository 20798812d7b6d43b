"""200 batches of one layer, and a validation, as a LightningModule."""

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset


class OneLayer(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(1, 1)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def training_step(self, batch, batch_idx):
        loss = self.model(batch[0]).pow(2).mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("validation_loss", self.model(batch[0]).pow(2).mean())


if __name__ == "__main__":
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(
        OneLayer(),
        DataLoader(TensorDataset(torch.randn(800, 1)), batch_size=4, shuffle=True),
        DataLoader(TensorDataset(torch.randn(80, 1)), batch_size=4),
    )
    print(float(trainer.callback_metrics["validation_loss"]))

"""A folder with trials of a LightningAdapter: the modules, the data, the trials, their configs."""

from __future__ import annotations

from pathlib import Path

NET = """\
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F


class Net(pl.LightningModule):
    def __init__(self, hidden=8, lr=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(4, hidden), nn.Dropout(0.2), nn.Linear(hidden, 3))

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return {"loss": loss}

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        preds = logits.argmax(dim=1)
        return {"loss": F.cross_entropy(logits, y), "accuracy": (preds == y).float().mean()}

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler}}


class GAN(pl.LightningModule):
    def __init__(self, size, lr: float = 0.01, b1: float = 0.5, **kwargs):
        super().__init__()
        self.save_hyperparameters()
        self.generator = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, size))
        self.discriminator = nn.Sequential(nn.Linear(size, 8), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, z):
        return self.generator(z)

    def training_step(self, batch, batch_idx, optimizer_idx):
        x, _ = batch
        z = torch.randn(x.shape[0], 3)
        ones = torch.ones(x.shape[0], 1)
        if optimizer_idx == 0:
            return {"loss": F.binary_cross_entropy(self.discriminator(self(z)), ones)}
        if optimizer_idx == 1:
            real = F.binary_cross_entropy(self.discriminator(x), ones)
            fake = F.binary_cross_entropy(self.discriminator(self(z).detach()), 0 * ones)
            output = {"loss": (real + fake) / 2}
            return output

    def validation_step(self, batch, batch_idx, *args, **kwargs):
        x, _ = batch
        return {"loss": F.binary_cross_entropy(self.discriminator(x), torch.ones(x.shape[0], 1))}

    def configure_optimizers(self):
        lr, b1 = self.hparams.lr, self.hparams.b1
        g = torch.optim.Adam(self.generator.parameters(), lr=lr, betas=(b1, 0.999))
        d = torch.optim.Adam(self.discriminator.parameters(), lr=lr, betas=(b1, 0.999))
        return [g, d], []
"""
DATA = """\
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset, random_split


class Flowers(pl.LightningDataModule):
    def __init__(self, batch_size=8):
        super().__init__()
        self.batch_size = batch_size
        self.dims = (4,)

    def setup(self, stage=None):
        x = torch.randn(70, 4)
        self.train, self.val = random_split(TensorDataset(x, x[:, :3].argmax(dim=1)), [50, 20])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.batch_size)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=self.batch_size)
"""
_LOADERS = """\
    def build_training_data_loader(self) -> DataLoader:
        self.dm.setup()
        dl = self.dm.train_dataloader()
        return DataLoader(dl.dataset, batch_size=dl.batch_size, num_workers=dl.num_workers)

    def build_validation_data_loader(self) -> DataLoader:
        self.dm.setup()
        dl = self.dm.val_dataloader()
        return DataLoader(dl.dataset, batch_size=dl.batch_size, num_workers=dl.num_workers)
"""
TRIALS = f"""\
from determined.pytorch import DataLoader, PyTorchTrialContext
from determined.pytorch.lightning import LightningAdapter

import data
import net


class NetTrial(LightningAdapter):
    def __init__(self, context: PyTorchTrialContext, *args, **kwargs) -> None:
        lm = net.Net(hidden=context.get_hparam("hidden"), lr=context.get_hparam("lr"))
        self.dm = data.Flowers(batch_size=context.get_per_slot_batch_size())
        super().__init__(context, lightning_module=lm, *args, **kwargs)

{_LOADERS}

class GANTrial(LightningAdapter):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.dm = data.Flowers(context.get_per_slot_batch_size())
        (size,) = self.dm.dims
        super().__init__(context, net.GAN(size, lr=context.get_hparam("lr"), b1=0.4))

{_LOADERS}"""
CONFIG = """\
hyperparameters: {global_batch_size: 8, hidden: 8, lr: 0.05}
searcher: {name: single, metric: val_loss, max_length: {batches: 30}}
entrypoint: model_def:NetTrial
"""


def written(folder: Path, **changed: tuple[str, str]) -> None:
    """The folder, with the first of two texts replaced by the second in the files that are named.

    ``net`` is the file of the modules, ``trials`` that of the trials, ``config`` their config.
    """
    config = CONFIG.replace("NetTrial", "GANTrial").replace("hidden: 8, ", "")
    texts = {"net": NET, "data": DATA, "trials": TRIALS, "config": CONFIG, "gan": config}
    names = {"trials": "model_def.py", "config": "const.yaml", "gan": "gan.yaml"}
    for name, text in texts.items():
        old, new = changed.get(name, ("", ""))
        assert old in text, old
        made = text.replace(old, new) if old else text
        (folder / names.get(name, f"{name}.py")).write_text(made)

"""``overfit_batches``: a trial is trained and validated on what a plain module is."""

from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import IterableDataset

from det_compat import to_lightning
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import DataLoader
from tests.adapters.trials import Linear, rows, same, trainer, weights

pytestmark = pytest.mark.filterwarnings("ignore:You requested to overfit")


class Seen(Linear):
    """Shuffles both loaders and keeps what it sees; its loader is of the class ``made_by``."""

    made_by: Any = DataLoader

    def prepare(self) -> None:
        self.seen: list[Any] = []
        if self.made_by is not DataLoader:
            self.context.experimental.disable_dataset_reproducibility_checks()

    def build_training_data_loader(self) -> Any:
        return self.made_by(rows(), batch_size=4, shuffle=True)

    build_validation_data_loader = build_training_data_loader

    def loss(self, batch: Any) -> torch.Tensor:
        self.seen.append(batch[0].tolist())
        return super().loss(batch)


class OfTorch(Seen):
    made_by = TorchLoader


class Plain(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []
        self.model = torch.nn.Linear(3, 1)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        x, y = batch
        self.seen.append(x.tolist())
        return torch.as_tensor(((self.model(x) - y) ** 2).mean())

    validation_step = training_step

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    def train_dataloader(self) -> Any:
        return TorchLoader(rows(), batch_size=4, shuffle=True)

    val_dataloader = train_dataloader


@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
@pytest.mark.parametrize("part", [2, 0.5, 1.0])
@pytest.mark.parametrize("trial_cls", [Seen, OfTorch])
def test_batches_are_those_of_a_plain_module(trial_cls: type, part: Any) -> None:
    torch.manual_seed(3)
    plain = Plain()
    flags = {"max_epochs": 3, "overfit_batches": part}
    trainer(**flags, num_sanity_val_steps=0).fit(plain)
    torch.manual_seed(3)
    module = to_lightning(trial_cls)()
    trainer(**flags).fit(module)
    assert module.trial.seen == plain.seen
    assert same(module.trial.model.state_dict(), plain.model.state_dict())


def test_goes_on_with_the_same_batches(tmp_path: Any) -> None:
    flags: dict[str, Any] = {"overfit_batches": 3}
    torch.manual_seed(3)
    whole = to_lightning(Seen)()
    trainer(**flags, max_epochs=3).fit(whole)
    torch.manual_seed(3)
    half = to_lightning(Seen)()
    used = trainer(**flags, max_epochs=3, max_steps=4)
    used.fit(half)
    used.save_checkpoint(tmp_path / "half.ckpt")
    on = to_lightning(Seen)()
    trainer(**flags, max_epochs=3).fit(on, ckpt_path=tmp_path / "half.ckpt")
    assert same(weights(on), weights(whole))


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        yield from iter(rows())


class Streams(OfTorch):
    def build_training_data_loader(self) -> Any:
        return TorchLoader(Endless(), batch_size=4)


def test_refused_for_data_without_an_order() -> None:
    with pytest.raises(InvalidExperimentException, match="IterableDataset has no first samples"):
        trainer(overfit_batches=2).fit(to_lightning(Streams)())

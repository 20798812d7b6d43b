"""Batches of every form."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from determined import pytorch
from determined.pytorch import DataLoader, PyTorchTrialContext

from trials.base import Classifier, rows


def to_numpy(samples: list):
    x, y = zip(*samples, strict=True)
    return {"x": np.stack([row.numpy() for row in x]), "y": np.array([int(v) for v in y])}


def to_nested(samples: list):
    x, y = torch.utils.data.default_collate(samples)
    names = np.array([f"row {i}" for i in range(len(x))], dtype=object)
    return {"inputs": [x, {"copy": x.numpy()}], "meta": ("text", names, 3), "y": y}


class Rows:
    """A batch of the user's own, with to()."""

    def __init__(self, samples: list) -> None:
        self.x, self.y = torch.utils.data.default_collate(samples)
        self.moved = 0

    def to(self, device):
        self.moved += 1
        self.x, self.y = self.x.to(device), self.y.to(device)
        return self


class Collated(Classifier):
    """A classifier with a collate_fn."""

    collate = None

    def loader(self, count: int, shuffle: bool) -> DataLoader:
        size = self.context.get_per_slot_batch_size()
        return DataLoader(
            rows(count), batch_size=size, shuffle=shuffle, collate_fn=type(self).collate
        )

    def build_training_data_loader(self) -> DataLoader:
        return self.loader(22, True)

    def build_validation_data_loader(self) -> DataLoader:
        return self.loader(10, False)

    def evaluate_batch(self, batch):
        return {"loss": self.loss(batch)}


class NumpyBatches(Collated):
    """Dicts of arrays, which arrive as tensors."""

    collate = staticmethod(to_numpy)

    def loss(self, batch) -> torch.Tensor:
        self.seen.append({name: type(value).__name__ for name, value in batch.items()})
        return F.cross_entropy(self.model(batch["x"]), batch["y"])


class NestedBatches(Collated):
    """Lists, tuples and dicts in each other, with what cannot be moved to a device."""

    collate = staticmethod(to_nested)

    def get_batch_length(self, batch) -> int:
        return len(batch["y"])

    def loss(self, batch) -> torch.Tensor:
        x, more = batch["inputs"]
        self.seen.append([type(more["copy"]).__name__, *(type(m).__name__ for m in batch["meta"])])
        return F.cross_entropy(self.model(x + more["copy"]), batch["y"])


class OwnBatches(Collated):
    """A class with to(), measured by get_batch_length."""

    collate = Rows

    def get_batch_length(self, batch) -> int:
        self.seen.append(f"length {len(batch.x)}")
        return len(batch.x)

    def loss(self, batch) -> torch.Tensor:
        self.seen.append(batch.moved)
        return F.cross_entropy(self.model(batch.x), batch.y)


class UnmeasuredBatches(OwnBatches):
    """A class of batch whose length Determined cannot tell."""

    def get_batch_length(self, batch) -> int:
        return pytorch.data_length(batch)


class StaysPut(OwnBatches):
    """disable_auto_to_device."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        context.experimental.disable_auto_to_device()

    def loss(self, batch) -> torch.Tensor:
        self.seen.append(batch.moved)
        x, y = self.context.to_device((batch.x.numpy(), batch.y.numpy()))
        return F.cross_entropy(self.model(x), y)


class NumpyStaysPut(NumpyBatches):
    """Arrays with disable_auto_to_device stay arrays."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        context.experimental.disable_auto_to_device()

    def loss(self, batch) -> torch.Tensor:
        self.seen.append(type(batch["x"]).__name__)
        return super().loss(self.context.to_device(batch))

"""Plain torch loaders, and loaders used outside training."""

from __future__ import annotations

import random

import torch
from determined.pytorch import DataLoader, PyTorchTrialContext, adapt_batch_sampler, samplers
from torch.utils import data

from trials.base import FEATURES, Classifier, rows


class PlainLoaders(Classifier):
    """torch loaders with Determined's samplers, put together by hand."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        context.experimental.disable_dataset_reproducibility_checks()

    def build_training_data_loader(self) -> data.DataLoader:
        dataset, ranks = rows(22), self.context.distributed
        sampler = samplers.ReproducibleShuffleSampler(data.SequentialSampler(dataset), seed=3)
        batches = data.BatchSampler(sampler, 3, drop_last=False)
        batches = samplers.RepeatBatchSampler(batches)
        batches = samplers.DistributedBatchSampler(batches, ranks.size, ranks.rank)
        batches = samplers.SkipBatchSampler(batches, self.context.get_initial_batch())
        return data.DataLoader(dataset, batch_sampler=batches)

    def build_validation_data_loader(self) -> data.DataLoader:
        dataset, ranks = rows(10, seed=8), self.context.distributed
        sampler = samplers.DistributedSampler(
            data.SequentialSampler(dataset), ranks.get_size(), ranks.get_rank()
        )
        return data.DataLoader(dataset, batch_size=2, sampler=sampler)


class SampleSamplers(PlainLoaders):
    """The samplers of samples; the batch sampler that shuffles."""

    def build_training_data_loader(self) -> data.DataLoader:
        dataset, ranks = rows(22), self.context.distributed
        sampler = samplers.RepeatSampler(data.RandomSampler(dataset))
        sampler = samplers.DistributedSampler(sampler, ranks.size, ranks.rank)
        sampler = samplers.SkipSampler(sampler, 2)
        return data.DataLoader(dataset, batch_size=3, sampler=sampler)


class AdaptedSampler(PlainLoaders):
    """adapt_batch_sampler and ReproducibleShuffleBatchSampler."""

    def build_training_data_loader(self) -> data.DataLoader:
        dataset, ranks = rows(22), self.context.distributed
        batches = data.BatchSampler(data.SequentialSampler(dataset), 3, drop_last=False)
        shuffled = samplers.ReproducibleShuffleBatchSampler(batches, seed=4)
        adapted = adapt_batch_sampler(
            shuffled, repeat=True, skip=1, num_replicas=ranks.size, rank=ranks.rank
        )
        return data.DataLoader(dataset, batch_sampler=adapted, num_workers=2)


class PlainShuffle(PlainLoaders):
    """A shuffled torch loader, which is good for one epoch."""

    def build_training_data_loader(self) -> data.DataLoader:
        return data.DataLoader(rows(22), batch_size=4, shuffle=True)

    def build_validation_data_loader(self) -> data.DataLoader:
        return data.DataLoader(rows(10, seed=8), batch_size=2)


class Refused(Classifier):
    """A torch loader, without having said that it is meant."""

    def build_training_data_loader(self) -> data.DataLoader:
        return data.DataLoader(rows(22), batch_size=4)


class RefusedValidation(Classifier):
    """The same for validation."""

    def build_validation_data_loader(self) -> data.DataLoader:
        return data.DataLoader(rows(22), batch_size=4)


class Stream(data.IterableDataset):
    """Batches without an end."""

    def __init__(self, length: int | None) -> None:
        self.length = length

    def __iter__(self):
        while True:
            yield torch.randn(4, FEATURES), torch.randint(0, 3, (4,))


class SizedStream(Stream):
    """... which say that they have one."""

    def __len__(self) -> int:
        return self.length


class Streamed(PlainLoaders):
    """An IterableDataset with batch_size=None, and a length of a million or none."""

    def build_training_data_loader(self) -> data.DataLoader:
        length = self.hparam("length", None)
        dataset = SizedStream(length) if length else Stream(None)
        return data.DataLoader(dataset, batch_size=None)


class RefusedStream(Classifier):
    """An IterableDataset in Determined's DataLoader."""

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(Stream(None))


class BuiltTwice(Classifier):
    """Loaders are built, measured and iterated in __init__, and built again by the trainer."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        loader = self.build_training_data_loader()
        self.seen.append((len(loader), len(self.build_validation_data_loader())))
        self.seen.append([float(x.sum()) for x, _ in loader])
        self.seen.append(len(loader.get_data_loader(repeat=True, num_replicas=2, rank=1)))

    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == 1:
            self.seen.append(len(self.build_training_data_loader()))
        return super().train_batch(batch, epoch_idx, batch_idx)


class Moody(data.Dataset):
    """Rows whose reading draws from every global generator."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int):
        return torch.randn(FEATURES) + random.random(), index % 3


class SharesModel(Classifier):
    """The loader's workers run the model that is being trained."""

    def build_training_data_loader(self) -> DataLoader:
        def collate(samples: list):
            x, y = data.default_collate(samples)
            with torch.no_grad():
                return x + 0.1 * self.model(x).mean(), y

        # The chief's weights are in the workers as they were when these started.
        return DataLoader(Moody(), batch_size=3, shuffle=True, collate_fn=collate, num_workers=1)

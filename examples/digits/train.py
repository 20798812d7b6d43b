"""Trains DigitsTrial: ``det-compat run examples/digits/train.py [--epochs N]``."""

from __future__ import annotations

import argparse
import logging
import random

import determined as det
import numpy as np
import torch
from determined import pytorch

from model_def import DigitsTrial

HPARAMS = {
    "global_batch_size": 64,
    "learning_rate": 0.003,
    "lr_step_epochs": 5,
    "n_filters": 16,
    "dropout": 0.25,
}


def set_seeds(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small CNN on scikit-learn's digits.")
    parser.add_argument("--epochs", type=int, default=15)
    epochs = parser.parse_args().epochs

    logging.basicConfig(level=logging.WARNING, format=det.LOG_FORMAT)
    set_seeds(42)
    with pytorch.init(hparams=HPARAMS) as context:
        trainer = pytorch.Trainer(DigitsTrial(context), context)
        trainer.fit(
            max_length=pytorch.Epoch(epochs),
            validation_period=pytorch.Epoch(1),
            reporting_period=pytorch.Epoch(1),
            checkpoint_policy="none",
        )


if __name__ == "__main__":
    main()

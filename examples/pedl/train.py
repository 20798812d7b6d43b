"""Trains the trial of model_def.py, written for PEDL, on a Lightning Trainer."""

import argparse
import logging
from pathlib import Path

import pytorch_lightning as pl
import yaml

import det_compat

det_compat.alias_determined()

from model_def import HalfDigitsTrial  # its imports of pedl need the line above


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--data", help="directory of the data, in place of the config's")
    args = parser.parse_args()

    logging.basicConfig(level=logging.INFO)
    config = yaml.safe_load(Path(__file__).with_name("const.yaml").read_text())
    if args.data is not None:
        config["data"]["directory"] = args.data
    pl.seed_everything(1)
    module = det_compat.to_lightning(HalfDigitsTrial)(config["hyperparameters"], config)
    trainer = pl.Trainer(
        max_epochs=args.epochs,
        accelerator="cpu",
        devices=args.devices,
        strategy="ddp" if args.devices > 1 else "auto",
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(module)
    if trainer.is_global_zero:
        for name in ("validation_error", "is_large_error", "validation_loss"):
            print(f"{name}: {trainer.callback_metrics[name]:.4f}")


if __name__ == "__main__":
    main()

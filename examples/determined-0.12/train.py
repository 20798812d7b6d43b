"""Trains WineTrial, which is as it was written for Determined 0.12, on Lightning."""

from __future__ import annotations

from pathlib import Path

import pytorch_lightning as pl
import yaml

from det_compat import alias_determined, to_lightning

alias_determined()  # before model_def imports determined

from model_def import WineTrial


def main() -> None:
    config = yaml.safe_load((Path(__file__).parent / "const.yaml").read_text())
    pl.seed_everything(7)
    module = to_lightning(WineTrial)(hparams=config["hyperparameters"], exp_conf=config)
    # 20 epochs of 4 batches: the 5 steps of 16 batches of const.yaml
    trainer = pl.Trainer(
        max_epochs=20,
        check_val_every_n_epoch=4,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,  # the trial's callback prints
    )
    trainer.fit(module)


if __name__ == "__main__":
    main()

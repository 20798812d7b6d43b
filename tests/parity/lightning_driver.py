"""Trains trials with ``to_lightning`` and a plain ``pl.Trainer``, and dumps what came out.

``lightning_driver.py --devices N OUT CASE...`` runs cases of cases.py one after the other and
writes ``OUT/<case>.<rank>.pt`` for each. On several devices Lightning starts this script again.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import det_compat

det_compat.alias_determined()

import pytorch_lightning as pl
import torch
from case import Case
from cases import CASES
from compare import WEIGHTS
from recording import Record, error_of, seed_everything, state_of

SECONDS_PER_CASE = float(os.environ.get("PARITY_SECONDS_PER_CASE", "60"))


def run(case: Case, devices: int) -> dict[str, Any]:
    """Train for as many epochs as the case has; returns the weights and the like."""
    name, cls = (case.older or case.trial).split(":")
    trial_cls = getattr(importlib.import_module(f"trials.{name}"), cls)
    module_cls = det_compat.to_lightning(trial_cls)
    module = module_cls(
        hparams={"global_batch_size": 4, **case.hparams}, aggregation_frequency=case.aggregation
    )
    trainer = pl.Trainer(
        max_epochs=case.fit_arguments()["max_length"][1],
        accelerator=os.environ.get("PARITY_DEVICE", "cpu"),
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    seed_everything(17)
    trainer.fit(module)
    return state_of(module.context, module.trial, Record())


def dump(case: Case, devices: int, out: Path) -> str:
    """Run the case and write its dump; returns a line for the table."""
    result: dict[str, Any] = {"error": None, **dict.fromkeys(WEIGHTS)}
    try:
        result.update(run(case, devices))
    except BaseException as e:
        traceback.print_exc()
        result["error"] = error_of(e)
    path = out / f"{case.name}.{os.environ.get('LOCAL_RANK', '0')}.pt"
    torch.save(result, path)
    return f"{path.stem:45} {(result['error'] or {}).get('type', 'ok')}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    for case in CASES:
        if case.lightning and (not options.cases or case.name in options.cases):
            faulthandler.dump_traceback_later(SECONDS_PER_CASE, exit=True)
            print(dump(case, options.devices, options.out), file=sys.stderr, flush=True)
            faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()

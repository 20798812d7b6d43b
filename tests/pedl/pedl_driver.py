"""Trains PEDL's trials with to_lightning, or their rewritten forms with the real Determined.

``pedl_driver.py SIDE RANKS OUT`` writes ``OUT/SIDE/<case>.<rank>.pt`` for each case.
"""

from __future__ import annotations

import faulthandler
import importlib
import logging
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parent / "parity")]

_STANDARD = {"batch_size": 4, "width": 8, "dropout": 0.2, "learning_rate": 0.05}
_ENTRYPOINTS = {"trial_class": "old:Later", "data_loaders_function": "old_data:load"}

#: By name: the trial, its hyperparameters, experiment config and aggregation frequency.
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], int]] = {
    "every-epoch": ("Standard", {**_STANDARD, "step": "step_every_epoch"}, {}, 1),
    "every-batch": ("Standard", {**_STANDARD, "step": "step_every_batch"}, {}, 1),
    "aggregated": ("Standard", {**_STANDARD, "step": "step_every_batch"}, {}, 2),
    "bare": ("Bare", _STANDARD, {}, 1),
    "later": ("Later", _STANDARD, {"entrypoints": _ENTRYPOINTS}, 1),
    "later-aggregated": ("Later", _STANDARD, {"entrypoints": _ENTRYPOINTS}, 3),
    "whole-dataset": ("WholeDataset", _STANDARD, {"entrypoints": _ENTRYPOINTS}, 1),
}
EPOCHS = 3


def noting(trial_cls: type, notes: list[Any]) -> type:
    """``trial_cls``, noting down in a callback the metrics that it reports."""
    from determined.pytorch import PyTorchCallback

    class Notes(PyTorchCallback):
        def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
            notes.append(("training", dict(avg_metrics)))

        def on_validation_end(self, metrics: Any) -> None:
            notes.append(("validation", dict(metrics)))

    members = {"build_callbacks": lambda self: {"notes": Notes()}}
    return type(trial_cls.__name__, (trial_cls,), {**members, "__module__": trial_cls.__module__})


def with_determined(case: str, exp_conf: dict[str, Any], notes: list[Any]) -> Any:
    from determined import core, pytorch
    from driver import PORTS, wait_for
    from recording import seed_everything

    name, hparams, _, aggregation = CASES[case]
    distributed = None
    if "WORLD_SIZE" in os.environ:
        wait_for(PORTS)
        distributed = core.DistributedContext.from_torch_distributed()
    with pytorch.init(
        hparams=hparams,
        exp_conf=exp_conf,
        aggregation_frequency=aggregation,
        distributed=distributed,
    ) as context:
        seed_everything(17)
        trial = noting(getattr(importlib.import_module("new"), name), notes)(context)
        pytorch.Trainer(trial, context).fit(
            max_length=pytorch.Epoch(EPOCHS),
            validation_period=pytorch.Epoch(1),
            checkpoint_policy="none",
        )
    return context, trial


def with_lightning(case: str, exp_conf: dict[str, Any], notes: list[Any], ranks: int) -> Any:
    import pytorch_lightning as pl
    from recording import seed_everything

    import det_compat

    name, hparams, _, aggregation = CASES[case]
    trial_cls = noting(getattr(importlib.import_module("old"), name), notes)
    exp_conf = {**exp_conf, "optimizations": {"aggregation_frequency": aggregation}}
    module = det_compat.to_lightning(trial_cls)(hparams=hparams, exp_conf=exp_conf)
    trainer = pl.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=ranks,
        strategy="ddp" if ranks > 1 else "auto",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    seed_everything(17)
    trainer.fit(module)
    return module.context, module.trial


def main(side: str, ranks: int, out: Path) -> None:
    """Run every case."""
    if side == "lightning":
        import det_compat

        det_compat.alias_determined()
    import torch
    import torch.distributed as dist
    from recording import Record, state_of

    if side == "determined" and ranks > 1:
        dist.init_process_group("gloo")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    for case in CASES:
        folder = out / side / case
        folder.mkdir(parents=True, exist_ok=True)
        exp_conf = {**CASES[case][2], "data": {"folder": str(folder)}}
        notes: list[Any] = []
        faulthandler.dump_traceback_later(60, exit=True)
        if side == "lightning":
            context, trial = with_lightning(case, exp_conf, notes, ranks)
        else:
            context, trial = with_determined(case, exp_conf, notes)
        faulthandler.cancel_dump_traceback_later()
        rank = os.environ.get("LOCAL_RANK", "0")
        torch.save({**state_of(context, trial, Record()), "calls": notes}, f"{folder}.{rank}.pt")
        print(case, rank, "done", flush=True)
        if dist.is_initialized():
            dist.barrier()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))

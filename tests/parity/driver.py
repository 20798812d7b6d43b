"""Trains trials with determined.pytorch, as a user's script does, and dumps what came out.

``driver.py OUT CASE...`` runs cases of cases.py one after the other, on as many ranks as torchrun
started, and writes ``OUT/<case>.<rank>.pt`` for each.
"""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import importlib
import logging
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from case import Case
from cases import CASES
from determined import core, pytorch
from recording import Record, error_of, recorded, seed_everything, state_of

# Determined's own, which it frees some time after it has closed them.
PORTS = [int(p) for name, p in os.environ.items() if name.startswith("INTER_TRAIN_PROCESS_COMM")]
WORKING = Path.cwd()
SECONDS_PER_CASE = float(os.environ.get("PARITY_SECONDS_PER_CASE", "60"))


def run(case: Case, record: Record, found: dict[str, Any]) -> None:
    """Train; ``found`` gets the context and the trial."""
    module, cls = case.trial.split(":")
    contexts: list[Any] = []
    trial_cls = recorded(
        getattr(importlib.import_module(f"trials.{module}"), cls), record, contexts, case.recorder
    )
    hparams = {"global_batch_size": 4, **case.hparams}
    arguments: dict[str, Any] = {
        "hparams": hparams,
        "aggregation_frequency": case.aggregation,
        "enable_tensorboard_logging": case.tensorboard,
    }
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        wait_for(PORTS)
        arguments["distributed"] = core.DistributedContext.from_torch_distributed()
    with pytorch.init(**arguments) as context:
        contexts.append(context)
        found["context"] = context
        record.watch_reports(context._core.train)
        seed_everything(17)
        found["trial"] = trial = trial_cls(context)
        for _ in range(case.fits):
            pytorch.Trainer(trial, context).fit(**fit_arguments(case))


def wait_for(ports: list[int]) -> None:
    """Return when nobody listens on the ports of the chief, which all ranks are on the way to."""
    deadline = time.monotonic() + SECONDS_PER_CASE / 2
    while os.environ["RANK"] == "0" and time.monotonic() < deadline:
        try:
            for port in ports:
                with socket.socket() as sock:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    sock.bind(("", port))
            return
        except OSError:
            time.sleep(0.05)


def fit_arguments(case: Case) -> dict[str, Any]:
    def unit(value: Any) -> Any:
        return getattr(pytorch, value[0])(value[1]) if isinstance(value, tuple) else value

    return {name: unit(value) for name, value in case.fit_arguments().items()}


def enter_folder(case: Case) -> None:
    """Work where no other case has: a checkpoint has a copy of the sources in the folder."""
    folder = WORKING / case.name
    folder.mkdir(exist_ok=True)
    os.chdir(folder)


def dump(case: Case, out: Path) -> str:
    """Run the case and write its dump; returns a line for the table."""
    record, found, error = Record(), {}, None
    start = time.monotonic()
    enter_folder(case)
    try:
        run(case, record, found)
    except BaseException as e:  # some of Determined's errors are no Exceptions
        error = e
    result = {
        "case": dataclasses.asdict(case),
        "error": error_of(error),
        **state_of(found.get("context"), found.get("trial"), record),
    }
    rank = os.environ.get("RANK", "0")
    partial = out / f"{case.name}.{rank}.partial"
    torch.save(result, partial)
    partial.rename(out / f"{case.name}.{rank}.pt")
    seconds = time.monotonic() - start
    counts = f"{len(record.batches)} batches, {len(record.calls)} calls"
    told = traceback.format_exception_only(error)[-1].strip() if error else "ok"
    return f"{case.name:45} rank {rank} {seconds:5.1f}s {counts:24} {told[:150]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    logging.basicConfig(level=os.environ.get("PARITY_LOG_LEVEL", "ERROR"))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    for case in CASES:
        if world in case.ranks and (not options.cases or case.name in options.cases):
            faulthandler.dump_traceback_later(SECONDS_PER_CASE, exit=True)
            line = dump(case, options.out)
            faulthandler.cancel_dump_traceback_later()
            print(line, file=sys.stderr, flush=True)
            if world > 1:
                dist.barrier()
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

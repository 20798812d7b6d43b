"""Runs trainings in processes of their own, which wait for their turn."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.stopwatch import STARTED, Mark

ROOT = Path(__file__).resolve().parents[1]


class TrainingProcess:
    """A process that has imported what a contender needs, and trains when it is asked to.

    Args:
        contender: a name of ``contenders.CONTENDERS``.
        ranks: how many processes train together.
        folder: where it may write.
    """

    def __init__(self, contender: str, ranks: int, folder: Path) -> None:
        self._contender = contender
        python = [sys.executable]
        if ranks > 1:
            python += ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}"]
            python += [f"--master_port={_free_port()}"]
        self._errors = (folder / "stderr.txt").open("w+")
        self._process = subprocess.Popen(
            [*python, "-m", "benchmarks.measure", contender],
            cwd=folder,
            env=_environment(folder, ranks),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def train(self, workload: str, **changes: Any) -> dict[str, float]:
        """Train ``workload``, with some of its fields changed.

        Returns ``batches_per_second``, ``cpu_seconds_per_batch``, ``bytes_sent_per_batch`` and
        ``bytes_written_per_batch`` of all ranks together, ``seconds_to_first_batch`` since the
        process was started, and ``peak_mib``, both of interest for the first training of a process.

        Raises:
            RuntimeError: the training failed.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps([workload, changes]) + "\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("RESULT "):
                found: dict[str, float] = json.loads(line.removeprefix("RESULT "))
                return found
        self._errors.seek(0)
        raise RuntimeError(f"{self._contender} failed:\n{self._errors.read()[-3000:]}")

    def end(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=120)
        self._errors.close()


@contextlib.contextmanager
def training_process(contender: str, ranks: int = 1) -> Iterator[TrainingProcess]:
    """A TrainingProcess that ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        # Determined copies the working directory into its checkpoints.
        (working := Path(folder, "working")).mkdir()
        process = TrainingProcess(contender, ranks, working)
        try:
            yield process
        finally:
            process.end()


def _environment(folder: Path, ranks: int) -> dict[str, str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "XDG_DATA_HOME": str(folder.parent),
        "OMP_NUM_THREADS": "1",
        STARTED: str(time.time()),
    }
    if ranks > 1:
        environment["USE_TORCH_DISTRIBUTED"] = "1"
        for number in (1, 2):
            environment[f"INTER_TRAIN_PROCESS_COMM_PORT_{number}"] = str(_free_port())
    return environment


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("", 0))
        port: int = sock.getsockname()[1]
    return port


def main(contender: str) -> None:
    """Train what each line of the standard input asks for, and write a line for it."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    from benchmarks.contenders import run
    from benchmarks.growth import workload_of
    from benchmarks.saving import SAVING
    from benchmarks.workloads import WORKLOADS

    for name, changes in _requests():
        known = {**WORKLOADS, **SAVING}
        workload = known[name] if name in known else workload_of(name)
        stopwatch = run(contender, dataclasses.replace(workload, **changes))
        cost = _over_ranks(stopwatch.per_batch())
        result = {
            "batches_per_second": 1 / cost.wall,
            "cpu_seconds_per_batch": cost.cpu,
            "bytes_sent_per_batch": cost.sent,
            "bytes_written_per_batch": cost.written,
            "seconds_to_first_batch": stopwatch.seconds_to_first_batch,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        if os.environ.get("RANK", "0") == "0":
            print("RESULT", json.dumps(result), flush=True)


def _over_ranks(cost: Mark) -> Mark:
    """The processor time and the bytes of all ranks, in the time that this one took."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return cost
    import torch.distributed as dist

    costs: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(costs, tuple(cost))
    return Mark(cost.wall, *map(sum, list(zip(*costs, strict=True))[1:]))


def _requests() -> Iterator[tuple[str, dict[str, Any]]]:
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield from map(json.loads, sys.stdin)
        return
    # torchrun gives all ranks the same standard input, so one of them reads it.
    import torch.distributed as dist

    dist.init_process_group("gloo")
    while True:
        received = [sys.stdin.readline() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(received)
        if not received[0]:
            return
        yield json.loads(received[0])


if __name__ == "__main__":
    main(sys.argv[1])

"""Runs a driver in a process, or two, of its own.

``python -m tests.parity.runner SIDE RANKS OUT CASE...`` keeps the dumps in a folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.preloaded import executable
from tests.torchrun import free_port

HERE = Path(__file__).parent
# Who trains: the real Determined, `det-compat run`, or a script with to_lightning and pl.Trainer.
SIDES = ("determined", "det_compat", "lightning")


def run_driver(side: str, ranks: int, out: Path, names: list[str]) -> list[str]:
    """Run the cases ``names``; what they dump is in ``out``, with the output in ``log.txt``.

    Returns the cases that left no dump: they took too long, or took the process with them.
    """
    out.mkdir(parents=True, exist_ok=True)
    left, lost = list(names), []
    while left:
        _launch(side, ranks, out, left)
        done = [name for name in left if (out / f"{name}.{ranks - 1}.pt").exists()]
        left = [name for name in left if name not in done]
        if left:  # the first one without a dump is where the process ended
            lost.append(left.pop(0))
    return lost


def command(side: str, ranks: int) -> list[str]:
    """How a script is started on this side, without the script."""
    python = executable("determined" if side == "determined" else "det_compat")
    if side == "lightning":
        return [python]
    torchrun = []
    if ranks > 1:
        torchrun = [python, "-m", "torch.distributed.run", "--nproc_per_node", str(ranks)]
        torchrun += ["--master_port", str(free_port()), "--no-python"]
        if side == "determined":  # a fork of it has crashed on two ranks
            python = sys.executable
    return [*torchrun, python, *([] if side == "determined" else ["-m", "det_compat", "run"])]


def environment(side: str, ranks: int, home: Path) -> dict[str, str]:
    """The environment of a run whose checkpoints stay in ``home``."""
    env = {**os.environ, "XDG_DATA_HOME": str(home), "OMP_NUM_THREADS": "1"}
    env["PYTHONWARNINGS"] = "ignore"
    if env.get("PARITY_DEVICE") != "cuda":  # tests/gpu compares on a GPU
        env["CUDA_VISIBLE_DEVICES"] = ""
    if side == "determined" and ranks > 1:
        env["USE_TORCH_DISTRIBUTED"] = "1"
        for number in (1, 2):
            env[f"INTER_TRAIN_PROCESS_COMM_PORT_{number}"] = str(free_port())
    return env


def _launch(side: str, ranks: int, out: Path, names: list[str]) -> None:
    script = [str(HERE / "driver.py")]
    if side == "lightning":
        script = [str(HERE / "lightning_driver.py"), "--devices", str(ranks)]
    # Determined copies the working directory into its checkpoints.
    with tempfile.TemporaryDirectory() as home, (out / "log.txt").open("a") as log:
        cwd = Path(home) / "cwd"
        cwd.mkdir()
        subprocess.run(
            [*command(side, ranks), *script, str(out), *names],
            cwd=cwd,
            env=environment(side, ranks, Path(home)),
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )


if __name__ == "__main__":
    side, ranks, out, *names = sys.argv[1:]
    sys.path.insert(0, str(HERE))
    from cases import CASES

    chosen = names or [case.name for case in CASES if int(ranks) in case.ranks]
    print("no dump:", run_driver(side, int(ranks), Path(out).absolute(), chosen))

"""What it costs to start: whole scripts of 200 batches of one layer, as their users start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

SCRIPTS = Path(__file__).with_name("scripts")

_DET_COMPAT = [sys.executable, "-m", "det_compat"]
#: The command that each contender is started by, in a folder that holds the scripts.
COMMANDS: dict[str, Sequence[str]] = {
    "plain PyTorch": [sys.executable, "plain.py"],
    "Lightning": [sys.executable, "lightning_module.py"],
    "determined 0.38.1": [sys.executable, "trial.py"],
    "det-compat run": [*_DET_COMPAT, "run", "trial.py"],
    "det-compat fit": [*_DET_COMPAT, "fit", "experiment.yaml"],
    "det-compat fit --help": [*_DET_COMPAT, "fit", "--help"],
}

#: What is imported alone, in a process of its own.
IMPORTS = {
    name: [sys.executable, "-c", statement]
    for name, statement in {
        "nothing": "pass",
        "det_compat": "import det_compat",
        "torch": "import torch",
        "torch and an optimizer": "import torch; torch.optim.SGD([torch.zeros(1)], lr=1)",
        "det_compat.pytorch": "import det_compat.pytorch",
        "determined.pytorch": "import determined.pytorch",
        "torchmetrics": "import torchmetrics",
        "pytorch_lightning": "import pytorch_lightning",
        "det_compat.to_lightning": "from det_compat import to_lightning",
    }.items()
}


class Cost(NamedTuple):
    """What a process took.

    Attributes:
        wall: seconds from its start to its end.
        cpu: seconds of processor time, its own and the system's for it.
        peak_mib: its peak memory.
    """

    wall: float
    cpu: float
    peak_mib: float


def measure_starts(alternations: int) -> dict[str, dict[str, list[float]]]:
    """Seconds, processor seconds and memory of whole scripts, and of imports, in turn."""
    scripts, imports = _measured(COMMANDS, alternations), _measured(IMPORTS, alternations)
    return {
        "script, seconds": {name: [cost.wall for cost in found] for name, found in scripts.items()},
        "script, CPU seconds": {
            name: [cost.cpu for cost in found] for name, found in scripts.items()
        },
        "script, peak MiB": {
            name: [cost.peak_mib for cost in found] for name, found in scripts.items()
        },
        "import, CPU ms": {
            name: [cost.cpu * 1000 for cost in found] for name, found in imports.items()
        },
    }


def _measured(commands: Mapping[str, Sequence[str]], alternations: int) -> dict[str, list[Cost]]:
    found: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(alternations):
        for name, command in commands.items():
            found[name].append(cost_of(command))
    return found


def cost_of(command: Sequence[str], statuses: Sequence[int] = (0,)) -> Cost:
    """Run ``command`` in a new folder with the scripts in it, and say what it took.

    Raises:
        RuntimeError: its status is none of ``statuses``.
    """
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        work.mkdir()
        for script in SCRIPTS.iterdir():
            if script.is_file():
                (work / script.name).write_bytes(script.read_bytes())
        environment = {
            **os.environ,
            "HOME": folder,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(SCRIPTS.parents[1]),
            "XDG_DATA_HOME": str(Path(folder, "data")),
        }
        with Path(folder, "output.txt").open("w+") as output:
            started = perf_counter()
            process = subprocess.Popen(
                command, cwd=work, env=environment, stdout=output, stderr=output
            )
            _, status, usage = os.wait4(process.pid, 0)
            wall = perf_counter() - started
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode not in statuses:
                output.seek(0)
                raise RuntimeError(f"{' '.join(command)} failed:\n{output.read()[-3000:]}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def in_small_process(module: str, *args: str) -> Any:
    """What ``module`` measures: a process begins with the peak memory of the one that starts it."""
    output = subprocess.run(
        [sys.executable, "-m", module, *args],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS.parents[1])},
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    return json.loads(output)


if __name__ == "__main__":
    print(json.dumps(measure_starts(int(sys.argv[1]))))

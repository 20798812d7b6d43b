from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from det_compat.experiment.errors import FitError
from det_compat.experiment.request import Request
from det_compat.experiment.script import run_script, script_command
from tests.config.samples import parsed

RUN = [sys.executable, "-m", "det_compat", "run"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
LAUNCHER = "python3 -m determined.launch"


def _command(entrypoint: Any, slots: int = 2) -> list[str]:
    found = parsed(entrypoint=entrypoint).entrypoint
    assert found is not None
    return script_command(found, slots)


@pytest.mark.parametrize(
    ("entrypoint", "command"),
    [
        ("python3 train.py --epochs 1", [*RUN, "train.py", "--epochs", "1"]),
        (["python", "-m", "pkg.train", "a b"], [*RUN, "-m", "pkg.train", "a b"]),
        (
            "python3.9 -u -W ignore train.py",
            [sys.executable, "-u", "-W", "ignore", *RUN[1:], "train.py"],
        ),
        (["python3", "-c", "1"], [sys.executable, "-c", "1"]),
        ("./train.sh 1", ["./train.sh", "1"]),
        ("cd x && python3 train.py", ["sh", "-c", "cd x && python3 train.py"]),
        (
            f"{LAUNCHER}.torch_distributed python3 train.py",
            [*TORCHRUN, "--nproc_per_node=2", "--no-python", *RUN, "train.py"],
        ),
        (
            f"{LAUNCHER}.torch_distributed --nproc-per-node 3 -- python3 train.py",
            [*TORCHRUN, "--nproc-per-node", "3", "--no-python", *RUN, "train.py"],
        ),
        (
            f"{LAUNCHER}.horovod --fusion-threshold-mb 1 -- python3 train.py",
            [*TORCHRUN, "--nproc_per_node=2", "--no-python", *RUN, "train.py"],
        ),
    ],
)
def test_command(entrypoint: Any, command: list[str]) -> None:
    assert _command(entrypoint) == command


def test_deepspeed_is_refused() -> None:
    with pytest.raises(FitError, match="deepspeed is not supported"):
        _command(f"{LAUNCHER}.deepspeed python3 train.py")


def test_processes_of_a_launcher_do_not_each_start_the_script(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variables = {"TORCHELASTIC_RUN_ID": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "2"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    request = Request("fit", "c.yaml", Path(), None, resume=False, options=())
    with pytest.raises(FitError, match=r"every process of torchrun.*_distributed python3 x\.py"):
        run_script(request, parsed(entrypoint="python3 x.py"))

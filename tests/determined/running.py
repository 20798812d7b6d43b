"""Runs a part of Determined's tests in a process of its own, and reads how each ended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PLUGINS = Path(__file__).with_name("plugins")
ROOT = Path(__file__).parents[2]

#: The parts, each with the files and folders below ``harness/tests`` that it is made of. The others
#: are tests of the command line, of the client of a cluster, and of Keras.
PARTS = {
    "pytorch": ("experiment/pytorch",),
    "batch processing": ("determined/pytorch/experimental",),
    "transformers": ("experiment/transformers",),
    "core": ("core",),
    "storage": ("storage",),
    "tensorboard": ("tensorboard",),
    "launch": ("launch",),
    "util": ("test_util.py", "experiment/test_utils.py", "common/test_yaml.py"),
    "ipc": ("test_ipc.py",),
}
_SECONDS = 1200


@dataclass(frozen=True)
class Outcome:
    """How a test ended: ``passed``, ``failed`` or ``skipped``, and the first line of why."""

    result: str
    why: str


def workplace(source: Path, folder: Path) -> Path:
    """Copy the tests and examples of a checkout to ``folder``, without Determined's own code.

    Raises:
        FileNotFoundError: ``source`` is no checkout of Determined's repository.
    """
    tests = source / "harness" / "tests"
    if not (tests / "conftest.py").is_file():
        raise FileNotFoundError(f"{source} has no harness/tests: it is no checkout of Determined's")
    shutil.copytree(tests, folder / "harness" / "tests", ignore=_no_caches)
    if (source / "examples").is_dir():
        shutil.copytree(source / "examples", folder / "examples", ignore=_no_caches)
    return folder / "harness"


_no_caches = shutil.ignore_patterns("__pycache__")


def run(harness: Path, paths: tuple[str, ...], *, aliases: bool, log: Path) -> dict[str, Outcome]:
    """Run the tests at ``paths`` below ``harness/tests``; how each ended, by its node id.

    Args:
        harness: what ``workplace`` made.
        paths: files and folders.
        aliases: whether ``import determined`` finds det_compat.
        log: a file for what pytest prints.
    """
    outcomes = log.with_suffix(".jsonl")
    outcomes.unlink(missing_ok=True)
    found = [f"tests/{path}" for path in paths if (harness / "tests" / path).exists()]
    if not found:
        return {}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "det_compat_outcomes"]
    command += ["-p", "no:cacheprovider", "-p", "no:randomly", "-c", os.devnull]
    command += [
        "--rootdir",
        str(harness),
        "--timeout",
        "25",
        "--continue-on-collection-errors",
        *found,
    ]
    # Checkpoints of Determined hold what torch has refused to load since 2.6.
    environment = {
        **os.environ,
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(
            [str(PLUGINS), str(harness), str(ROOT), os.environ.get("PYTHONPATH", "")]
        ),
        "DET_COMPAT_OUTCOMES": str(outcomes),
        "DET_COMPAT_ALIASES": "1" if aliases else "0",
        "DET_COMPAT_CONTROLLER": "1" if paths == PARTS["pytorch"] else "0",
    }
    with open(log, "w", encoding="utf-8") as file:
        try:
            subprocess.run(
                command,
                cwd=harness,
                env=environment,
                stdout=file,
                stderr=file,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            file.write(f"\nstopped after {_SECONDS} seconds\n")
    return read(outcomes)


def read(file: Path) -> dict[str, Outcome]:
    """What the plugin noted; of a test that failed after it had passed, the failure."""
    found: dict[str, Outcome] = {}
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    for test, result, why in map(json.loads, lines):
        if test not in found or result == "failed":
            found[test.removeprefix("tests/")] = Outcome(result, why)
    return found

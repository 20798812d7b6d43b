"""Runs a part of Determined's tests in a process of its own, and reads how each ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

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
    "launch": ("launch", "test_horovod.py"),
    "util": ("test_util.py", "experiment/test_utils.py", "common/test_yaml.py"),
    "ipc": ("test_ipc.py",),
}
# A rank whose partner has failed waits for ever, under both: the others of the file are to run.
_SECONDS_OF_A_TEST = 60
_SECONDS_OF_A_FILE = 600


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

    Each file has a process of its own, which is ended with all that it has started when its time is
    over: what ranks leave behind that wait for one another meets no other file's.

    Args:
        harness: what ``workplace`` made.
        paths: files and folders.
        aliases: whether ``import determined`` finds det_compat.
        log: a file for what pytest prints.
    """
    outcomes = log.with_suffix(".jsonl")
    outcomes.unlink(missing_ok=True)
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
    with open(log, "w", encoding="utf-8") as output:
        for file in _files(harness / "tests", paths):
            command = [*_PYTEST, "--rootdir", str(harness), str(file.relative_to(harness))]
            _end_in_time(command, harness, environment, output)
    return read(outcomes)


_PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "det_compat_outcomes"]
_PYTEST += ["-p", "no:cacheprovider", "-p", "no:randomly", "-c", os.devnull]
_PYTEST += ["--timeout", str(_SECONDS_OF_A_TEST)]


def _files(tests: Path, paths: tuple[str, ...]) -> Iterator[Path]:
    for path in paths:
        is_file = path.endswith(".py") and (tests / path).exists()
        yield from [tests / path] if is_file else sorted((tests / path).rglob("test_*.py"))


def _end_in_time(
    command: list[str], folder: Path, environment: dict[str, str], output: TextIO
) -> None:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        process.wait(_SECONDS_OF_A_FILE)
    except subprocess.TimeoutExpired:
        output.write(f"\nstopped after {_SECONDS_OF_A_FILE} seconds: {command[-1]}\n")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def read(file: Path) -> dict[str, Outcome]:
    """What the plugin noted; of a test that failed after it had passed, the failure."""
    found: dict[str, Outcome] = {}
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    for test, result, why in map(json.loads, lines):
        if test not in found or result == "failed":
            found[test.removeprefix("tests/")] = Outcome(result, why)
    return found

"""Trains a trial on det_compat and its migrated module on Lightning, and compares the weights."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from det_compat.config.shims import seeded

#: The files in the folder of a pair say what to train, what the original did, and what came out.
PAIR, RECORDING, VERDICT = "pair.json", "recording.pt", "verdict.json"
#: Where there is a difference, the original is trained again, in this folder within the pair's.
AGAIN = "again"

_STDERR = 2


@dataclass(frozen=True)
class Verdict:
    """What came out of a comparison.

    Attributes:
        batches: how many both trained.
        difference: the first difference that was found; ``""`` if there is none.
        imports: whether the migrated file could be imported without Determined and det_compat.
        original_error, migrated_error: what kept one of them from training.
        unrepeated: why the original is no measure: what it does otherwise when it trains again, or
            what only a script makes it with; ``""`` if it is one.
        uncompared: the metrics that the original reports otherwise when it trains again.
    """

    batches: int = 0
    difference: str = ""
    imports: bool = False
    original_error: str = ""
    migrated_error: str = ""
    unrepeated: str = ""
    uncompared: Sequence[str] = ()

    @property
    def is_identical(self) -> bool:
        """Whether every tensor is the same after every batch, and so is all else."""
        failed = self.difference or self.original_error or self.migrated_error or self.unrepeated
        return not failed and self.batches > 0

    @property
    def trains(self) -> bool:
        """Whether the migrated module trained, be it to other weights."""
        return not self.original_error and not self.migrated_error

    def __str__(self) -> str:
        if self.original_error:
            return f"cannot compare: the original failed: {self.original_error}"
        if self.migrated_error:
            return f"different: the migrated module failed: {self.migrated_error}"
        if self.unrepeated:
            return f"cannot compare: {self.unrepeated}"
        if self.difference:
            return f"different: {self.difference}"
        if not self.batches:
            return "cannot compare: the original trained no batch"
        return f"identical: {self.what_is_same}"

    @property
    def what_is_same(self) -> str:
        """What is the same in an identical pair, in words."""
        left_out = f"; not compared: {', '.join(self.uncompared)}" if self.uncompared else ""
        return f"{self.batches} batches, every tensor bit for bit{left_out}"


@dataclass(frozen=True)
class Pair:
    """A trial and its migrated module, each as file and class name, and their arguments."""

    old: tuple[Path, str]
    new: tuple[Path, str]
    hparams: dict[str, Any] = field(default_factory=dict)
    exp_conf: dict[str, Any] | None = None


def verify(pair: Pair, *, batches: int = 100, seed: int = 0) -> Verdict:
    """Compare a migrated module with the trial that it was.

    Each side runs in a process of its own: the original with ``determined`` aliased, the migrated
    module where neither Determined nor det_compat can be imported, under a Trainer whose flags say
    how long to train and nothing of how: it checks validation first, and saves checkpoints. Both
    start from the same seed.
    The module gets the batches of the original and the random state that it had when each began.

    What is compared: every parameter and buffer of the wrapped models, bit for bit, before the
    first batch and after every batch; the batches of the module's own loader in the first epoch;
    the metrics of each batch, and of validations after each epoch and at the end, to 5 digits.
    Where something differs, the original is trained again, and what it does not repeat itself,
    such as the seconds that a batch took, is left out.
    """
    return verify_all([pair], batches=batches, seed=seed, package=_package(pair.new[0]))[0]


def _package(path: Path) -> str | None:
    """The package that a file has Lightning from; None if it does not say."""
    found = {*re.findall(_IMPORT, path.read_text(errors="replace"), re.MULTILINE)}
    return found.pop() if len(found) == 1 else None


_IMPORT = r"^\s*(?:import|from)\s+(pytorch_lightning|lightning)\b"


def verify_all(
    pairs: Sequence[Pair], *, batches: int = 100, seed: int = 0, package: str | None = None
) -> list[Verdict]:
    """As ``verify``, for several pairs in the same two processes.

    ``package`` is the one that both have Lightning from; None for the one that is installed.
    """
    with tempfile.TemporaryDirectory(prefix="det-compat-verify-") as folder:
        homes = [Path(folder, str(number)) for number in range(len(pairs))]
        for home, pair in zip(homes, pairs, strict=True):
            home.mkdir()
            (home / PAIR).write_text(json.dumps(_specification(pair, batches, seed)))
        recorded = _run("recording", homes, package)
        compared = _run(
            "comparison", [home for home in homes if (home / RECORDING).exists()], package
        )
        verdicts = [_verdict(home, recorded, compared) for home in homes]
        both = [*zip(homes, verdicts, strict=True)]
        _record_again(
            [home for home, each in both if each.difference or each.migrated_error], package
        )
        different = [home for home, each in both if each.difference]
        repeated = [home for home in different if (home / AGAIN / RECORDING).exists()]
        if repeated:
            compared = _run("comparison", repeated, package)
        return [_verdict(home, recorded, compared) for home in homes]


def _record_again(homes: Sequence[Path], package: str | None) -> None:
    """Train originals once more: what they do not repeat is no difference that migration made."""
    for home in homes:
        (home / AGAIN).mkdir()
        (home / AGAIN / PAIR).write_text((home / PAIR).read_text())
    if homes:
        _run("recording", [home / AGAIN for home in homes], package)


def _specification(pair: Pair, batches: int, seed: int) -> dict[str, Any]:
    return {
        "old": (str(pair.old[0].resolve()), pair.old[1]),
        "new": (str(pair.new[0].resolve()), pair.new[1]),
        "arguments": {
            "hparams": pair.hparams,
            "exp_conf": pair.exp_conf and seeded(pair.exp_conf, seed),
        },
        "batches": batches,
        "seed": seed,
    }


def _run(half: str, homes: Sequence[Path], package: str | None) -> str:
    """Run one half in a process of its own; returns how it ended."""
    command = [sys.executable, "-m", f"det_compat.adapters.verify.{half}", *map(str, homes)]
    # Sets of strings have one order in both halves.
    environment = {"PYTHONHASHSEED": "0", **os.environ, "PYTHONWARNINGS": "ignore"}
    if package is not None:
        environment["DET_COMPAT_LIGHTNING"] = package
    # The process prints to standard error: only the verdict goes to standard output.
    done = subprocess.run(command, stdout=_STDERR, env=environment, check=False)
    return f"the process ended with status {done.returncode}"


def _verdict(home: Path, recorded: str, compared: str) -> Verdict:
    if (home / AGAIN / VERDICT).exists():
        # Files that it has left behind, for one, can make the difference.
        error = Verdict(**json.loads((home / AGAIN / VERDICT).read_text())).original_error
        return Verdict(unrepeated=f"the original fails where it has trained before: {error}")
    if (home / VERDICT).exists():
        return Verdict(**json.loads((home / VERDICT).read_text()))
    if (home / RECORDING).exists():
        return Verdict(migrated_error=compared)
    return Verdict(original_error=recorded)

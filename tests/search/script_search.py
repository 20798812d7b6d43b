"""A search of one trial that is a script, without Ray."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from det_compat.config.lengths import Length
from det_compat.search.records import Report, TrialRecord
from det_compat.search.script_trial import train_one
from tests.fresh_python import environment
from tests.preloaded import executable


class ScriptSearch:
    """Has ``train.py`` of a folder train, and takes its reports.

    Args:
        folder: the folder.
        monkeypatch: sets the environment of the script.
        validate_at: where the search wants validations.
        hparams: the hyperparameters, unless ``train`` is told others.
    """

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        validate_at: Sequence[Length],
        **hparams: Any,
    ) -> None:
        monkeypatch.setattr(sys, "executable", executable())
        for name, value in environment().items():
            monkeypatch.setenv(name, value)
        self._folder = folder
        self._run = folder / "run"
        self._run.mkdir()
        self._validate_at = validate_at
        self._hparams = hparams
        self.record = TrialRecord(self._run)

    def train(
        self, resume_from: str | None = None, stop_at: int | None = None, **hparams: Any
    ) -> list[Report]:
        """Train until the end, or ``stop_at`` batches; returns what was reported since."""
        reports: list[Report] = []

        def report(batches: int, metrics: dict[str, Any], checkpoint: str | None) -> None:
            reports.append(Report(batches, 0, metrics["error"], metrics, checkpoint))
            self.record.append(reports[-1])
            if batches == stop_at:
                raise SystemExit

        given = {**self._hparams, **hparams}
        config = {
            "entrypoint": "python3 train.py",
            "hyperparameters": {name: {"type": "const", "val": v} for name, v in given.items()},
            "searcher": {"name": "single", "metric": "error", "max_length": {"epochs": 4}},
            "reproducibility": {"experiment_seed": 5},
        }
        where = {"model_dir": self._folder, "validate_at": self._validate_at}
        with contextlib.nullcontext() if stop_at is None else pytest.raises(SystemExit):
            train_one(config, self._run, report, resume_from, **where)
        return reports

"""The experiment config beside a trial."""

from __future__ import annotations

from pathlib import Path

from det_compat.config import ConfigError, ExperimentConfig, read_config
from det_compat.config.entrypoint import Entrypoint


def config_of(path: Path, name: str) -> ExperimentConfig | None:
    """The config of the trial class ``name`` in the file ``path``; ``const.yaml`` wins.

    That is one whose entrypoint is the class, or the file as a script.
    """
    found = []
    for candidate in sorted([*path.parent.glob("*.yaml"), *path.parent.glob("*.yml")]):
        try:
            config = read_config(candidate)
        except (ConfigError, OSError):
            continue
        if config.entrypoint is not None and _starts(config.entrypoint, path, name):
            found.append((not candidate.stem.startswith("const"), str(candidate), config))
    return min(found, key=lambda entry: entry[:2])[2] if found else None


def _starts(entrypoint: Entrypoint, path: Path, name: str) -> bool:
    """Whether an entrypoint is the trial, or a script in its file."""
    if entrypoint.trial is not None:
        return entrypoint.trial.rpartition(":")[2].rpartition(".")[2] == name
    return any(path.name in word.split() for word in entrypoint.argv)

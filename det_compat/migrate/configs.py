"""The experiment config beside a trial."""

from __future__ import annotations

from pathlib import Path

from det_compat.config import ConfigError, ExperimentConfig, read_config


def config_of(path: Path, name: str) -> ExperimentConfig | None:
    """The config of the trial class ``name`` in the file ``path``; ``const.yaml`` wins."""
    found = []
    for candidate in sorted([*path.parent.glob("*.yaml"), *path.parent.glob("*.yml")]):
        try:
            config = read_config(candidate)
        except (ConfigError, OSError):
            continue
        trial = config.entrypoint.trial if config.entrypoint is not None else None
        if trial is not None and trial.rpartition(":")[2].rpartition(".")[2] == name:
            found.append((not candidate.stem.startswith("const"), str(candidate), config))
    return min(found, key=lambda entry: entry[:2])[2] if found else None

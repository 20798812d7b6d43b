"""What a trial gets from an experiment config: the one that is given, or the one beside it."""

from pathlib import Path
from typing import Any

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


def trial_arguments(
    hparams: dict[str, Any] | None, config: str | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The hyperparameters and the experiment config that a trial gets; ``hparams`` win.

    Raises:
        ConfigError: the config is not valid.
    """
    if config is None:
        return hparams or {}, None
    found = read_config(config)
    return {**found.hyperparameters.constants(), **(hparams or {})}, found.raw

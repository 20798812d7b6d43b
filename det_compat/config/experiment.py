"""An experiment config of any version, understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from det_compat.config.entrypoint import Entrypoint, parse_entrypoint
from det_compat.config.errors import ConfigError
from det_compat.config.hyperparameters import Hyperparameters, batch_size, parse_hyperparameters
from det_compat.config.keys.table import Fate, keys
from det_compat.config.keys.validation import validate
from det_compat.config.lengths import Length, Unit
from det_compat.config.loading import Document, from_mapping, load
from det_compat.config.problems import Problems
from det_compat.config.schedule import Periods, Schedule, batches_per_step, parse_periods
from det_compat.config.searcher import Searcher, parse_searcher
from det_compat.config.settings import (
    Environment,
    Optimizations,
    Profiling,
    check_settings,
    parse_environment,
    parse_optimizations,
    parse_profiling,
    section,
)
from det_compat.config.shims import as_on_cluster
from det_compat.config.storage import CheckpointStorage, parse_storage


@dataclass(frozen=True)
class ExperimentConfig:
    """An experiment config in the terms of Determined 0.38.

    Attributes:
        file: where it was read from, None if nowhere.
        given: plain types, as in the file; holds the config's secrets.
        raw: plain types, as ``context.get_experiment_config()`` returned them on a cluster; holds
            the config's secrets.
        name, description: of the run; ``name`` falls back to ``description``.
        labels, data, integrations, debug, max_restarts: as in the config.
        seed: ``reproducibility.experiment_seed``; None if Determined would have drawn one.
        slots_per_trial: devices that a trial trains on; 0 for a CPU.
        ignored: dotted keys that have no effect on one machine, each with the reason.
        refused: dotted keys that ask for what cannot be done here, each with the reason.
        notes: what a user of an older version should know.
    """

    file: str | None
    given: dict[str, Any] = field(repr=False)
    raw: dict[str, Any] = field(repr=False)
    name: str
    description: str
    labels: tuple[str, ...]
    data: dict[str, Any] = field(repr=False)
    entrypoint: Entrypoint | None
    hyperparameters: Hyperparameters = field(repr=False)
    searcher: Searcher
    periods: Periods
    optimizations: Optimizations
    slots_per_trial: int
    environment: Environment
    checkpoint_storage: CheckpointStorage
    profiling: Profiling
    seed: int | None
    max_restarts: int
    integrations: dict[str, Any] = field(repr=False)
    debug: bool
    ignored: dict[str, str] = field(repr=False)
    refused: dict[str, str]
    notes: tuple[str, ...]

    @property
    def length(self) -> Length | None:
        """How long a trial trains; None if only its script knows."""
        return self.searcher.max_length

    def schedule(self, epoch_batches: int, length: Length | None = None) -> Schedule:
        """What the trainer does when, in a run of ``length``, by default the config's own.

        Args:
            epoch_batches: batches in an epoch of the training loader.
            length: how long to train.

        Raises:
            ValueError: there is no length, or records cannot be counted without a batch size.
        """
        length = length or self.length
        if length is None:
            raise ValueError("the config gives no length: set searcher.max_length")
        return self.periods.resolve(
            length, epoch_batches=epoch_batches, global_batch_size=self.global_batch_size
        )

    @property
    def global_batch_size(self) -> int | None:
        """Records in a batch over all slots; None if it is searched or not a hyperparameter."""
        return batch_size(self.hyperparameters.constants(), self.slots_per_trial)


def read_config(path: str | Path) -> ExperimentConfig:
    """The experiment config in a YAML file.

    Raises:
        ConfigError: the file cannot be read or is not a valid config; it has all problems found.
    """
    return parse_document(load(path))


def parse_config(config: Mapping[str, Any]) -> ExperimentConfig:
    """An experiment config that has been loaded already.

    Raises:
        ConfigError: it is not a valid config; the problems have no line numbers.
    """
    return parse_document(from_mapping(config))


def parse_document(document: Document) -> ExperimentConfig:
    """The experiment config in ``document``.

    Raises:
        ConfigError: it is not a valid config.
    """
    problems = Problems(document)
    valid = validate(document, problems)
    searcher = parse_searcher(valid, batches_per_step(valid), problems)
    is_grid = searcher is not None and searcher.name == "grid"
    hyperparameters = parse_hyperparameters(valid.get("hyperparameters"), problems, is_grid=is_grid)
    entrypoint = parse_entrypoint(valid, problems)
    storage = parse_storage(valid, problems)
    environment = parse_environment(valid, problems)
    check_settings(valid, problems)
    problems.raise_if_any()
    # a config without a usable searcher has a problem
    assert searcher is not None
    periods = parse_periods(valid)
    _check_records(hyperparameters, entrypoint, searcher, periods, problems)
    problems.raise_if_any()
    return _experiment(
        document,
        valid,
        entrypoint=entrypoint,
        hyperparameters=hyperparameters,
        searcher=searcher,
        periods=periods,
        environment=environment,
        checkpoint_storage=storage,
    )


def _check_records(
    hyperparameters: Hyperparameters,
    entrypoint: Entrypoint | None,
    searcher: Searcher,
    periods: Periods,
    problems: Problems,
) -> None:
    if entrypoint is None or entrypoint.trial is None:
        # what a record is, the script knows
        return
    if {"global_batch_size", "batch_size"} & hyperparameters.space.keys():
        return
    lengths = {
        ("searcher", "max_length"): searcher.max_length,
        ("min_validation_period",): periods.validation,
        ("min_checkpoint_period",): periods.checkpoint,
    }
    for path, length in lengths.items():
        if length is not None and length.unit is Unit.RECORDS and length.value:
            expected = "the hyperparameter global_batch_size too, to count records in batches"
            problems.add(path, expected, str(length))


def _experiment(document: Document, valid: dict[str, Any], **parts: Any) -> ExperimentConfig:
    searcher: Searcher = parts["searcher"]
    seed = section(valid, "reproducibility").get("experiment_seed")
    description = valid.get("description", "")
    return ExperimentConfig(
        file=document.file,
        given=valid,
        raw=as_on_cluster(valid, searcher, parts["periods"]),
        name=valid.get("name") or description,
        description=description,
        labels=tuple(valid.get("labels", ())),
        data=valid.get("data", {}),
        optimizations=parse_optimizations(valid),
        slots_per_trial=int(section(valid, "resources").get("slots_per_trial", 1)),
        profiling=parse_profiling(valid),
        seed=None if seed is None else int(seed),
        max_restarts=int(valid.get("max_restarts", 5)),
        integrations=valid.get("integrations", valid.get("integration", {})),
        debug=valid.get("debug", False),
        ignored=_with_fate(valid, Fate.IGNORED),
        refused=_refusals(valid, searcher, parts["checkpoint_storage"]),
        notes=searcher.notes,
        **parts,
    )


def _with_fate(valid: dict[str, Any], fate: Fate) -> dict[str, str]:
    return {
        path: key.becomes
        for path, key in keys().items()
        if key.fate is fate and _has(valid, path.split("."))
    }


def _has(valid: dict[str, Any], path: list[str]) -> bool:
    value: Any = valid
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def _refusals(
    valid: dict[str, Any], searcher: Searcher, storage: CheckpointStorage
) -> dict[str, str]:
    refused = _with_fate(valid, Fate.REFUSED)
    if searcher.refusal:
        refused["searcher.name"] = searcher.refusal
    if storage.refusal:
        refused["checkpoint_storage.type"] = storage.refusal
    return refused


__all__ = ["ConfigError", "ExperimentConfig", "parse_config", "parse_document", "read_config"]

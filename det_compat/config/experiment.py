"""An experiment config of any version, understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from det_compat.config.document import Document, Problems, from_mapping, section
from det_compat.config.entrypoint import Entrypoint, parse_entrypoint
from det_compat.config.hyperparameters import Hyperparameters, batch_size, parse_hyperparameters
from det_compat.config.keys.table import SECTIONS, Fate, keys
from det_compat.config.keys.validation import validate
from det_compat.config.lengths import Length, Unit
from det_compat.config.loading import load
from det_compat.config.periods import Periods, ResolvedPeriods, batches_per_step, parse_periods
from det_compat.config.searcher import Searcher, parse_searcher
from det_compat.config.settings import (
    Environment,
    Optimizations,
    Profiling,
    check_settings,
    parse_environment,
    parse_optimizations,
    parse_profiling,
)
from det_compat.config.shims import as_on_cluster
from det_compat.config.storage import CheckpointStorage, parse_storage


@dataclass(frozen=True)
class ExperimentConfig:
    """An experiment config in the terms of Determined 0.38.

    Attributes:
        file: the file that it was read from, None if there is none.
        given: the config in plain types, as in the file; it holds the config's secrets.
        raw: the config in plain types, as ``context.get_experiment_config()`` returned it on a
            cluster; it holds the config's secrets.
        name: the run's name, or its description where it has none.
        description, labels, data, integrations, debug, max_restarts: as in the config.
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

    def schedule(self, epoch_batches: int, length: Length | None = None) -> ResolvedPeriods:
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
    given = validate(document, problems)
    searcher = parse_searcher(given, batches_per_step(given), problems)
    is_grid = searcher is not None and searcher.name == "grid"
    hyperparameters = parse_hyperparameters(given.get("hyperparameters"), problems, is_grid=is_grid)
    entrypoint = parse_entrypoint(given, problems)
    storage = parse_storage(given, problems)
    environment = parse_environment(given, problems)
    check_settings(given, problems)
    problems.raise_if_any()
    # A config without a usable searcher has a problem.
    assert searcher is not None
    periods = parse_periods(given)
    _check_records(hyperparameters, entrypoint, searcher, periods, problems)
    problems.raise_if_any()
    description = given.get("description", "")
    seed = section(given, "reproducibility").get("experiment_seed")
    return ExperimentConfig(
        file=document.file,
        given=given,
        raw=as_on_cluster(given, searcher, periods),
        name=given.get("name") or description,
        description=description,
        labels=tuple(given.get("labels", ())),
        data=given.get("data", {}),
        entrypoint=entrypoint,
        hyperparameters=hyperparameters,
        searcher=searcher,
        periods=periods,
        optimizations=parse_optimizations(given),
        slots_per_trial=int(section(given, "resources").get("slots_per_trial", 1)),
        environment=environment,
        checkpoint_storage=storage,
        profiling=parse_profiling(given),
        seed=None if seed is None else int(seed),
        max_restarts=int(given.get("max_restarts", 5)),
        integrations=given.get("integrations", given.get("integration", {})),
        debug=given.get("debug", False),
        ignored=_with_fate(given, Fate.IGNORED),
        refused=_refusals(given, searcher, storage),
        notes=searcher.notes,
    )


def _check_records(
    hyperparameters: Hyperparameters,
    entrypoint: Entrypoint | None,
    searcher: Searcher,
    periods: Periods,
    problems: Problems,
) -> None:
    if entrypoint is None or entrypoint.trial is None:
        # A script knows by itself what a record is.
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


def _with_fate(given: dict[str, Any], fate: Fate) -> dict[str, str]:
    inner = {f"{name}.{key}" for name in SECTIONS for key in given.get(name, ())}
    return {
        path: key.becomes
        for path, key in keys().items()
        if key.fate is fate and (path in given or path in inner)
    }


def _refusals(
    given: dict[str, Any], searcher: Searcher, storage: CheckpointStorage
) -> dict[str, str]:
    refused = _with_fate(given, Fate.REFUSED)
    if searcher.refusal:
        refused["searcher.name"] = searcher.refusal
    if storage.refusal:
        refused["checkpoint_storage.type"] = storage.refusal
    return refused

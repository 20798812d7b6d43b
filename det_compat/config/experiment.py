"""An experiment config of any version, understood."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from det_compat.config import loading, settings, shims
from det_compat.config.document import Document, KeyPath, Problems, dotted, from_mapping, section
from det_compat.config.entrypoint import Entrypoint, parse_entrypoint
from det_compat.config.hyperparameters import Hyperparameters, batch_size, parse_hyperparameters
from det_compat.config.keys import kinds
from det_compat.config.keys.table import SECTIONS, Fate, Key, keys
from det_compat.config.lengths import Length, Unit
from det_compat.config.periods import Periods, batches_per_step, parse_periods
from det_compat.config.searcher import Searcher, parse_searcher
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
    optimizations: settings.Optimizations
    slots_per_trial: int
    environment: settings.Environment
    checkpoint_storage: CheckpointStorage
    profiling: settings.Profiling
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

    @property
    def global_batch_size(self) -> int | None:
        """Records in a batch over all slots; None if it is searched or not a hyperparameter."""
        return batch_size(self.hyperparameters.constants(), self.slots_per_trial)


def read_config(path: str | Path) -> ExperimentConfig:
    """The experiment config in a YAML file.

    Raises:
        ConfigError: the file cannot be read or is not a valid config; it has all problems found.
    """
    return parse_document(loading.load(path))


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
    environment = settings.parse_environment(given, problems)
    settings.check_settings(given, problems)
    problems.raise_if_any()
    # A config without a usable searcher has a problem.
    assert searcher is not None
    periods = parse_periods(given)
    _check_records(hyperparameters, entrypoint, searcher, periods, problems)
    problems.raise_if_any()
    description = given.get("description", "")
    return ExperimentConfig(
        file=document.file,
        given=given,
        raw=shims.as_on_cluster(given, searcher, periods),
        name=given.get("name") or description,
        description=description,
        labels=tuple(given.get("labels", ())),
        data=given.get("data", {}),
        entrypoint=entrypoint,
        hyperparameters=hyperparameters,
        searcher=searcher,
        periods=periods,
        optimizations=settings.parse_optimizations(given),
        slots_per_trial=section(given, "resources").get("slots_per_trial", 1),
        environment=environment,
        checkpoint_storage=storage,
        profiling=settings.parse_profiling(given),
        seed=section(given, "reproducibility").get("experiment_seed"),
        max_restarts=given.get("max_restarts", 5),
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
    if entrypoint is None or entrypoint.is_command:
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
        refused[f"checkpoint_storage.{storage.refused}"] = storage.refusal
    return refused


def validate(document: Document, problems: Problems) -> dict[str, Any]:
    """Note unknown keys and values of the wrong type; the config without them is returned."""
    return _section(document.value, (), problems)


def _section(section: dict[str, Any], path: KeyPath, problems: Problems) -> dict[str, Any]:
    known = SECTIONS[dotted(path)]
    valid = {}
    for name, value in section.items():
        key = known.get(name)
        if key is None:
            advice = _advice(name, path, known)
            problems.add_key((*path, name), advice, "a key that no version knows")
        elif value is not None and _fits(value, (*path, name), key.kind, problems):
            is_section = key.kind is kinds.SECTION
            valid[name] = (
                _section(value, (*path, name), problems) if is_section else key.kind.read(value)
            )
    return valid


def _fits(value: Any, path: KeyPath, kind: kinds.Kind, problems: Problems) -> bool:
    if not kind.accepts(value):
        problems.add(path, kind.name)
        return False
    item = kind.chosen(value).item
    if item is None:
        return True
    wrong = [i for i, found in enumerate(value) if not item.accepts(found)]
    for i in wrong:
        problems.add((*path, i), item.name)
    return not wrong


def _advice(name: str, path: KeyPath, known: dict[str, Key]) -> str:
    elsewhere = [other for other in keys() if other.split(".")[-1] == name]
    if elsewhere:
        where = [other.rpartition(".")[0] or "the top level" for other in elsewhere]
        return f"it under {' or '.join(where)}"
    similar = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    if similar:
        return f"another (did you mean {similar[0]}?)"
    section = dotted(path) or "a config"
    return f"one of those of {section}: {', '.join(sorted(known))}"

"""What became of every key of a config."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from det_compat.config.document import Document, KeyPath, dotted
from det_compat.config.experiment import ExperimentConfig, parse_document
from det_compat.config.hyperparameters import Categorical, Const, Double, Int, Log
from det_compat.config.keys.kinds import SECTION
from det_compat.config.keys.table import SECTIONS, Fate
from det_compat.shared.masking import without_secrets

_LENGTH_KEYS = ("max_length", "max_steps", "target_trial_steps", "max_time")


@dataclass(frozen=True)
class Row:
    """One key of a config: its value without secrets, and what it became or why it did not."""

    key: str
    value: Any
    line: int | None
    fate: Fate
    becomes: str


def explain(document: Document) -> list[Row]:
    """A row for every key in ``document``, in its order.

    Raises:
        ConfigError: it is not a valid config.
    """
    config = parse_document(document)
    shown = without_secrets(document.value)
    return [
        Row(dotted(path), value, document.location(path, of_key=True)[0], fate, becomes)
        for path, value, fate, becomes in _rows(shown, (), config)
    ]


def _rows(
    section: dict[str, Any], path: KeyPath, config: ExperimentConfig
) -> Iterator[tuple[KeyPath, Any, Fate, str]]:
    known = SECTIONS[dotted(path)]
    for name, value in section.items():
        key, at = known[name], (*path, name)
        if value is None:
            yield at, None, Fate.IGNORED, "no value, as if it were not there"
        elif key.kind is SECTION and value:
            yield from _rows(value, at, config)
        elif at == ("hyperparameters",):
            yield from _hyperparameter_rows(value, config.hyperparameters.space, at)
        elif dotted(at) in config.refused:
            yield at, value, Fate.REFUSED, config.refused[dotted(at)]
        else:
            yield at, value, key.fate, _resolved(dotted(at), config) or key.becomes


def _resolved(path: str, config: ExperimentConfig) -> str:
    """What the value of a key amounts to, where the table cannot say it."""
    section, _, name = path.rpartition(".")
    if path == "searcher.name":
        runs = "trains once" if config.searcher.name == "single" else "run by `det-compat search`"
        return "; ".join([runs, *config.searcher.notes])
    if section == "searcher" and name in _LENGTH_KEYS and config.length:
        return f"a trial trains for {config.length}"
    if section == "searcher" and name in ("budget", "step_budget") and config.searcher.budget:
        return f"all trials together train for {config.searcher.budget}"
    if path.endswith(("validation_period", "checkpoint_period")):
        what = path.split("_")[-2]
        period = getattr(config.periods, what)
        often = f"every {period}, and at the end" if period.value else "only at the end"
        return f"{what} {often}"
    if path == "entrypoint" and config.entrypoint:
        return f"what is run: a {config.entrypoint.kind.value}"
    if path == "checkpoint_storage.type" and config.checkpoint_storage.url:
        return f"checkpoints go to {without_secrets(config.checkpoint_storage.url)}"
    return ""


def _hyperparameter_rows(
    values: dict[str, Any], space: dict[str, Any], path: KeyPath
) -> Iterator[tuple[KeyPath, Any, Fate, str]]:
    if not values:
        yield path, values, Fate.MAPPED, "no hyperparameters"
    for name, value in values.items():
        item, at = space[name], (*path, name)
        if isinstance(item, dict) and isinstance(value, dict):
            yield from _hyperparameter_rows(value, item, at)
        elif isinstance(item, dict):
            yield at, value, Fate.MAPPED, "hyperparameters that are not shown"
        else:
            yield at, value, Fate.MAPPED, _describe(item)


def _describe(item: Const | Int | Double | Log | Categorical) -> str:
    if isinstance(item, Const):
        return "constant"
    if isinstance(item, Categorical):
        return f"one of {len(item.vals)} values, chosen by `det-compat search`"
    kind = "whole number" if isinstance(item, Int) else "number"
    bounds = f"{item.minval} to {item.maxval}"
    if isinstance(item, Log):
        bounds = f"{item.base:g}^{item.minval:g} to {item.base:g}^{item.maxval:g}"
    points = f", {item.count} grid points" if item.count else ""
    return f"{kind} from {bounds}{points}, chosen by `det-compat search`"


def value_text(value: Any) -> str:
    """A value in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

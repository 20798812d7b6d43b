"""The values of an experiment config, each by one name, as a constructor takes them.

Code that reads a number or two of its config needs no more than these. ``max_epochs`` stands for
``searcher.max_length.epochs``; most names are those of the keys, joined.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]
_NAMES: dict[Path, str] = {
    ("name",): "experiment_name",
    ("searcher", "max_length", "epochs"): "max_epochs",
    ("searcher", "max_length", "batches"): "max_batches",
    ("searcher", "max_length", "records"): "max_records",
    ("searcher", "metric"): "metric",
    ("searcher", "smaller_is_better"): "smaller_is_better",
    ("resources", "slots_per_trial"): "slots_per_trial",
    ("reproducibility", "experiment_seed"): "experiment_seed",
}
PLAIN = (bool, int, float, str)
#: The types of the values that code most often reads, and of those alone where there is no config.
KNOWN: dict[str, type] = {
    "experiment_name": str,
    "description": str,
    "max_epochs": int,
    "max_batches": int,
    "max_records": int,
    "records_per_epoch": int,
    "metric": str,
    "smaller_is_better": bool,
    "slots_per_trial": int,
    "experiment_seed": int,
}


def flat_name(path: Path) -> str:
    """The name of the value of a config at a path of keys."""
    return _NAMES.get(path) or "_".join(path)


def flat_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values of a config by their names, but for hyperparameters."""
    return {flat_name(path): value for path, value in _below(config, ())}


def _below(section: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    for name, value in section.items():
        here = (*path, name)
        if isinstance(value, Mapping) and here != ("hyperparameters",):
            yield from _below(value, here)
        elif isinstance(value, PLAIN):
            yield here, value

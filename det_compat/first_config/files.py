"""The config and the script that ``det-compat init`` writes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from det_compat.first_config.hyperparameters import Reading
from det_compat.first_config.trials import FoundTrial

BATCH_SIZE = "global_batch_size"
#: The size that is written where nothing says one.
_SIZE = 32
# Words that names of metrics begin with of which more is better, whole words, and what says less.
_LARGER = (
    *("acc", "auc", "bleu", "correct", "dice", "f1", "iou", "miou", "ndcg", "precision", "psnr"),
    *("recall", "rouge", "score", "ssim", "top"),
)
_LARGER_AS_A_WORD = {"map", "mrr", "r2"}
_SMALLER = {"err", "error", "loss"}
_METRIC = "validation_loss"


def config_text(trial: FoundTrial) -> str:
    """An experiment config that trains ``trial`` for one epoch.

    Hyperparameters without a value in the code are comments to be filled in: a run says which is
    missing.
    """
    metric = trial.metrics[0] if trial.metrics else _METRIC
    larger = _larger_is_better(metric)
    others = ", ".join(trial.metrics[1:])
    note = f"  # the trial has {others}, too" if others else ""
    note = note or ("" if trial.metrics else "  # one that evaluate_batch returns")
    own = [reading for reading in trial.hparams if reading.path != (BATCH_SIZE,)]
    lines = [
        f"name: {_flow(trial.name)}",
        f"entrypoint: {_flow(trial.entrypoint)}",
        "hyperparameters:",
        f"  {BATCH_SIZE}: {_SIZE}  # records in a batch, over all devices",
        *_entries(own, ()),
        "searcher:",
        "  name: single",
        f"  metric: {_flow(metric)}{note}",
        f"  smaller_is_better: {_flow(not larger)}",
        "  max_length:",
        "    epochs: 1",
        "max_restarts: 0",
    ]
    return "\n".join(lines) + "\n"


def _larger_is_better(metric: str) -> bool:
    words = {*re.split(r"[^a-z0-9]+", metric.lower())}
    begins = any(word.startswith(_LARGER) for word in words)
    return (begins or not words.isdisjoint(_LARGER_AS_A_WORD)) and words.isdisjoint(_SMALLER)


def script_text(trial: FoundTrial, config: str) -> str:
    """A script that trains as the file ``config`` beside it says."""
    return (
        f'"""Trains {trial.name} as {config} says."""\n\n'
        "from pathlib import Path\n\n"
        "import det_compat\n\n"
        'if __name__ == "__main__":\n'
        f'    run = det_compat.fit(Path(__file__).with_name("{config}"))\n'
        "    print(run)\n"
    )


def missing(trial: FoundTrial) -> list[str]:
    """The hyperparameters that are to be filled in, by dotted name."""
    needed = [one.path for one in trial.hparams if one.path != (BATCH_SIZE,) and not _known(one)]
    # What is above another is there when that is.
    paths = [path for path in needed if not any(_is_above(path, other) for other in needed)]
    return [".".join(path) for path in paths]


def _is_above(path: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return len(path) < len(other) and other[: len(path)] == path


def _known(reading: Reading) -> bool:
    return reading.has_default and reading.default is not None


def _entries(
    found: Sequence[Reading], above: tuple[str, ...], hidden: bool = False
) -> Iterator[str]:
    """Lines for the hyperparameters in the mapping ``above``; comments if a value is missing."""
    depth = len(above)
    names = dict.fromkeys(reading.path[depth] for reading in found)
    for name in names:
        path = (*above, name)
        inner = [one for one in found if _is_above(path, one.path)]
        own = next((one for one in found if one.path == path), None)
        needed = any(not _known(one) for one in inner or found if one.path[: depth + 1] == path)
        mark = "# " if hidden or needed else ""
        indent = "  " * (depth + 1)
        start = f"  {mark}{indent[2:]}{_flow(name)}:"
        if inner:
            yield start
            yield from _entries(inner, path, hidden=bool(mark))
        elif own is not None and _known(own):
            yield f"{start} {_flow(own.default)}  # the default of {own.where}"
        elif own is not None:
            yield f"{start}  # fill in: read at {own.where}"


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=math.inf)
    return text.removesuffix("\n").removesuffix("\n...")

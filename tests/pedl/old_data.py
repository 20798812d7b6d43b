"""Loader functions in a module of their own, which the config's entrypoints name."""

from __future__ import annotations

from typing import Any

from common import Rows, UnevenBatches

import pedl
from pedl.frameworks.pytorch.data import DataLoader


def load(experiment_config: dict[str, Any], hparams: dict[str, Any]) -> Any:
    size = pedl.get_hyperparameter("batch_size")
    return (
        DataLoader(Rows(20, 1), batch_sampler=UnevenBatches(20, size)),
        DataLoader(Rows(10, 2), batch_size=size),
    )

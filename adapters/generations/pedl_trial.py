"""PEDL trials of the later form: those of Determined 0.12, without context and loader methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from det_compat.adapters.generations.determined_0_12 import Determined012
from det_compat.adapters.generations.pedl_run import PedlRun, adapter


class PedlTrial(PedlRun, Determined012):
    """A PEDL trial that trains and evaluates its batches itself."""


def in_context_api(
    trial_cls: type,
    make_data_loaders: Callable[..., Any] | None = None,
    download_data: Callable[..., Any] | None = None,
) -> type:
    """A class of the context API around a PEDL trial class."""
    return adapter(PedlTrial, trial_cls, make_data_loaders, download_data)

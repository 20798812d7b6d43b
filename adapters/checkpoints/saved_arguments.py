"""The arguments of a module as its checkpoints and loggers keep them."""

import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from det_compat.shared import masking, nested, plain_types

logger = logging.getLogger("det_compat")

_BASES: tuple[type[Any], ...] = (bool, int, float, complex, str, bytes)


def saved_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``arguments`` in plain types and without the experiment config's secrets.

    Mappings become dicts and paths strings; numbers and strings of other classes, NumPy's too,
    become Python's own. What has no such form is left out, with a warning.
    """
    kept = {}
    for name, value in arguments.items():
        given = masking.for_checkpoint(value) if name == "exp_conf" else value
        try:
            kept[name] = nested.map_nested(given, _simple, name, keys=True)
        except plain_types.NotPlainError as error:
            logger.warning(
                f"checkpoints do not keep the argument {name!r}: it holds a {error}, which is no "
                "plain data; give it to load_from_checkpoint() again"
            )
    return kept


def _simple(value: Any, where: str) -> Any:
    if value is None or isinstance(value, torch.Tensor):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.tolist()
    for base in _BASES:
        if isinstance(value, base):
            return base(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return nested.map_nested(dict(value), _simple, where, keys=True)
    raise plain_types.NotPlainError(value, where)

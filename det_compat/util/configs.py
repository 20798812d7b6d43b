"""Dicts of configs and hyperparameters."""

import copy
import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

from det_compat.errors import InvalidExperimentException
from det_compat.shared.masking import MASK

logger = logging.getLogger("determined")

_TRIAL_CLASS = re.compile("^[a-zA-Z0-9_.]+:[a-zA-Z0-9_]+$")


def merge_dicts(base_dict: dict[Any, Any], source_dict: dict[Any, Any]) -> dict[Any, Any]:
    """A new dict of both, in which ``source_dict`` goes first, dict by dict."""
    merged = copy.deepcopy(base_dict)
    for key, value in source_dict.items():
        goes_on = key in base_dict and isinstance(value, dict)
        merged[key] = merge_dicts(base_dict[key], value) if goes_on else value
    return merged


def filter_duplicates(
    in_list: list[Any], sorter: Callable[[list[Any]], Iterable[Any]] = sorted
) -> set[Any]:
    """The items that stand side by side more than once after ``sorter``."""
    found, last = set(), None
    for item in sorter(in_list):
        if last == item:
            found.add(item)
        last = item
    return found


def calculate_batch_sizes(
    hparams: dict[str, Any], slots_per_trial: int, trialname: str
) -> tuple[int, int]:
    """The batch size of a slot and of all slots, as Determined 0.38.1 rounded them.

    Args:
        hparams: hyperparameters with ``global_batch_size``, in records.
        slots_per_trial: slots of the trial; 0 counts as 1.
        trialname: the kind of trial, for errors.

    Raises:
        InvalidExperimentException: there is no ``global_batch_size``, it is no int, or it is less
            than the number of slots.
    """
    slots = max(slots_per_trial, 1)
    if "global_batch_size" not in hparams:
        raise InvalidExperimentException(
            "Please specify an integer `global_batch_size` hyperparameter in your experiment "
            f"config.  It is a required hyperparameter for {trialname}-based training."
        )
    whole = hparams["global_batch_size"]
    if not isinstance(whole, int):
        raise InvalidExperimentException(
            "The `global_batch_size` hyperparameter must be an integer value, not "
            f"{type(whole).__name__}"
        )
    if whole < slots:
        raise InvalidExperimentException(
            "Please set the `global_batch_size` hyperparameter to be greater or equal to the "
            f"number of slots. Current batch_size: {whole}, slots_per_trial: {slots}."
        )
    each = whole // slots
    if each * slots != whole:
        logger.warning(
            f"`global_batch_size` changed from {whole} to {each * slots} to divide equally across "
            f"{slots} slots."
        )
    return each, each * slots


def match_legacy_trial_class(arg: str) -> bool:
    """Whether an entrypoint is ``module:TrialClass``."""
    return _TRIAL_CLASS.match(arg) is not None


def mask_checkpoint_storage(d: dict[str, Any]) -> dict[str, Any]:
    """A copy of a ``checkpoint_storage`` with stars for its keys."""
    return {
        key: MASK if key in ("access_key", "secret_key") else value
        for key, value in copy.deepcopy(d).items()
    }


def mask_config_dict(d: dict[str, Any]) -> dict[str, Any]:
    """A copy of an experiment config with stars for the secrets that Determined 0.38.1 knew."""
    masked = copy.deepcopy(d)
    storage = masked.get("checkpoint_storage")
    if isinstance(storage, dict):
        masked["checkpoint_storage"] = mask_checkpoint_storage(storage)
    auth = _inner(masked, "environment", "registry_auth")
    if auth.get("password") is not None:
        auth["password"] = MASK
    secrets = _inner(masked, "data", "secrets")
    secrets.update(dict.fromkeys(secrets, MASK))
    return masked


def _inner(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    found: Any = config
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}

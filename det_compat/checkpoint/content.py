"""Whether a checkpoint that can be read says what a run needs to go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from det_compat.errors import InvalidCheckpointException

_STATE: dict[str, type | tuple[type, ...]] = {
    "models_state_dict": (list, tuple),
    "optimizers_state_dict": (list, tuple),
    "lr_schedulers_state_dict": (list, tuple),
    "callbacks": Mapping,
    "rng_state": Mapping,
    "scaler_state_dict": Mapping,
}
_RNG_STATE = ("cpu_rng_state", "np_rng_state", "random_rng_state")
_CONTINUATION: dict[str, type | tuple[type, ...]] = {
    "ranks": (list, tuple),
    "epoch_len": int,
    "stop_requested": bool,
}
_OPTIONAL: dict[str, type | tuple[type, ...]] = {"published": Mapping}
_RANK = (
    "random",
    "cuda_random",
    "loaders_built",
    "data",
    "validation_generators",
    "period",
    "gradients",
)


def check_content(path: object, state: Any, counters: Any, continuation: Any) -> None:
    """Check the parts of a checkpoint that ``adapters/checkpoints/resumption.py`` puts back.

    Args:
        path: the checkpoint, for the message.
        state: under the keys of Determined's ``state_dict.pth``.
        counters: under those of its ``trial_state.pkl``.
        continuation: what det_compat adds, or None.

    Raises:
        InvalidCheckpointException: something is missing or of another type.
    """
    _check_types(path, "state", state, _STATE, ())
    rng_state = state.get("rng_state")
    if rng_state is not None:
        _check_types(path, "rng_state", rng_state, dict.fromkeys(_RNG_STATE, object), _RNG_STATE)
    names = counters if isinstance(counters, Mapping) else ()
    _check_types(path, "trial state", counters, dict.fromkeys(names, int), ())
    if continuation is None:
        return
    types = {**_CONTINUATION, **_OPTIONAL}
    _check_types(path, "continuation", continuation, types, tuple(_CONTINUATION))
    for number, rank in enumerate(continuation["ranks"]):
        _check_types(path, f"continuation of rank {number}", rank, {}, _RANK)


def check_lightning_content(path: object, determined: Any) -> None:
    """Likewise, for what det_compat puts into a checkpoint of Lightning.

    Raises:
        InvalidCheckpointException: as ``check_content``.
    """
    if not isinstance(determined, Mapping):
        raise _invalid(path, "state", "a dict", determined)
    counters = determined.get("trial_state", {})
    check_content(path, determined, counters, determined.get("continuation"))


def _check_types(
    path: object,
    what: str,
    found: Any,
    types: Mapping[str, type | tuple[type, ...]],
    needs: tuple[str, ...],
) -> None:
    if not isinstance(found, Mapping):
        raise _invalid(path, what, "a dict", found)
    if missing := [name for name in needs if name not in found]:
        raise InvalidCheckpointException(
            f"{path} cannot be gone on from: its {what} has no {', '.join(missing)}, "
            f"only {', '.join(map(str, found)) or 'nothing'}"
        )
    for name, expected in types.items():
        value = found.get(name)
        if value is not None and not isinstance(value, expected):
            raise _invalid(path, f"{name} ({what})", _named(expected), value)


def _invalid(path: object, what: str, expected: str, found: Any) -> InvalidCheckpointException:
    return InvalidCheckpointException(
        f"{path} cannot be gone on from: its {what} is {type(found).__name__} {found!r:.80}; "
        f"expected {expected}"
    )


def _named(expected: type | tuple[type, ...]) -> str:
    types = expected if isinstance(expected, tuple) else (expected,)
    return " or ".join("dict" if one is Mapping else one.__name__ for one in types)

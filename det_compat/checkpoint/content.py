"""Whether a checkpoint that can be read says what a run needs to go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from det_compat.errors import InvalidCheckpointException

_Types = Mapping[str, type | tuple[type, ...]]

_LIST = (list, tuple)
_STATE: _Types = {
    "models_state_dict": _LIST,
    "optimizers_state_dict": _LIST,
    "lr_schedulers_state_dict": _LIST,
    "callbacks": Mapping,
    "rng_state": Mapping,
    "scaler_state_dict": Mapping,
}
_RNG_STATE = ("cpu_rng_state", "np_rng_state", "random_rng_state")
_CONTINUATION: _Types = {"ranks": _LIST, "epoch_len": int, "stop_requested": bool}
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
    """Check the parts of a checkpoint that a run that goes on from it puts back.

    Args:
        path: the checkpoint, for the message.
        state: has the keys of Determined's ``state_dict.pth``.
        counters: has those of its ``trial_state.pkl``.
        continuation: has what det_compat adds, or is None.

    Raises:
        InvalidCheckpointException: something is missing or of another type.
    """
    _check(path, "state", state, _STATE)
    if state.get("rng_state") is not None:
        _check(path, "rng_state", state["rng_state"], {}, _RNG_STATE)
    names = counters if isinstance(counters, Mapping) else ()
    _check(path, "trial state", counters, dict.fromkeys(names, int))
    if continuation is None:
        return
    types = {**_CONTINUATION, "published": Mapping}
    _check(path, "continuation", continuation, types, _CONTINUATION)
    for number, rank in enumerate(continuation["ranks"]):
        _check(path, f"continuation of rank {number}", rank, {}, _RANK)


def check_lightning_content(path: object, determined: Any) -> None:
    """Check likewise what det_compat puts into a checkpoint of Lightning.

    Raises:
        InvalidCheckpointException: as ``check_content``.
    """
    if not isinstance(determined, Mapping):
        raise _invalid(path, "state", "a dict", determined)
    counters = determined.get("trial_state", {})
    check_content(path, determined, counters, determined.get("continuation"))


def _check(path: object, what: str, found: Any, types: _Types, needs: Iterable[str] = ()) -> None:
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
            kinds = expected if isinstance(expected, tuple) else (expected,)
            names = ["dict" if kind is Mapping else kind.__name__ for kind in kinds]
            raise _invalid(path, f"{name} ({what})", " or ".join(names), value)


def _invalid(path: object, what: str, expected: str, found: Any) -> InvalidCheckpointException:
    return InvalidCheckpointException(
        f"{path} cannot be gone on from: its {what} is {type(found).__name__} {found!r:.80}; "
        f"expected {expected}"
    )

"""The state of a run, under the keys of Determined's ``state_dict.pth``."""

import logging
import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from det_compat.adapters.run.trial_run import TrialRun
from det_compat.checkpoint.lightning import under_names
from det_compat.checkpoint.reader import putting_back
from det_compat.pytorch.load import load_weights
from det_compat.shared.plain_types import NotPlainError, from_plain, to_plain
from det_compat.shared.random_state import random_state, set_random_state, without_array

logger = logging.getLogger("determined.pytorch")

# These keys of what is restored are no part of Determined's checkpoints.
_NOT_SEEN = ("continuation", "trial_state", "loops")

# The library whose random state is under each key of Determined's ``rng_state``.
_GENERATORS = {"cpu_rng_state": "torch", "np_rng_state": "numpy", "random_rng_state": "python"}


def state_of(run: TrialRun, callbacks: dict[str, Any] | None = None) -> dict[str, Any]:
    """Models, optimizers, schedulers, scaler, callbacks and random state, references not copies.

    ``callbacks`` is their state, if they have been asked for it already.
    """
    context = run.context
    state: dict[str, Any] = {
        **_models_and_optimizers(run),
        "lr_schedulers_state_dict": [wrapped.state_dict() for wrapped in context.lr_schedulers],
        "callbacks": run.callbacks.state_dict() if callbacks is None else callbacks,
        "rng_state": _rng_state(context.device),
    }
    if run.steering.scaler is not None:
        state["scaler_state_dict"] = run.steering.scaler.state_dict()
    return state


def give_parts(run: TrialRun) -> None:
    """Let the chief gather this rank's parts of sharded models, while it calls ``state_of``."""
    if run.steering.sharding is not None:
        _models_and_optimizers(run)


def under_names_of(models: torch.nn.ModuleList, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
    """A Lightning state dict, whether its models were in DistributedDataParallel or not."""
    named = dict(state_dict)
    for index, model in enumerate(models):
        prefix = f"models.{index}."
        state = {name: named.pop(name) for name in list(named) if name.startswith(prefix)}
        own = {name.removeprefix(prefix): value for name, value in state.items()}
        found = under_names(model.state_dict().keys(), own)
        named.update({prefix + name: value for name, value in found.items()})
    # Where nothing is renamed the mapping itself is kept: it knows versions of modules, too.
    return state_dict if named.keys() == state_dict.keys() else named


def restore_run(run: TrialRun, state: dict[str, Any], path: object = "the checkpoint") -> None:
    """Put back what ``state`` has, and what callbacks make of it in ``on_checkpoint_load_start``.

    What Lightning has restored may be missing from it; callbacks see it all the same. ``path`` is
    the checkpoint, for messages.

    Raises:
        InvalidCheckpointException: a part of it cannot be put back.
        RuntimeError, ValueError: it is of other models.
    """
    context = run.context
    own = {}
    for key, value in state.items():
        if key not in _NOT_SEEN:
            with putting_back(path, str(key)):
                own[key] = from_plain(value)
    state = {**_models_and_optimizers(run, everywhere=True), **own}
    run.callbacks.call("on_checkpoint_load_start", state)
    if "models_state_dict" in state:
        load_weights(context.models, state)
    _load_all(context.optimizers, state, "optimizers", path)
    _load_all(context.lr_schedulers, state, "lr_schedulers", path)
    scaler = run.steering.scaler
    with putting_back(path, "state of a gradient scaler"):
        scaler_state = state.get("scaler_state_dict") or _of_apex(state.get("amp_state"))
        if scaler is not None and scaler_state is not None:
            scaler.load_state_dict(scaler_state)
    if (scaler is not None) != (scaler_state is not None):
        logger.warning("only one of checkpoint and trial has a gradient scaler; it is not restored")
    if "rng_state" in state:
        with putting_back(path, "rng_state"):
            _set_rng_state(state["rng_state"], context.device)
    with putting_back(path, "callbacks"):
        run.callbacks.load_state_dict(state.get("callbacks", {}))


def _of_apex(amp_state: dict[str, Any] | None) -> dict[str, Any] | None:
    """The state of NVIDIA Apex's first loss scaler, as torch's GradScaler has it."""
    if not amp_state or "loss_scaler0" not in amp_state:
        return None
    of_apex = amp_state["loss_scaler0"]
    # Apex's factors and interval are those that GradScaler has by default.
    return {
        **torch.amp.GradScaler("cpu").state_dict(),
        "scale": float(of_apex["loss_scale"]),
        "_growth_tracker": int(of_apex["unskipped"]),
    }


def _models_and_optimizers(run: TrialRun, *, everywhere: bool = False) -> dict[str, Any]:
    context, whole = run.context, partial(run.steering.whole, everywhere=everywhere)
    return {
        "models_state_dict": [whole(model.state_dict()) for model in context.models],
        "optimizers_state_dict": [whole(one.state_dict()) for one in context.optimizers],
    }


def plain_state(state: dict[str, Any], *, array_as_list: bool = False) -> dict[str, Any]:
    """``state`` in plain types, but for what has none, which is named in a warning.

    The models' part stays as it is. ``array_as_list`` makes a list of NumPy's random state, and not
    a tensor: Determined 0.38.1 loads without an allowlist, and torch 2.6 and later then refuse it
    its own checkpoints, for the array in them.
    """
    plain = {}
    for key, value in state.items():
        if key == "rng_state":
            value = without_array(value, as_list=array_as_list)
        plain[key] = value if key == "models_state_dict" else plain_or_as_it_is(value, key)
    return plain


def plain_or_as_it_is(value: Any, key: str) -> Any:
    """``value`` in plain types, or as it is, with a warning that names ``key``."""
    try:
        return to_plain(value, key)
    except NotPlainError as error:
        logger.warning(
            f"the checkpoint holds a {error}, which is no plain data: it can only be loaded with "
            "trust=True, since loading it runs code. Let state_dict() return numbers, strings, "
            "tensors, arrays, and lists and dicts of them"
        )
        return value


def _load_all(targets: list[Any], state: dict[str, Any], what: str, path: object) -> None:
    key = f"{what}_state_dict"
    states = state.get(key)
    if states is None:
        return
    if len(states) != len(targets):
        named = what.replace("lr_", "LR ")
        raise ValueError(f"the checkpoint has {len(states)} {named}, the trial has {len(targets)}")
    for index, target in enumerate(targets):
        with putting_back(path, f"{key}[{index}]"):
            target.load_state_dict(states[index])


def _rng_state(device: torch.device) -> dict[str, Any]:
    found = random_state()
    state = {key: found[library] for key, library in _GENERATORS.items()}
    state["random_rng_state"] = random.getstate()  # as numbers, which Determined reads
    if device.type == "cuda":
        state["gpu_rng_state"] = torch.cuda.get_rng_state(device)
    return state


def _set_rng_state(state: dict[str, Any], device: torch.device) -> None:
    set_random_state({library: state[key] for key, library in _GENERATORS.items()})
    if device.type == "cuda" and "gpu_rng_state" in state:
        torch.cuda.set_rng_state(state["gpu_rng_state"], device)

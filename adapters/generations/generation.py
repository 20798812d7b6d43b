"""Which generation of trials a class belongs to, and how it is brought into the context API."""

from __future__ import annotations

import enum
import inspect
import logging
from collections.abc import Callable
from typing import Any

from det_compat.adapters.generations.trial_class import (
    defines,
    full_name,
    init_parameter,
    names_used,
    own_init,
    takes_model,
)
from det_compat.pytorch.context.steering import Steering

logger = logging.getLogger("determined.pytorch")


class Generation(enum.Enum):
    """The ways to write a trial, oldest first."""

    PEDL_STANDARD = "PEDL's Standard Model Definition"
    PEDL = "PEDL"
    DETERMINED_0_12 = "Determined 0.12"
    CONTEXT = "the context API (Determined 0.13 and later)"


_LOADERS = ("build_training_data_loader", "build_validation_data_loader")

_METHODS = {
    Generation.PEDL_STANDARD: ("build_model", "losses", "optimizer"),
    Generation.PEDL: ("build_model", "optimizer", "train_batch"),
    Generation.DETERMINED_0_12: ("build_model", "optimizer", "train_batch"),
    Generation.CONTEXT: ("train_batch", *_LOADERS),
}

# What a trial of the context API does, and no older one.
_WRAPPING = {"wrap_model", "wrap_optimizer", "step_optimizer"}
_TRANSITIONAL = {"Model", "Optimizer", "_Model", "_Optimizer", "_step_optimizer"}


def generation_of(trial_cls: Any) -> Generation:
    """The generation of a trial class, by the methods it defines and what they take.

    Raises:
        TypeError: it is no class, methods of its generation are missing, or it mixes generations.
    """
    if not isinstance(trial_cls, type):
        raise TypeError(
            f"expected a PyTorchTrial class, got {trial_cls!r}: pass the class itself, not an "
            "instance of it"
        )
    generation = _by_methods(trial_cls)
    missing = _missing(trial_cls, generation)
    if missing and not _builds_itself(trial_cls, generation):
        raise TypeError(
            f"{full_name(trial_cls)} looks like a trial of {generation.value} and does not define "
            f"{', '.join(missing)}"
        )
    return generation


def in_context_api(
    trial_cls: Any,
    make_data_loaders: Callable[..., Any] | None = None,
    download_data: Callable[..., Any] | None = None,
) -> type:
    """``trial_cls`` as a class of the context API: itself, or an adapter around it.

    Instances of an adapter have the user's own trial as ``inner``. ``make_data_loaders`` and
    ``download_data`` are the functions of trials without loader methods; without them, they are
    looked up where that generation had them.

    Raises:
        TypeError: as ``generation_of``, or loader functions are given and the trial has methods.
    """
    generation = generation_of(trial_cls)
    logger.info(f"{full_name(trial_cls)} is a trial of {generation.value}")
    if generation is Generation.CONTEXT:
        if make_data_loaders is not None or download_data is not None:
            raise TypeError(
                f"{full_name(trial_cls)} has loader methods, as trials of {generation.value} have: "
                "leave make_data_loaders and download_data out"
            )
        context_cls: type = trial_cls
        return context_cls
    # PEDL's need more than a trial of the context API does.
    if generation is Generation.PEDL_STANDARD:
        from det_compat.adapters.generations.pedl_standard import in_context_api as adapt
    elif generation is Generation.PEDL:
        from det_compat.adapters.generations.pedl_trial import in_context_api as adapt
    else:
        from det_compat.adapters.generations.determined_0_12 import in_context_api as adapt
    return adapt(trial_cls, make_data_loaders, download_data)


def adapted(trial: Any, context: Any) -> Any:
    """``trial``, as a trial of the context API, built with ``context``; the same one each time."""
    trial_cls = type(trial)
    if not _is_given_the_model(trial_cls):
        return trial
    known = Steering(context).adapted_trials
    for adapter in known:
        if adapter.inner is trial:
            return adapter
    adapter_cls: Any = in_context_api(trial_cls)
    known.append(adapter_cls.around(trial, context))
    return known[-1]


def _by_methods(trial_cls: type) -> Generation:
    if _is_pedl_standard(trial_cls):
        return Generation.PEDL_STANDARD
    if not defines(trial_cls, "train_batch"):
        raise TypeError(_no_trial(trial_cls))
    if not _is_given_the_model(trial_cls):
        return Generation.CONTEXT
    _refuse_mixture(trial_cls)
    return Generation.PEDL if _is_pedl(trial_cls) else Generation.DETERMINED_0_12


def _is_pedl_standard(trial_cls: type) -> bool:
    return defines(trial_cls, "losses") and not defines(trial_cls, "train_batch")


def _is_given_the_model(trial_cls: Any) -> bool:
    train_batch = getattr(trial_cls, "train_batch", None)
    if not inspect.isfunction(train_batch):
        return False
    if takes_model(train_batch):
        return True
    # `train_batch(batch, **kwargs)` says nothing; who builds and who steps does.
    spec = inspect.getfullargspec(inspect.unwrap(train_batch))
    takes_anything = spec.varkw is not None and "epoch_idx" not in spec.args
    return takes_anything and _is_built(trial_cls) and not names_used(trial_cls) & _WRAPPING


def _is_built(trial_cls: type) -> bool:
    return defines(trial_cls, "build_model") and defines(trial_cls, "optimizer")


def _refuse_mixture(trial_cls: type) -> None:
    used = names_used(trial_cls) & _WRAPPING
    if used and _is_built(trial_cls):
        raise TypeError(
            f"{full_name(trial_cls)} mixes generations: build_model, optimizer and a train_batch "
            f"with the parameter `model` are those of {Generation.DETERMINED_0_12.value}, "
            f"{', '.join(sorted(used))} of {Generation.CONTEXT.value}. Either remove the calls, "
            "since the library wraps, calls backward and steps; or build and wrap model and "
            "optimizer in __init__, and let train_batch take (batch, epoch_idx, batch_idx)"
        )


def _is_pedl(trial_cls: type) -> bool:
    if any(cls.__module__.startswith("det_compat.pedl") for cls in trial_cls.__mro__):
        return True
    if own_init(trial_cls) is not None and init_parameter(trial_cls) not in (None, "hparams"):
        return False
    return not all(defines(trial_cls, name) for name in _LOADERS)


def _missing(trial_cls: type, generation: Generation) -> list[str]:
    names = [*_METHODS[generation]]
    if generation is Generation.DETERMINED_0_12 and any(defines(trial_cls, n) for n in _LOADERS):
        names.extend(_LOADERS)
    missing = [name for name in names if not callable(getattr(trial_cls, name, None))]
    return missing or [name for name in names if not defines(trial_cls, name)]


def _builds_itself(trial_cls: type, generation: Generation) -> bool:
    """Whether it may be one of 0.12.12's, which wrapped by themselves and still got the model."""
    if generation is not Generation.DETERMINED_0_12:
        return False
    some = any(defines(trial_cls, name) for name in ("build_model", "optimizer"))
    return not some or bool(names_used(trial_cls) & (_WRAPPING | _TRANSITIONAL))


def _no_trial(trial_cls: type) -> str:
    lines = (
        f"{', '.join(_missing(trial_cls, generation))}, for {generation.value}"
        for generation in reversed(Generation)
    )
    return f"{full_name(trial_cls)} is no PyTorchTrial: it does not define {'; '.join(lines)}"

"""Which generation of trials a class belongs to, and how it is brought into the context API."""

import logging
from collections.abc import Callable
from typing import Any

from det_compat.adapters.generations.adapted import AdaptedTrial, LoaderFunctions
from det_compat.adapters.generations.trial_class import ClassFacts, defines, full_name
from det_compat.alias.placeholders import refusal_of
from det_compat.catalog import generations as rules
from det_compat.errors import NotSupportedError
from det_compat.pytorch.context.steering import Steering

logger = logging.getLogger("determined.pytorch")


def generation_of(trial_cls: Any) -> rules.Generation:
    """The generation of a trial class, by the methods it defines and what they take.

    Raises:
        TypeError: it is no class, methods of its generation are missing, or it mixes generations.
        NotSupportedError: it derives from a class of Determined's that det_compat does not have.
    """
    if isinstance(trial_cls, type) and (refusal := refusal_of(trial_cls)) is not None:
        raise NotSupportedError(f"{full_name(trial_cls)} cannot be run: {refusal}")
    if not isinstance(trial_cls, type):
        raise TypeError(
            f"expected a PyTorchTrial class, got {trial_cls!r}: pass the class itself, not an "
            "instance of it"
        )
    facts = ClassFacts(trial_cls)
    if not facts.defines("train_batch") and not facts.defines("losses"):
        raise TypeError(_no_trial(facts, full_name(trial_cls)))
    generation = rules.by_methods(facts)
    if mixed := rules.mixed_in(facts, generation):
        raise TypeError(
            f"{full_name(trial_cls)} mixes generations: build_model, optimizer and a train_batch "
            f"with the parameter `model` are those of {rules.Generation.DETERMINED_0_12.value}, "
            f"{', '.join(mixed)} of {rules.Generation.CONTEXT.value}. Either remove the calls, "
            "since the library wraps, calls backward and steps; or build and wrap model and "
            "optimizer in __init__, and let train_batch take (batch, epoch_idx, batch_idx)"
        )
    missing = rules.missing_methods(facts, generation)
    if missing and not rules.builds_itself(facts, generation):
        raise TypeError(
            f"{full_name(trial_cls)} looks like a trial of {generation.value} and does not define "
            f"{', '.join(missing)}"
        )
    return generation


def check_trial_class(trial_cls: Any) -> None:
    """Raise TypeError unless ``trial_cls`` is a trial class of some generation."""
    if generation_of(trial_cls) is not rules.Generation.CONTEXT:
        return
    unfinished = sorted(getattr(trial_cls, "__abstractmethods__", ()))
    if unfinished:
        raise TypeError(
            f"{full_name(trial_cls)} cannot be built: it does not define {', '.join(unfinished)}"
        )


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
    functions = LoaderFunctions(make_data_loaders, download_data)
    logger.info(f"{full_name(trial_cls)} is a trial of {generation.value}")
    if generation is rules.Generation.CONTEXT:
        if any(functions):
            raise TypeError(
                f"{full_name(trial_cls)} has loader methods, as trials of {generation.value} have: "
                "leave make_data_loaders and download_data out"
            )
        context_cls: type = trial_cls
        return context_cls
    return _adapter(generation, trial_cls).of_class(trial_cls, functions)


def _adapter(generation: rules.Generation, trial_cls: type) -> type[AdaptedTrial]:
    # A trial of the context API needs none of these modules.
    if generation is rules.Generation.PEDL_STANDARD:
        from det_compat.adapters.generations.pedl_standard import PedlStandard

        return PedlStandard
    from det_compat.adapters.generations import determined_0_12

    if generation is rules.Generation.PEDL:
        return determined_0_12.PedlTrial
    if defines(trial_cls, rules.LOADERS[0]):
        return determined_0_12.Determined012
    return determined_0_12.EarlyDetermined012


def adapted(trial: Any, context: Any) -> Any:
    """``trial``, as a trial of the context API, built with ``context``; the same one each time."""
    trial_cls = type(trial)
    if not rules.is_given_the_model(ClassFacts(trial_cls)):
        return trial
    known = Steering(context).adapted_trials
    for adapter in known:
        if adapter.inner is trial:
            return adapter
    adapter_cls: Any = in_context_api(trial_cls)
    known.append(adapter_cls.around(trial, context))
    return known[-1]


def _no_trial(facts: ClassFacts, name: str) -> str:
    lines = (
        f"{', '.join(rules.missing_methods(facts, generation))}, for {generation.value}"
        for generation in reversed(rules.Generation)
    )
    return f"{name} is no PyTorchTrial: it does not define {'; '.join(lines)}"

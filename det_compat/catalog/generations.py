"""The generations of trials, and the rules that tell them apart.

The rules are those by which a trial class is run. ``det_compat.adapters`` applies them to the class
itself, ``check`` and ``migrate`` to its source; what is known of a class comes in as TrialFacts.
The methods of each generation are those of PEDL, of Determined 0.12.3 to 0.12.13 and of 0.38.1.
"""

import enum
from collections.abc import Iterator
from inspect import FullArgSpec
from types import CodeType
from typing import Protocol


class Generation(enum.Enum):
    """The ways to write a trial, oldest first."""

    PEDL_STANDARD = "PEDL's Standard Model Definition"
    PEDL = "PEDL"
    DETERMINED_0_12 = "Determined 0.12"
    CONTEXT = "the context API (Determined 0.13 and later)"


LOADERS = ("build_training_data_loader", "build_validation_data_loader")

_METHODS = {
    Generation.PEDL_STANDARD: ("build_model", "losses", "optimizer"),
    Generation.PEDL: ("build_model", "optimizer", "train_batch"),
    Generation.DETERMINED_0_12: ("build_model", "optimizer", "train_batch"),
    Generation.CONTEXT: ("train_batch", *LOADERS),
}
# Trials of the context API (Determined 0.13 and later) call these, and no older ones do.
_WRAPPING = {"wrap_model", "wrap_optimizer", "step_optimizer"}
# Trials of 0.12.12 and 0.12.13 called these instead.
_TRANSITIONAL = {"Model", "Optimizer", "_Model", "_Optimizer", "_step_optimizer"}


class TrialFacts(Protocol):
    """What the rules ask of a trial class."""

    def defines(self, name: str) -> bool:
        """Whether a method is user code, the class's own or inherited."""

    def parameters(self, name: str) -> FullArgSpec | None:
        """The parameters of a method that user code defines; None if it is no function."""

    def names_used(self) -> set[str]:
        """Every global and attribute that the methods of the user's classes name."""

    def derives_from_pedl(self) -> bool:
        """Whether a class of ``pedl`` is among the bases."""


def by_methods(trial: TrialFacts) -> Generation:
    """The generation of a class, by the methods it defines and what they take."""
    if trial.defines("losses") and not trial.defines("train_batch"):
        return Generation.PEDL_STANDARD
    if not is_given_the_model(trial):
        return Generation.CONTEXT
    return Generation.PEDL if _is_pedl(trial) else Generation.DETERMINED_0_12


def is_given_the_model(trial: TrialFacts) -> bool:
    """Whether ``train_batch`` takes ``(batch, model, epoch_idx, batch_idx)``.

    A ``model`` with a default is something else: nobody else would pass it.
    """
    found = trial.parameters("train_batch")
    if found is None:
        return False
    required = found.args[: len(found.args) - len(found.defaults or ())]
    if "model" in (*required, *found.kwonlyargs):
        return True
    # `train_batch(batch, **kwargs)` does not tell; it does tell who builds the model and who steps.
    takes_anything = found.varkw is not None and "epoch_idx" not in found.args
    return takes_anything and _is_built(trial) and not trial.names_used() & _WRAPPING


def init_parameter(trial: TrialFacts) -> str | None:
    """The name of the first argument that ``__init__`` takes by position; None if it takes none."""
    init = trial.parameters("__init__")
    if init is None:
        return None
    return init.args[1] if len(init.args) > 1 else init.varargs or init.varkw


def mixed_in(trial: TrialFacts, generation: Generation) -> list[str]:
    """The calls of the context API in a trial that the library builds and steps: it mixes both."""
    if generation not in (Generation.PEDL, Generation.DETERMINED_0_12) or not _is_built(trial):
        return []
    return sorted(trial.names_used() & _WRAPPING)


def missing_methods(trial: TrialFacts, generation: Generation) -> list[str]:
    """The methods that trials of a generation have and this one does not define."""
    names = [*_METHODS[generation]]
    if generation is Generation.DETERMINED_0_12 and any(map(trial.defines, LOADERS)):
        names.extend(LOADERS)
    return [name for name in names if not trial.defines(name)]


def builds_itself(trial: TrialFacts, generation: Generation) -> bool:
    """Whether it may be one of 0.12.12's, which wrapped by themselves and still got the model."""
    if generation is not Generation.DETERMINED_0_12:
        return False
    some = trial.defines("build_model") or trial.defines("optimizer")
    return not some or bool(trial.names_used() & (_WRAPPING | _TRANSITIONAL))


def names_in(code: CodeType) -> Iterator[str]:
    """Every global and attribute that a piece of code names, functions in it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def _is_built(trial: TrialFacts) -> bool:
    return trial.defines("build_model") and trial.defines("optimizer")


def _is_pedl(trial: TrialFacts) -> bool:
    if trial.derives_from_pedl():
        return True
    if init_parameter(trial) not in (None, "hparams"):
        return False
    return not all(map(trial.defines, LOADERS))

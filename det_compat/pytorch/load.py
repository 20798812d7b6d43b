"""Loading a trial from a Determined checkpoint, outside of training."""

from __future__ import annotations

import importlib
import logging
import warnings
from typing import Any

import torch

from det_compat import core
from det_compat.checkpoint.reader import Checkpoint, read_checkpoint
from det_compat.errors import InvalidCheckpointException
from det_compat.pytorch.checkpoint_file import load_weights
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.trial import PyTorchTrial
from det_compat.shared.random_state import preserved_random_state

logger = logging.getLogger("determined.pytorch")


class CheckpointLoadContext(PyTorchTrialContext):
    """A context to build a trial with that is not trained: models stay where they are built."""

    def __init__(
        self, hparams: dict[str, Any] | None = None, exp_conf: dict[str, Any] | None = None
    ) -> None:
        super().__init__(
            core_context=core.Context(),
            trial_seed=0,
            hparams=hparams,
            slots_per_trial=1,
            num_gpus=torch.cuda.device_count(),
            exp_conf=exp_conf,
            aggregation_frequency=1,
            steps_completed=0,
            managed_training=False,
            debug_enabled=False,
        )


def load_trial_from_checkpoint_path(
    path: str,
    trial_class: type[PyTorchTrial] | None = None,
    trial_kwargs: dict[str, Any] | None = None,
    torch_load_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> PyTorchTrial:
    """Build the trial of a checkpoint directory and load its models' weights.

    Checkpoints of Determined 0.12 to 0.38.1 and of PEDL are read. Nothing in them is run but, where
    no class is given, the trial's own code. As in 0.38.1, of a trial that has ``build_model``, in a
    checkpoint from before ``load_data.json`` (0.17.7 and earlier), the bare model is returned.

    Args:
        path: the checkpoint's directory.
        trial_class: the class; without it, it is imported from the checkpoint's ``code`` folder.
        trial_kwargs: arguments of the class beside the context.
        torch_load_kwargs: arguments of ``torch.load``, ``map_location`` for example, which is
            ``"cpu"`` without it. ``weights_only=False`` lets the weights' file run code.
        **kwargs: ``trust=True``, which is no argument in Determined, lets every file run code;
            others are an older way to give ``torch_load_kwargs``.

    Raises:
        CorruptCheckpointError: a file of it is there and cannot be read.
        InvalidCheckpointException: the directory is not a PyTorchTrial checkpoint, or is not there.
        UnsafeCheckpointError: a file of it asks for code to run.
        ValueError: the trial class cannot be imported, both ways of arguments are used, or the
            trial has another number of models.
    """
    trust = kwargs.pop("trust", False)
    if kwargs and torch_load_kwargs:
        raise ValueError(
            f"got torch_load_kwargs={torch_load_kwargs} and also {sorted(kwargs)}: give all of "
            "them in torch_load_kwargs"
        )
    if kwargs:
        warnings.warn(
            f"give arguments of torch.load as torch_load_kwargs={kwargs}; keyword arguments of "
            "load_trial_from_checkpoint_path() itself are deprecated, as in Determined 0.38.1",
            FutureWarning,
            stacklevel=2,
        )
    checkpoint = read_checkpoint(
        path, trust=trust, continuing=False, **(torch_load_kwargs or kwargs)
    )
    if trial_class is None:
        trial_class = _import_trial_class(checkpoint)
    context = CheckpointLoadContext(checkpoint.hparams, checkpoint.experiment_config)
    trial, is_adapted = _built(trial_class, context, trial_kwargs or {})
    load_weights(context.models, checkpoint.state)
    loaded: Any = trial
    if is_adapted and not (checkpoint.path / "load_data.json").exists():
        loaded = context.models[0]
    built: PyTorchTrial = loaded
    return built


def _built(
    trial_class: Any, context: CheckpointLoadContext, kwargs: dict[str, Any]
) -> tuple[Any, bool]:
    """The trial, and whether it is of an older generation, which builds nothing by itself."""
    if not hasattr(trial_class, "build_model"):
        return trial_class(context, **kwargs), False
    with preserved_random_state():
        from det_compat.adapters.generations.adapted import user_trial
        from det_compat.adapters.generations.generation import generation_of, in_context_api
        from det_compat.catalog.generations import Generation

    if generation_of(trial_class) is Generation.CONTEXT:
        return trial_class(context, **kwargs), False
    adapted = in_context_api(trial_class, _no_data, _no_data)(context, **kwargs)
    return user_trial(adapted), True


def _no_data(*_: Any) -> str:
    """In place of the functions that download and make data, which a loaded trial does not need."""
    return ""


def _import_trial_class(checkpoint: Checkpoint) -> type[PyTorchTrial]:
    from det_compat.import_path import import_from_path

    spec, code = checkpoint.trial_cls_spec, checkpoint.path / "code"
    if spec is None:
        raise InvalidCheckpointException(
            f"{checkpoint.path} does not say its trial's class: expected load_data.json "
            "(Determined 0.17.8 and later) or the metadata.json of a downloaded checkpoint; pass "
            "the class as trial_class"
        )
    logger.warning(f"importing the trial class {spec} runs code of the checkpoint, from {code}")
    module_name, _, qualname = spec.partition(":")
    try:
        with import_from_path(code):
            found: Any = importlib.import_module(module_name)
            for part in qualname.split("."):
                found = getattr(found, part)
    except Exception as error:
        raise ValueError(
            f"cannot import the trial class {spec} from {code}; pass it as trial_class"
            f"{_hint(error)}"
        ) from error
    trial_class: type[PyTorchTrial] = found
    return trial_class


def _hint(error: Exception) -> str:
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    top = (name or "").partition(".")[0]
    if top not in ("determined", "pedl"):
        return f" ({error})"
    return f". It imports {top}: call det_compat.alias_determined() before, which provides it"
